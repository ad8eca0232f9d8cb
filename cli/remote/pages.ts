/** Lists of a service, page by page. */
import type { StoredFile } from '../../shared/api.ts';
import { endlessList } from '../../client/attempts.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { api } from './client.ts';
import type { Service } from './service-choice.ts';

const pageItems = 100;
/** Far more files than anybody stores of the same bytes. */
const maxSameBytes = 10_000;

/** A page as the service gives it: a member has its items. */
type Page<K extends string, T> = Readonly<Record<K, readonly T[]>> & { readonly cursor?: string | undefined };
type Ask<K extends string, T> = (query: { limit: number; cursor: string | undefined }) => Promise<Page<K, T>>;
type Items<T> = { readonly items: readonly T[]; readonly cursor: string | undefined };

/**
 * The pages of a list, up to a number of items.
 * @param member of a page that has the items
 * @throws what `ask` throws, service_answer
 */
export async function* pages<K extends string, T>(
  member: K,
  ask: Ask<K, T>,
  most = Infinity,
): AsyncGenerator<Items<T>, void, undefined> {
  let cursor: string | undefined;
  let left = most;
  const look = endlessList();
  do {
    const { [member]: items, cursor: next } = await ask({ limit: Math.min(pageItems, left), cursor });
    look(items.length, next);
    yield { items, cursor: next };
    left -= items.length;
    cursor = next;
  } while (cursor !== undefined && left > 0);
}

/** The first items of a list, and whether these are all. Fails as `pages`. */
export async function firstItems<K extends string, T>(most: number, member: K, ask: Ask<K, T>) {
  const items: T[] = [];
  let isComplete = false;
  for await (const page of pages(member, ask, most)) {
    items.push(...page.items);
    isComplete = page.cursor === undefined;
  }
  return { items, isComplete };
}

/** The files of the account, or those with a CID, the oldest first. Fails as `pages`. */
export async function* everyFile(
  service: Service,
  context: Context,
  query: { readonly cid?: string } = {},
): AsyncGenerator<StoredFile, void, undefined> {
  for await (const { items } of filePages(service, context, query)) yield* items;
}

/**
 * The IDs of the account's files with a CID.
 * @throws not_found when there is none, service_answer for a list without end, and as `pages`
 */
export async function filesWith(cid: string, service: Service, context: Context): Promise<string[]> {
  const fileIds: string[] = [];
  for await (const { fileId } of everyFile(service, context, { cid })) {
    if (fileIds.length >= maxSameBytes)
      throw new SealpinError('service_answer', `the service reports more than ${maxSameBytes} files with this blob ID`);
    fileIds.push(fileId);
  }
  if (fileIds.length > 0) return fileIds;
  throw new SealpinError('not_found', 'the account has no file with this blob ID', { hint: 'see: sealpin list' });
}

/** The same, by page. @param query `cursor`: that of the page before the first one */
export function filePages(
  service: Service,
  context: Context,
  query: { readonly cid?: string; readonly cursor?: string | undefined } = {},
): AsyncGenerator<Items<StoredFile>, void, undefined> {
  const routes = api(service, context);
  const { cursor: start } = query;
  return pages('files', ({ limit, cursor = start }) => routes.list({ ...query, limit, cursor, order: 'asc' }));
}
