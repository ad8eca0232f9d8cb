/** Conditional and range requests. */
import { expect, it } from 'vitest';
import { isNotModified, parseRange } from '../../http/conditions.ts';

const etag = '"a-raw"';

it('understands the ranges of RFC 9110 section 14, one at a time', () => {
  const range = (text: string, size = 10): unknown => parseRange(new Headers({ Range: text }), etag, size);
  expect(range('bytes=0-0')).toEqual({ start: 0, end: 1 });
  expect(range('bytes=2-5')).toEqual({ start: 2, end: 6 });
  expect(range('Bytes= 2-99 ')).toEqual({ start: 2, end: 10 });
  expect(range('bytes=9-')).toEqual({ start: 9, end: 10 });
  expect(range('bytes=-3')).toEqual({ start: 7, end: 10 });
  expect(range('bytes=-99')).toEqual({ start: 0, end: 10 });
  for (const text of ['bytes=10-', 'bytes=10-20', 'bytes=-0', 'bytes=99999999999999999999-'])
    expect(range(text), text).toBe('outside');
  for (const text of ['bytes=0-', 'bytes=-1']) expect(range(text, 0)).toBe('outside');
  for (const text of ['bytes=5-2', 'bytes=-', 'bytes=0-1,3-4', 'bytes 0-1', 'lines=0-1', 'bytes=a-b', ''])
    expect(range(text), text).toBe(undefined);
});

it('ignores a range of another version', () => {
  const range = (condition: string): unknown =>
    parseRange(new Headers({ Range: 'bytes=0-0', 'If-Range': condition }), etag, 10);
  expect(range(etag)).toEqual({ start: 0, end: 1 });
  for (const other of [`W/${etag}`, '"b-raw"', 'Wed, 21 Oct 2015 07:28:00 GMT']) expect(range(other)).toBeUndefined();
});

it('recognizes what a client has', () => {
  const known = (headers: Record<string, string>): boolean => isNotModified(new Headers(headers), etag);
  expect(known({})).toBe(false);
  for (const text of [etag, '*', `"x", W/${etag}`]) expect(known({ 'If-None-Match': text })).toBe(true);
  expect(known({ 'If-None-Match': '"x"' })).toBe(false);
  for (const text of [etag, '*', `"x", ${etag}`]) expect(known({ 'If-Match': text })).toBe(false);
  for (const text of ['"x"', `W/${etag}`, ''])
    expect(() => known({ 'If-Match': text })).toThrow(expect.objectContaining({ code: 'precondition_failed' }));
});

it('uses dates where the client sends no tags', () => {
  const ours = 'Sun, 06 Nov 1994 08:49:37 GMT';
  const known = (headers: Record<string, string>, lastModified: string | null = ours): boolean =>
    isNotModified(new Headers(headers), '"a"', lastModified);
  for (const date of [ours, 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994']) {
    expect(known({ 'If-Modified-Since': date }), date).toBe(true);
    expect(known({ 'If-Unmodified-Since': date }), date).toBe(false);
  }
  const before = 'Sun, 06 Nov 1994 08:49:36 GMT';
  expect(known({ 'If-Modified-Since': before })).toBe(false);
  expect(() => known({ 'If-Unmodified-Since': before })).toThrow(/precondition/i);
  // Tags go before dates, and what is no date is none.
  expect(known({ 'If-Modified-Since': ours, 'If-None-Match': '"b"' })).toBe(false);
  expect(known({ 'If-Unmodified-Since': before, 'If-Match': '"a"' })).toBe(false);
  for (const text of ['', '1', '2030-01-01', 'Sunday', '0']) {
    expect(known({ 'If-Modified-Since': text, 'If-Unmodified-Since': text }), text).toBe(false);
  }
  expect(known({ 'If-Modified-Since': ours, 'If-Unmodified-Since': before }, null)).toBe(false);
});
