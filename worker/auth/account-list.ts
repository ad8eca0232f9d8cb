/** The list of accounts in KV, for the operator: their IDs and nothing else. What an account is, its object says. */
import { writeOrigins } from './account-origins.ts';
import { SealpinError } from '../../shared/errors.ts';

const prefix = 'account:';

/** Enters an account in the list. It may be there already. */
export async function enlist(store: KVNamespace, id: string): Promise<void> {
  await store.put(`${prefix}${id}`, '');
}

/** Removes an account from the list, with its origins. */
export async function delist(store: KVNamespace, id: string): Promise<void> {
  await writeOrigins(store, id, null);
  await store.delete(`${prefix}${id}`);
}

/**
 * A page of the list, in the order of the IDs. An account that was made or deleted within the last minute may be missing, or
 * still be there.
 * @param cursor of the previous page
 * @throws invalid_request for a cursor that KV does not take
 */
export async function listed(
  store: KVNamespace,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ ids: string[]; cursor: string | undefined }> {
  const page = await store
    .list({ prefix, limit, ...(cursor === undefined ? {} : { cursor }) })
    .catch((cause: unknown) => {
      if (cursor === undefined || !/cursor|\b400\b/i.test(String(cause))) throw cause;
      throw new SealpinError('invalid_request', 'cursor is not one that this service gave out', { cause });
    });
  return {
    ids: page.keys.map(({ name }) => name.slice(prefix.length)),
    cursor: page.list_complete ? undefined : page.cursor,
  };
}
