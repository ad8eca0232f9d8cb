/**
 * The copies of API keys in KV, which every place of the network reads fast. The account's own
 * record is the one that counts.
 */
import * as v from 'valibot';
import { Scope } from '../../../../shared/api.ts';
import { isoTime } from '../../../../shared/time.ts';
import type { KvEntry } from '../account-list.ts';
import type { KeyRecord } from './key-rows.ts';

/** The record of an API key in KV. */
const CachedKey = v.object({
  v: v.literal(1),
  id: v.string(),
  account: v.string(),
  label: v.string(),
  scopes: v.array(Scope),
  createdAt: v.string(),
  expiresAt: v.optional(v.string()),
  createdBy: v.nullable(v.string()),
});
/** Copy of an API key in KV. */
export type CachedKey = v.InferOutput<typeof CachedKey>;

/**
 * Seconds for which a place of Cloudflare's network, and an isolate there, may keep a record before
 * it reads KV again.
 */
const cacheTtlSeconds = 60;

/**
 * Records that an isolate has read, by hash, and until when it uses them, in ms. None holds a key
 * in the clear.
 */
const recent = new Map<string, { record: CachedKey; until: number }>();
/** The most of them, about 1 MB. */
const maxRecent = 1_000;

/** The name of an API key's record in KV. @param hash SHA-256 of the key, in hex */
export function kvKeyName(hash: string): string {
  return `key:${hash}`;
}

/**
 * Reads the record of an API key: from KV, or what this isolate has read there less than a minute
 * ago.
 * @param hash SHA-256 of the key, in hex
 * @returns undefined without a record, or with one in another shape; neither proves that the key
 * does not exist
 */
export async function readCachedKey(store: KVNamespace, hash: string): Promise<CachedKey | undefined> {
  const known = recent.get(hash);
  if (known !== undefined && Date.now() < known.until) return known.record;
  recent.delete(hash);
  const value = await store.get(kvKeyName(hash), { type: 'json', cacheTtl: cacheTtlSeconds });
  const cached = v.safeParse(CachedKey, value);
  if (!cached.success) return undefined;
  if (recent.size >= maxRecent) recent.clear();
  recent.set(hash, { record: cached.output, until: Date.now() + cacheTtlSeconds * 1000 });
  return cached.output;
}

/** The record of an API key, as KV has it. @param account the ID of its account */
export function keyEntry(account: string, key: KeyRecord & { hash: string }): KvEntry {
  const { id, label, scopes, createdBy } = key;
  const createdAt = isoTime(key.createdAt);
  const expiresAt = isoTime(key.expiresAt);
  const record: CachedKey = { v: 1, id, account, label, scopes, createdAt, createdBy, expiresAt };
  return { name: kvKeyName(key.hash), value: JSON.stringify(record) };
}
