/** Who calls: the API key of a request, what the edge knows of it, and the account's private key where the caller may use it. */
import * as v from 'valibot';
import { Scope } from '../../shared/api.ts';
import {
  identityFromPkcs8,
  parseApiKey,
  unsealPrivateKey,
  type ApiKey,
  type Identity,
} from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { settled } from '../objects/result.ts';
import type { Ctx } from '../http/app.ts';
import { edgeName, type Env } from '../env.ts';
import { limitAccount, limitLookup, limitUnknownKey, rememberKey } from './rate-limit.ts';
import type { Account, Reader } from '../objects/account.ts';
import type { NewKey } from '../objects/key-registry.ts';

/** A key's record in KV, under `key:` and the SHA-256 of the key. It is the edge's copy: what counts is the account's own. */
const EdgeKey = v.object({
  v: v.literal(1),
  id: v.string(),
  account: v.string(),
  label: v.string(),
  scopes: v.array(Scope),
  createdAt: v.string(),
  expiresAt: v.optional(v.string()),
  createdBy: v.nullable(v.string()),
  sealed: v.optional(v.string()),
});
type EdgeKey = v.InferOutput<typeof EdgeKey>;

export type Caller = {
  key: ApiKey;
  account: DurableObjectStub<Account>;
  /** The edge's copy of the record; undefined where the edge does not know the key, which proves nothing. */
  edge: EdgeKey | undefined;
};

/** Seconds that a place of Cloudflare may keep a record before it asks again. */
const edgeCacheSeconds = 60;

/**
 * The caller of a request. This does not authorize the key: the account does, in the call that also does the work. The order is by
 * cost: form and checksum of the key, this isolate's memory, KV (billed), then the count that belongs to what KV said.
 * @throws unauthorized when there is no key, or one that cannot be one; rate_limited, overloaded
 */
export async function callerOf(c: Ctx): Promise<Caller> {
  const key = await parseApiKey(bearer(c) ?? '');
  if (key === undefined) throw new SealpinError('unauthorized');
  limitLookup(c, key.hash);
  const edge = v.safeParse(
    EdgeKey,
    await c.env.API_KEYS.get(edgeName(key.hash), { type: 'json', cacheTtl: edgeCacheSeconds }),
  );
  if (edge.success) {
    rememberKey(key.hash);
    await limitAccount(c, key.account);
  } else await limitUnknownKey(c);
  return { key, account: c.env.ACCOUNT.getByName(key.account), edge: edge.success ? edge.output : undefined };
}

/** The token of `Authorization: Bearer …`, if that is what there is. */
export function bearer(c: Ctx): string | undefined {
  return /^bearer +(\S+)$/i.exec(c.req.header('Authorization') ?? '')?.[1];
}

/** Writes the edge's copy of a key. */
export async function writeEdgeKey(env: Env, account: string, key: NewKey): Promise<void> {
  const record: EdgeKey = {
    v: 1,
    id: key.id,
    account,
    label: key.label,
    scopes: key.scopes,
    createdAt: new Date(key.createdAt).toISOString(),
    createdBy: key.createdBy,
    ...(key.expiresAt === null ? {} : { expiresAt: new Date(key.expiresAt).toISOString() }),
    ...(key.sealed === null ? {} : { sealed: key.sealed.toBase64() }),
  };
  await env.API_KEYS.put(edgeName(key.hash), JSON.stringify(record));
}

/** Whether the account has to give the sealed private key along, because the edge has none. */
export function needsSealed(caller: Caller): boolean {
  return caller.edge?.sealed === undefined;
}

/**
 * The account's private key, as an identity that opens what was encrypted to the account. Only for this request.
 * @throws internal when the account holds none that this key opens
 */
export async function identityOf(caller: Caller, reader: Reader): Promise<Identity> {
  return identityFromPkcs8(await privateKeyOf(caller, reader));
}

/**
 * The account's private key in PKCS#8 DER. Only for this request.
 * @throws internal when the account holds none that this key opens
 */
export async function privateKeyOf(caller: Caller, reader: Reader): Promise<Uint8Array> {
  const { id } = reader.key;
  const open = (sealed: Uint8Array): Promise<Uint8Array> =>
    unsealPrivateKey(caller.key, { id, sealed, spki: reader.spki });
  const atEdge = caller.edge?.sealed;
  if (atEdge !== undefined) {
    try {
      return await open(Uint8Array.fromBase64(atEdge));
    } catch (error) {
      // A copy that does not open is a bad copy: the account's own is asked for.
      if (!isSealpinError(error) && !(error instanceof SyntaxError)) throw error;
    }
  }
  const sealed = reader.sealed ?? (await settled(caller.account.sealed(caller.key.hash))).sealed;
  if (sealed === null) throw new SealpinError('internal', 'the key has no sealed private key');
  return await open(sealed);
}
