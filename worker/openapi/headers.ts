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

type ResponseHeader = { description: string; schema: JsonSchema };

/** Every header of a response that a client can use. */
export const responseHeaders = {
  Allow: { description: 'the methods of the path', schema: textSchema },
  'Accept-Ranges': {
    description: '`bytes` where a range can be read',
    schema: { enum: ['bytes', 'none'], ...textSchema },
  },
  'Content-Disposition': { description: 'the filename', schema: textSchema },
  'Content-Length': { description: 'the number of bytes', schema: { type: 'integer', format: 'int64' } },
  'Content-Range': { description: 'which bytes these are, and of how many', schema: textSchema },
  ETag: { description: 'of this representation; strong', schema: textSchema },
  'Idempotency-Replayed': {
    description: '`true` on the response to a request that repeats an earlier one',
    schema: { enum: ['true'], ...textSchema },
  },
  'Last-Modified': { description: 'when the file was stored', schema: textSchema },
  Link: { description: 'the next page of a list (`rel="next"`)', schema: textSchema },
  Location: { description: 'the path of what was created', schema: textSchema },
  RateLimit: { description: 'that nothing is left of the limit, and for how many seconds', schema: textSchema },
  'RateLimit-Policy': {
    description: 'the limit that the request counts for, where the operator tells it: requests `q` in `w` seconds',
    schema: textSchema,
  },
  'Repr-Digest': { description: 'SHA-256 of the whole representation, where the CID tells it', schema: textSchema },
  'Retry-After': { description: 'seconds after which to try again', schema: { type: 'integer', minimum: 0 } },
  'Sealpin-Cid': { description: 'the CID of the file, once every byte has arrived', schema: textSchema },
  'Sealpin-File': {
    description: 'the ID of the file, once every byte has arrived',
    schema: { ...textSchema, format: 'uuid' },
  },
  'Tus-Extension': { description: 'the extensions of tus, separated by commas', schema: textSchema },
  'Tus-Max-Size': { description: 'the largest file', schema: byteCount },
  'Tus-Resumable': { description: 'the version of tus', schema: { ...textSchema, enum: [tusVersion] } },
  'Tus-Version': { description: 'the versions of tus that the service knows', schema: textSchema },
  'Upload-Defer-Length': { description: '`1` until the length is known', schema: { ...textSchema, enum: ['1'] } },
  'Upload-Expires': { description: 'when the upload expires, unless it is continued before', schema: textSchema },
  'Upload-Length': { description: 'bytes of the file', schema: byteCount },
  'Upload-Metadata': { description: 'as it was sent', schema: textSchema },
  'Upload-Offset': { description: 'how many bytes of the file have arrived', schema: byteCount },
  'WWW-Authenticate': { description: 'the scheme: `Bearer`', schema: textSchema },
  'X-Request-Id': {
    description: 'the ID of the request in the log of the service',
    schema: { ...textSchema, format: 'uuid' },
  },
} as const satisfies Record<string, ResponseHeader>;

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
