/**
 * Conditional and range requests (RFC 9110 sections 13 and 14). Files never change, so an ETag
 * compares all that there is.
 */
import { SealpinError } from '../../shared/errors.ts';

/** Bytes of a representation; `end` is exclusive. */
export type Span = { start: number; end: number };

const entityTag = /(?:W\/)?"[!\u0023-\u007e\u0080-\u00ff]*"/g;

/**
 * Tells whether the response is 304, because the client has the representation already (section
 * 13.2.2). Dates count only if the client sends no tags.
 * @param headers of the request
 * @param etag of the representation, a strong one, with its quotes
 * @param lastModified of the representation, an HTTP-date, where it has one
 * @throws precondition_failed when `If-Match` names other tags only, or `If-Unmodified-Since` is
 * earlier than `lastModified`
 */
export function isNotModified(headers: Headers, etag: string, lastModified: string | null = null): boolean {
  const modified = parseDate(lastModified);
  const match = headers.get('If-Match');
  const unmodifiedSince = parseDate(headers.get('If-Unmodified-Since'));
  const hasFailed =
    match === null
      ? modified !== undefined && unmodifiedSince !== undefined && modified > unmodifiedSince
      : match.trim() !== '*' && !tagsIn(match).includes(etag);
  if (hasFailed) throw new SealpinError('precondition_failed');
  const noneMatch = headers.get('If-None-Match');
  if (noneMatch !== null)
    return noneMatch.trim() === '*' || tagsIn(noneMatch).some((tag) => tag.replace(/^W\//, '') === etag);
  const modifiedSince = parseDate(headers.get('If-Modified-Since'));
  return modified !== undefined && modifiedSince !== undefined && modified <= modifiedSince;
}

/** The conditions that a request which changes something can have. */
const changeConditions = ['If-Match', 'If-None-Match', 'If-Unmodified-Since'] as const;

/** Tells whether a request has such a condition. */
export function isConditional(headers: Headers): boolean {
  return changeConditions.some((name) => headers.has(name));
}

/**
 * Checks the conditions of a request that changes something which exists.
 * @param etags of what it changes, in each form that has one
 * @param lastModified when it last changed, as an HTTP-date; null: not known
 * @throws precondition_failed; invalid_request for a condition that cannot be read
 */
export function checkConditions(headers: Headers, etags: readonly string[], lastModified: string | null): void {
  const match = headers.get('If-Match')?.trim();
  const noneMatch = headers.get('If-None-Match')?.trim();
  const since = headers.get('If-Unmodified-Since');
  const unmodifiedSince = parseDate(since);
  for (const [name, tags] of [
    ['If-Match', match],
    ['If-None-Match', noneMatch],
  ] as const)
    if (tags !== undefined && tags !== '*' && tagsIn(tags).length === 0) throw unreadable(name, 'an ETag');
  if (since !== null && unmodifiedSince === undefined) throw unreadable('If-Unmodified-Since', 'an HTTP-date');
  const named = tagsIn(match ?? '');
  const isOther = match !== undefined && match !== '*' && !etags.some((etag) => named.includes(etag));
  // A date counts only where the client sends no tags (section 13.2.2).
  const isLater = match === undefined && (parseDate(lastModified) ?? 0) > (unmodifiedSince ?? Infinity);
  const known = tagsIn(noneMatch ?? '').map((tag) => tag.replace(/^W\//, ''));
  const isKnown = noneMatch === '*' || etags.some((etag) => known.includes(etag));
  if (isOther || isLater || isKnown) throw new SealpinError('precondition_failed');
}

function unreadable(name: string, expected: string): SealpinError {
  return new SealpinError('invalid_request', `${name} cannot be read`, { hint: `send ${expected}` });
}

/**
 * An HTTP-date in ms; undefined for any other text. Of the three forms (section 5.6.7) asctime's
 * has no zone.
 */
function parseDate(text: string | null): number | undefined {
  if (text === null || !/^[A-Z][a-z]+,? .*\d\d:\d\d:\d\d/.test(text)) return undefined;
  const ms = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`);
  return Number.isNaN(ms) ? undefined : ms;
}

/**
 * Parses the `Range` of a GET (section 14.2). Anything but exactly one range of bytes is ignored,
 * as the section allows, and so is a range of another version (`If-Range`).
 * @param headers of the request
 * @param etag of the representation, with its quotes
 * @param size of the representation, in bytes
 * @returns undefined for the whole representation, `outside` for a range that has none of its bytes
 */
export function parseRange(headers: Headers, etag: string, size: number): Span | 'outside' | undefined {
  const match = /^bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*$/i.exec(headers.get('Range') ?? '');
  if (match === null) return undefined;
  const [, first = '', last = ''] = match;
  if (first === '' && last === '') return undefined;
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined;
  const condition = headers.get('If-Range');
  if (condition !== null && condition.trim() !== etag) return undefined;
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? { start, end } : 'outside';
}

function tagsIn(header: string): string[] {
  return header.match(entityTag) ?? [];
}
