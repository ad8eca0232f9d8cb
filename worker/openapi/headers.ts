/** Headers of requests and responses as the document describes them. */
import { describe, type Code } from '../../shared/errors.ts';
import { tusVersion } from '../../shared/tus-protocol.ts';
import type { JsonSchema } from './schemas.ts';

const textSchema = { type: 'string' };
const byteCount = { type: 'integer', format: 'int64', minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

/** The shapes of request headers; any other one is text. */
export const requestHeaders: Readonly<Record<string, JsonSchema>> = {
  'Content-Digest': { ...textSchema, examples: ['sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:'] },
  'Content-Disposition': { ...textSchema, examples: ["attachment; filename*=UTF-8''report.pdf"] },
  'Idempotency-Key': {
    ...textSchema,
    minLength: 1,
    maxLength: 255,
    pattern: '^[ -~]+$',
    examples: ['5f2b1c9e-6a0d-4c38-9b7e-0d1f2a3b4c5d'],
  },
  Range: { ...textSchema, examples: ['bytes=0-99'] },
  'Repr-Digest': { ...textSchema, examples: ['sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:'] },
  'Tus-Resumable': { ...textSchema, enum: [tusVersion] },
  'Upload-Defer-Length': { ...textSchema, enum: ['1'] },
  'Upload-Length': byteCount,
  'Upload-Metadata': { ...textSchema, examples: ['filename cmVwb3J0LnBkZg==,filetype YXBwbGljYXRpb24vcGRm'] },
  'Upload-Offset': byteCount,
  'Want-Repr-Digest': { ...textSchema, examples: ['sha-256=10'] },
};

/**
 * Request headers that a parameter of a document cannot describe (OpenAPI 3.1, Parameter Object):
 * its text goes elsewhere.
 */
export const undescribable: ReadonlySet<string> = new Set(['Accept', 'Authorization', 'Content-Type']);

function header(description: string, schema: JsonSchema = textSchema) {
  return { description, schema };
}

/** Every header of a response that a client can use. */
export const responseHeaders = {
  Allow: header('the methods of the path'),
  'Accept-Ranges': header('`bytes` where a range can be read', { enum: ['bytes', 'none'], ...textSchema }),
  'Content-Disposition': header('the filename'),
  'Content-Length': header('the number of bytes', { type: 'integer', format: 'int64' }),
  'Content-Range': header('which bytes these are, and of how many'),
  ETag: header('of this representation; strong'),
  'Idempotency-Replayed': header('`true` on the response to a request that repeats an earlier one', {
    enum: ['true'],
    ...textSchema,
  }),
  'Last-Modified': header('when the file was stored'),
  Link: header('the next page of a list (`rel="next"`)'),
  Location: header('the path of what was created'),
  RateLimit: header('that nothing is left of the limit, and for how many seconds'),
  'RateLimit-Policy': header(
    'the limit that the request counts for, where the operator tells it: requests `q` in `w` seconds',
  ),
  'Repr-Digest': header('SHA-256 of the whole representation, where the CID tells it'),
  'Retry-After': header('seconds after which to try again', { type: 'integer', minimum: 0 }),
  'Sealpin-Cid': header('the CID of the file, once every byte has arrived'),
  'Sealpin-File': header('the ID of the file, once every byte has arrived', { ...textSchema, format: 'uuid' }),
  'Tus-Extension': header('the extensions of tus, separated by commas'),
  'Tus-Max-Size': header('the largest file', byteCount),
  'Tus-Resumable': header('the version of tus', { ...textSchema, enum: [tusVersion] }),
  'Tus-Version': header('the versions of tus that the service knows'),
  'Upload-Defer-Length': header('`1` until the length is known', { ...textSchema, enum: ['1'] }),
  'Upload-Expires': header('when the upload expires, unless it is continued before'),
  'Upload-Length': header('bytes of the file', byteCount),
  'Upload-Metadata': header('as it was sent'),
  'Upload-Offset': header('how many bytes of the file have arrived', byteCount),
  'WWW-Authenticate': header('the scheme: `Bearer`'),
  'X-Request-Id': header('the ID of the request in the log of the service', { ...textSchema, format: 'uuid' }),
};

export type ResponseHeaderName = keyof typeof responseHeaders;

/** The headers of problems, by what they say. */
const ofProblems: Readonly<Record<number, readonly ResponseHeaderName[]>> = {
  401: ['WWW-Authenticate'],
  405: ['Allow'],
  416: ['Content-Range'],
  429: ['Retry-After', 'RateLimit'],
  503: ['Retry-After'],
};

/** Codes of 409 with which a client may try again by itself. */
const retried: readonly Code[] = ['idempotency_running', 'finishing', 'conflict'];

/** The names of the headers of a problem with one of these codes, which share a status. */
export function headersOfProblem(codes: readonly Code[]): ResponseHeaderName[] {
  const byStatus = codes.flatMap((code) => ofProblems[describe(code).status] ?? []);
  const isWorthRetrying = codes.some((code) => retried.includes(code));
  return [...new Set([...byStatus, ...(isWorthRetrying ? (['Retry-After'] as const) : [])])];
}
