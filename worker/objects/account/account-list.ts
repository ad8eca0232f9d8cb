/**
 * Accounts in KV: the list of their IDs for the operator, and the origins of those that have some,
 * which are read for requests of pages only. What an account is, its object says.
 */
import * as v from 'valibot';
import { SealpinError } from '../../../shared/errors.ts';

/** An entry of KV; null: there is none of this name. */
export type KvEntry = { name: string; value: string | null };

const prefix = 'account:';

const Origins = v.nullable(v.array(v.string()));

/**
 * Seconds for which a place of Cloudflare's network may keep the origins before it reads KV again.
 */
const cacheTtlSeconds = 60;

/** The entry of an account in the list. @param isListed whether it is there */
export function listEntry(id: string, isListed: boolean): KvEntry {
  return { name: `${prefix}${id}`, value: isListed ? '' : null };
}

/** The origins of an account; null: pages of any origin that `CORS_ORIGINS` allows. */
export function originsEntry(account: string, origins: readonly string[] | null): KvEntry {
  return { name: originsName(account), value: origins === null ? null : JSON.stringify(origins) };
}

/** Reads the origins of an account; none where the entry has another shape. */
export async function readOrigins(store: KVNamespace, account: string): Promise<readonly string[] | null> {
  const stored = await store.get(originsName(account), { type: 'json', cacheTtl: cacheTtlSeconds });
  const origins = v.safeParse(Origins, stored);
  return origins.success ? origins.output : [];
}

function originsName(account: string): string {
  return `origins:${account}`;
}

/**
 * A page of the list, in the order of the IDs. An account that was made or deleted within the last
 * minute may be missing, or still be there.
 * @param cursor of the previous page
 * @throws invalid_request for a cursor that KV does not take
 */
export async function listed(
  store: KVNamespace,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ ids: string[]; cursor: string | undefined }> {
  const page = await store.list({ prefix, limit, cursor: cursor ?? null }).catch((cause: unknown) => {
    if (cursor === undefined || !/cursor|\b400\b/i.test(String(cause))) throw cause;
    throw new SealpinError('invalid_request', 'cursor is not one that this service gave out', { cause });
  });
  return {
    ids: page.keys.map(({ name }) => name.slice(prefix.length)),
    cursor: page.list_complete ? undefined : page.cursor,
  };
}
