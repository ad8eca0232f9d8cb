/** The API key of a request, and the account's private key where the key may use it. */
import {
  identityFromPair,
  keyIdOf,
  openPreviousKey,
  parseApiKey,
  unsealPrivateKey,
  type ApiKey,
  type Identity,
} from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Ctx } from '../http/app.ts';
import { readOrigins } from '../objects/account/account-list.ts';
import { readCachedKey, type CachedKey } from '../objects/account/keys/key-cache.ts';
import { limitAccount, limitLookup, limitUnknownKey } from './rate-limit.ts';
import type { Account } from '../objects/account/account.ts';
import type { KeyMaterial } from '../objects/account/keys/key-rows.ts';

/** The API key that makes a request, and the object of its account. */
export type Principal = {
  key: ApiKey;
  account: DurableObjectStub<Account>;
  /** KV's copy of the record; undefined where KV has none, which proves nothing. */
  cached: CachedKey | undefined;
};

/**
 * The principal of a request. This does not authorize the key: the account does so, in the call
 * that also does the work. The checks are ordered by cost: form and checksum of the key, this
 * isolate's memory, KV (billed), then the rate limit that KV's answer selects.
 * @throws unauthorized without a key, or with a text that cannot be one; rate_limited, overloaded;
 * forbidden for a page whose origin the account does not allow
 */
export async function authenticate(c: Ctx): Promise<Principal> {
  const key = await parseApiKey(bearer(c) ?? '');
  if (key === undefined) throw new SealpinError('unauthorized');
  limitLookup(c, key.hash);
  const cached = await readCachedKey(c.env.API_KEYS, key.hash);
  await (cached === undefined ? limitUnknownKey(c) : limitAccount(c, key, cached));
  await checkOrigin(c, key.account);
  c.set('usedBy', { account: key.account, keyId: keyIdOf(key.hash) });
  return { key, account: c.env.ACCOUNT.getByName(key.account), cached };
}

/**
 * Checks the `Origin` of a request with a key of an account. A request without one is not a page's,
 * or is a page's of this service. A preflight carries no key, so that CORS itself cannot differ by
 * account (Fetch standard, section 4.8): this refuses the request that follows it.
 */
async function checkOrigin(c: Ctx, account: string): Promise<void> {
  const origin = c.req.header('Origin');
  if (origin === undefined || origin === new URL(c.req.url).origin) return;
  const origins = await readOrigins(c.env.API_KEYS, account);
  if (origins !== null && !origins.includes(origin))
    throw new SealpinError('forbidden', 'pages of this origin may not use the keys of this account', {
      hint: 'ask the operator of the service to add the origin to the account',
    });
}

/** The token of `Authorization: Bearer …` (RFC 6750 section 2.1); undefined for any other value. */
export function bearer(c: Ctx): string | undefined {
  return /^bearer +(\S+)$/i.exec(c.req.header('Authorization') ?? '')?.[1];
}

/**
 * The account's private key as an identity, which opens what was encrypted to the account; while a
 * rotation runs, that of the pair before, too. They live as long as the request.
 * @throws internal when the account holds none that this API key opens
 */
export async function identitiesOf(principal: Principal, material: KeyMaterial): Promise<Identity[]> {
  return (await pairsOf(principal, material)).map(({ pkcs8, spki }) => identityFromPair(pkcs8, spki));
}

/** The account's pair in DER; during a rotation the one before, too; fails as `privateKeyOf`. */
export async function pairsOf(principal: Principal, material: KeyMaterial) {
  const { spki, previous } = material;
  const pair = { pkcs8: await privateKeyOf(principal, material), spki };
  if (previous === null) return [pair];
  return [pair, { pkcs8: await openPreviousKey(previous.sealed, pair), spki: previous.spki }];
}

/**
 * The account's private key in PKCS#8 DER. It lives as long as the request.
 * @throws internal when the account holds none that this API key opens
 */
export async function privateKeyOf({ key }: Principal, material: KeyMaterial): Promise<Uint8Array> {
  const { sealed, spki } = material;
  if (sealed === null) throw new SealpinError('internal', 'the key has no sealed private key');
  return await unsealPrivateKey(key, { id: material.key.id, sealed, spki });
}
