/** Parts that the rows of several routes have in common. */
import { usageDays } from '../../shared/api.ts';
import type { Code } from '../../shared/errors.ts';

export const json = 'application/json';
export const bytesType = 'application/octet-stream';
export const pinning: readonly Code[] = ['pinning_failed', 'pinning_unavailable', 'pinning_timeout', 'disk_full'];
export const reading: readonly Code[] = [...pinning, 'pinning_lost', 'content_mismatch'];
export const conditions = { 'If-Match': 'ETags', 'If-None-Match': 'ETags' };
export const dates = { 'If-Modified-Since': 'an HTTP-date', 'If-Unmodified-Since': 'an HTTP-date' };
export const range = { Range: 'one range of bytes', 'If-Range': 'an ETag' };
export const usageDescription =
  `A row for each key and day of UTC on which it made a request, for ${usageDays} days. What is counted arrives up ` +
  'to some 20 seconds later.';
/** The headers of a representation, and of stored bytes, by status. */
export const representation = ['ETag', 'Content-Length', 'Accept-Ranges'] as const;
export const entity = [...representation, 'Content-Disposition', 'Repr-Digest'] as const;
const dated = [...entity, 'Last-Modified'] as const;
export const whole = { 200: dated, 206: [...dated, 'Content-Range'], 304: ['ETag', 'Last-Modified'] } as const;
export const readCodes: readonly Code[] = [
  'not_found',
  'finishing',
  'content_denied',
  'not_acceptable',
  'precondition_failed',
  'range_not_satisfiable',
  'decrypt_failed',
  ...reading,
];
