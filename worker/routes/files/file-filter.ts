/** The list of files: from its query to a page of rows, and to the cursor of the next one. */
import type { ListQuery } from '../../../shared/api.ts';
import { detachedPayloadBytes } from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { parseCid } from '../../../shared/ipfs/index.ts';
import type * as v from 'valibot';
import type { FileFilter, PageOptions } from '../../objects/account/files/file-list.ts';

type Query = v.InferOutput<typeof ListQuery>;

/** Hex characters of the mark in a cursor: enough to notice a mistake. */
const markCharacters = 8;

/** A page that a query asks for, and `cursor`, which makes the cursor of the next one. */
export type ListPage = PageOptions & { cursor(next: number): string };

/**
 * Parses the query of a list.
 * @param standIns makes what may stand for a tag
 * @throws invalid_request where a cursor belongs to a list with other filters, and for names and
 * types of encrypted files, which nobody can compare; invalid_cid
 */
export async function parseListPage(
  { limit, cursor, ...filters }: Query,
  standIns: (tag: string) => Promise<string[]>,
): Promise<ListPage> {
  const { order, tag, ...others } = filters;
  const mark = await markOf(filters);
  const [place, marked = ''] = cursor?.split('-') ?? [];
  if (place !== undefined && marked !== mark)
    throw new SealpinError('invalid_request', 'cursor belongs to a list with other filters, or in another order', {
      hint: 'repeat all parameters of the request that the cursor came from',
    });
  return {
    limit,
    after: place === undefined ? undefined : Number.parseInt(place, 36),
    ascending: order === 'asc',
    filter: { ...filterOf(others), tags: tag === undefined ? undefined : await standIns(tag) },
    cursor: (next) => `${next.toString(36)}${mark === '' ? '' : `-${mark}`}`,
  };
}

function filterOf({
  cid,
  minSize,
  maxSize,
  contentType,
  name,
  ...query
}: Omit<Query, 'limit' | 'cursor' | 'order' | 'tag'>): FileFilter {
  const isSealed = (contentType !== undefined || name !== undefined) && query.mode !== 'plain';
  if (isSealed)
    throw new SealpinError('invalid_request', 'name and contentType need mode=plain', {
      hint: 'the names and types of encrypted files are sealed, so the service cannot look for them',
    });
  return {
    mode: query.mode,
    createdBy: query.createdBy,
    cid: cid === undefined ? undefined : parseCid(cid).text,
    createdAfter: timestampMs(query.createdAfter),
    createdBefore: timestampMs(query.createdBefore),
    bytes: minSize === undefined && maxSize === undefined ? undefined : byteBounds(minSize ?? 0, maxSize),
    contentType: contentType?.toLowerCase(),
    name,
  };
}

function byteBounds(min: number, max = Infinity): FileFilter['bytes'] {
  const sealed = (size: number): number => (size === Infinity ? Infinity : detachedPayloadBytes(size));
  return { plain: { min, max }, encrypted: { min: sealed(min), max: sealed(max) } };
}

function timestampMs(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}

/** Identifies the filters of a list in its cursors; empty for a list without any. */
async function markOf(filters: Omit<Query, 'limit' | 'cursor'>): Promise<string> {
  const given = Object.entries(filters).filter(([, value]) => value !== undefined);
  if (given.length === 0) return '';
  const text = JSON.stringify(given.sort(([one], [other]) => (one < other ? -1 : 1)));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return new Uint8Array(digest).toHex().slice(0, markCharacters);
}
