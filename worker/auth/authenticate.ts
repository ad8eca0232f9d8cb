/**
 * The API key of a request: what KV knows of it, and the account's private key where the key may
 * use it.
 */
import {
  identityFromPair,
  keyIdOf,
  parseApiKey,
  unsealPrivateKey,
  type ApiKey,
  type Identity,
} from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { unwrap } from '../objects/result.ts';
import type { Ctx } from '../http/app.ts';
import { checkOrigin } from './account-origins.ts';
import { readCachedKey, type CachedKey } from '../objects/account/keys/key-cache.ts';
import { limitAccount, limitLookup, limitUnknownKey, rememberKey } from './rate-limit.ts';
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
  if (cached === undefined) await limitUnknownKey(c);
  else {
    rememberKey(key.hash);
    await limitAccount(c, key.account, cached);
  }
  await checkOrigin(c, key.account);
  c.set('usedBy', { account: key.account, keyId: keyIdOf(key.hash) });
  return { key, account: c.env.ACCOUNT.getByName(key.account), cached };
}

/** The token of `Authorization: Bearer …` (RFC 6750 section 2.1); undefined for any other value. */
export function bearer(c: Ctx): string | undefined {
  return /^bearer +(\S+)$/i.exec(c.req.header('Authorization') ?? '')?.[1];
}

/** Tells whether the account must add the sealed private key to its result, because KV has none. */
export function needsSealed(principal: Principal): boolean {
  return principal.cached?.sealed === undefined;
}

/**
 * The account's private key as an identity, which opens what was encrypted to the account. It lives
 * as long as the request.
 * @throws internal when the account holds none that this API key opens
 */
export async function identityOf(principal: Principal, material: KeyMaterial): Promise<Identity> {
  return identityFromPair(await privateKeyOf(principal, material), material.spki);
}

/**
 * The account's private key in PKCS#8 DER. It lives as long as the request.
 * @throws internal when the account holds none that this API key opens
 */
export async function privateKeyOf(principal: Principal, material: KeyMaterial): Promise<Uint8Array> {
  const { id } = material.key;
  const open = (sealed: Uint8Array): Promise<Uint8Array> =>
    unsealPrivateKey(principal.key, { id, sealed, spki: material.spki });
  const cached = principal.cached?.sealed;
  if (cached !== undefined) {
    try {
      return await open(Uint8Array.fromBase64(cached));
    } catch (error) {
      // A copy that does not open is damaged: the account has the original.
      if (!isSealpinError(error) && !(error instanceof SyntaxError)) throw error;
    }
  }
  const sealed = material.sealed ?? (await unwrap(principal.account.sealed(principal.key.hash))).sealed;
  if (sealed === null) throw new SealpinError('internal', 'the key has no sealed private key');
  return await open(sealed);
}
