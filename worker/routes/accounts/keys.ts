/** `/v1/keys`: API keys create, list and revoke API keys. */
import { NewApiKey, RevokeQuery, type ApiKeyList, type NewApiKeyResponse } from '../../../shared/api.ts';
import { keyIdOf, newApiKey, sealPrivateKey, signerOf, type ApiKey } from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { toError, unwrap } from '../../objects/result.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import { readJson } from '../../http/json-body.ts';
import { privateKeyOf, type Principal } from '../../auth/authenticate.ts';
import { refuseIdempotencyKey } from '../../upload/idempotency-key.ts';
import { exceedsIssuer, type NewKey } from '../../objects/account/keys/key-rows.ts';
import { keyView, revokedView } from './account-view.ts';

/** Creates a key within the scopes, the expiry and the limits of the issuer's. */
export async function createKey(c: Ctx, principal: Principal): Promise<Response> {
  const issuer = await unwrap(principal.account.caller(principal.key.hash, 'keys'));
  refuseIdempotencyKey(c);
  const requested = await readJson(c.req.raw, NewApiKey);
  const expiresAt = requested.expiresAt === undefined ? issuer.key.expiresAt : Date.parse(requested.expiresAt);
  const { label, scopes } = requested;
  const isLimited = (issuer.key.limits ?? requested.limits) !== undefined;
  const limits = isLimited ? { ...issuer.key.limits, ...requested.limits } : undefined;
  const record = { label, scopes, expiresAt, createdBy: issuer.key.id, limits };
  const failure = exceedsIssuer(issuer.key, record);
  if (failure !== undefined) throw toError(failure);
  if (expiresAt !== null && expiresAt <= Date.now())
    throw new SealpinError('invalid_request', 'expiresAt is in the past');

  const { account: id } = principal.key;
  const { spki } = issuer;
  const pkcs8 = requested.scopes.includes('read') ? await privateKeyOf(principal, issuer) : null;
  const { apiKey, key } = await newKey({ id, spki, pkcs8 }, record);
  await unwrap(principal.account.keys.add(principal.key.hash, key, spki));
  return c.json<NewApiKeyResponse>({ key: keyView(id, key), apiKey: apiKey.text }, 201);
}

/** Makes a key of an account. @param account `pkcs8`: null for a key that opens no files */
export async function newKey(
  { id: account, pkcs8, spki }: { id: string; pkcs8: Uint8Array | null; spki: Uint8Array },
  about: Omit<NewKey, 'id' | 'hash' | 'signer' | 'createdAt' | 'sealed'>,
): Promise<{ apiKey: ApiKey; key: NewKey }> {
  const apiKey = await newApiKey(account);
  const { hash } = apiKey;
  const id = keyIdOf(hash);
  const sealed = pkcs8 && (await sealPrivateKey(apiKey, { id, pkcs8, spki }));
  return { apiKey, key: { ...about, id, hash, signer: signerOf(apiKey), createdAt: Date.now(), sealed } };
}

/** Lists the keys that are not revoked, and marks the one of the request. */
export async function listKeys(c: Ctx, principal: Principal): Promise<Response> {
  const { keys, current } = await unwrap(principal.account.keys.list(principal.key.hash));
  const views = keys.map((key) => ({
    ...keyView(principal.key.account, key),
    current: key.id === current || undefined,
  }));
  return c.json<ApiKeyList>({ keys: views });
}

/**
 * Revokes a key, with `?cascade=true` its descendants too; the shares that they made end. The key
 * of the request needs `?self=true`, the last one with `read` or `keys` needs `?destroy=true`.
 */
export async function revokeKey(c: Ctx, { account, key }: Principal): Promise<Response> {
  const { cascade = false, destroy = false, self = false } = parseQuery(c, RevokeQuery);
  const id = c.req.param('id') ?? '';
  return c.json(revokedView(await unwrap(account.keys.revoke(key.hash, id, { cascade, destroy, self }))));
}
