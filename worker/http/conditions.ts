/** Conditional and range requests (RFC 9110 sections 13 and 14) on things that never change: an ETag is all there is to compare. */
import { SealpinError } from '../../shared/errors.ts';

/** Bytes of a representation; `end` is exclusive. */
export type Span = { start: number; end: number };

const entityTag = /(?:W\/)?"[!\u0023-\u007e\u0080-\u00ff]*"/g;

/**
 * Whether a client has what it asks for already (section 13.2.2). Dates count where the client sends no tags.
 * @param headers of the request
 * @param etag ours, a strong one
 * @param lastModified ours, where there is one
 * @throws precondition_failed when `If-Match` names others only, or `If-Unmodified-Since` is earlier than ours
 */
export function isKnown(headers: Headers, etag: string, lastModified: string | null = null): boolean {
  const modified = dateOf(lastModified);
  const match = headers.get('If-Match');
  const unmodifiedSince = dateOf(headers.get('If-Unmodified-Since'));
  const isOther =
    match === null
      ? modified !== undefined && unmodifiedSince !== undefined && modified > unmodifiedSince
      : match.trim() !== '*' && !tags(match).includes(etag);
  if (isOther) throw new SealpinError('precondition_failed');
  const noneMatch = headers.get('If-None-Match');
  if (noneMatch !== null)
    return noneMatch.trim() === '*' || tags(noneMatch).some((tag) => tag.replace(/^W\//, '') === etag);
  const modifiedSince = dateOf(headers.get('If-Modified-Since'));
  return modified !== undefined && modifiedSince !== undefined && modified <= modifiedSince;
}

/** An HTTP-date in ms, in any of its three forms (section 5.6.7), of which asctime's leaves the zone out. */
function dateOf(text: string | null): number | undefined {
  if (text === null || !/^[A-Z][a-z]+,? .*\d\d:\d\d:\d\d/.test(text)) return undefined;
  const ms = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`);
  return Number.isNaN(ms) ? undefined : ms;
}

/**
 * The one range that a GET asks for (section 14.2). Anything that is not exactly one range of bytes is left out of account, as the
 * section allows, and so is a range of another version (`If-Range`).
 * @returns undefined: all of it
 */
export function rangeOf(headers: Headers, etag: string, size: number): Span | 'outside' | undefined {
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

function tags(header: string): string[] {
  return header.match(entityTag) ?? [];
}
