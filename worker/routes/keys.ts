/** `/v1/keys`: API keys that make and revoke API keys. */
import {
  NewApiKey,
  RevokeQuery,
  type ApiKeyList,
  type ApiKeyRecord,
  type NewApiKeyAnswer,
  type Revoked,
} from '../../shared/api.ts';
import { newApiKey, sealPrivateKey } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { errorOf, settled } from '../objects/result.ts';
import { parseQuery, type Ctx } from '../http/app.ts';
import { readJson } from '../http/json-body.ts';
import { callerOf, privateKeyOf, writeEdgeKey } from '../auth/authenticate.ts';
import { refuseIdempotencyKey } from '../upload/idempotency-key.ts';
import { beyond, keyIdOf, type KeyRecord, type NewKey } from '../objects/key-registry.ts';

/** Makes a key within the scopes and the expiry of the caller's. */
export async function createKey(c: Ctx): Promise<Response> {
  const caller = await callerOf(c);
  const maker = await settled(caller.account.issuer(caller.key.hash));
  refuseIdempotencyKey(c);
  const wanted = await readJson(c.req.raw, NewApiKey);
  const expiresAt = wanted.expiresAt === undefined ? maker.key.expiresAt : Date.parse(wanted.expiresAt);
  const record = {
    label: wanted.label,
    scopes: wanted.scopes,
    createdAt: Date.now(),
    expiresAt,
    createdBy: maker.key.id,
  };
  const refusal = beyond(maker.key, record);
  if (refusal !== undefined) throw errorOf(refusal);
  if (expiresAt !== null && expiresAt <= Date.now())
    throw new SealpinError('invalid_request', 'expiresAt is in the past');

  const account = caller.key.account;
  const apiKey = await newApiKey(account);
  const id = keyIdOf(apiKey.hash);
  const { spki } = maker;
  const sealed = wanted.scopes.includes('read')
    ? await sealPrivateKey(apiKey, { id, pkcs8: await privateKeyOf(caller, maker), spki })
    : null;
  const key: NewKey = { id, hash: apiKey.hash, ...record, sealed };
  // KV first, then the object, which commits: a key that only KV knows opens nothing.
  await writeEdgeKey(c.env, account, key);
  await settled(caller.account.addKey(caller.key.hash, key));
  const body: NewApiKeyAnswer = { key: keyAnswer(account, key), apiKey: apiKey.text };
  return c.json(body, 201, { 'Cache-Control': 'no-store' });
}

/** The keys that are not revoked; the caller's is marked. */
export async function listKeys(c: Ctx): Promise<Response> {
  const caller = await callerOf(c);
  const { keys, current } = await settled(caller.account.listKeys(caller.key.hash));
  const body: ApiKeyList = {
    keys: keys.map((key) => ({
      ...keyAnswer(caller.key.account, key),
      ...(key.id === current ? { current: true } : {}),
    })),
  };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/**
 * Revokes a key, with `?cascade=true` its descendants too. The caller's own goes only with `?self=true`, the last one with `read` or
 * `keys` only with `?destroy=true`.
 */
export async function revokeKey(c: Ctx): Promise<Response> {
  const caller = await callerOf(c);
  const { cascade, destroy, self } = parseQuery(c, RevokeQuery);
  const o = { cascade: cascade === 'true', destroy: destroy === 'true', self: self === 'true' };
  const { revoked } = await settled(caller.account.revokeKey(caller.key.hash, c.req.param('id') ?? '', o));
  const body: Revoked = { revoked: [...revoked] };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/** A key's record in the shape of the API. */
export function keyAnswer(account: string, key: KeyRecord): ApiKeyRecord {
  return {
    id: key.id,
    account,
    label: key.label,
    scopes: key.scopes,
    createdAt: new Date(key.createdAt).toISOString(),
    ...(key.expiresAt === null ? {} : { expiresAt: new Date(key.expiresAt).toISOString() }),
    createdBy: key.createdBy,
  };
}
