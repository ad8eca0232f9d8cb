/** Responses with a representation (RFC 9110 sections 13 to 15). */
import { SealpinError } from '../../shared/errors.ts';
import { isHead, type Ctx } from './app.ts';
import { digestField } from './digest-fields.ts';
import { isNotModified, parseRange, type Span } from './conditions.ts';
import { problem } from './problem.ts';
import { withContentLength } from './response-body.ts';

/**
 * Opens a body, or a span of it. It resolves with the first bytes, so that an error before them
 * becomes a response.
 */
export type OpenBody = (span?: Span) => Promise<ReadableStream<Uint8Array>>;

/**
 * Representation that a route responds with. `etag` is strong and has its quotes, `bytes` is the
 * whole length; HEAD does not open the body. `sha256`: of all bytes, where it is known without
 * reading them.
 */
export type Representation = {
  etag: string;
  headers: Headers;
  bytes: number;
  sha256?: Uint8Array | undefined;
  ranges: boolean;
  /** CID of a file that has these bytes: the process in front may read them itself. */
  file?: string | undefined;
  /** A body in memory needs no stream, which costs a small response a tenth of its CPU time. */
  body: OpenBody | ((span?: Span) => Promise<Uint8Array>);
};

/**
 * The response with a representation, or with as much of it as the request's conditions and range
 * ask for.
 */
export async function respond(c: Ctx, representation: Representation): Promise<Response> {
  const { etag, headers, bytes, sha256, ranges } = representation;
  if (isNotModified(c.req.raw.headers, etag, headers.get('Last-Modified'))) return notModified(etag, headers);
  headers.set('ETag', etag);
  headers.set('Accept-Ranges', ranges ? 'bytes' : 'none');
  headers.set('Content-Length', String(bytes));
  // Also in a part and in HEAD: it is that of the whole (RFC 9530 section 3).
  if (sha256 !== undefined) headers.set('Repr-Digest', digestField('sha-256', sha256));
  if (isHead(c)) return new Response(null, { headers });
  const span = ranges ? parseRange(c.req.raw.headers, etag, bytes) : undefined;
  if (span === undefined) return await withBody(c, representation, bytes);
  if (span === 'outside') return rangeNotSatisfiable(c, bytes);
  const length = span.end - span.start;
  headers.set('Content-Range', `bytes ${span.start}-${span.end - 1}/${bytes}`);
  headers.set('Content-Length', String(length));
  return await withBody(c, representation, length, span);
}

/** The response with a body, or with the place of it where the process in front has asked so. */
async function withBody(c: Ctx, { headers, file, body }: Representation, length: number, span?: Span) {
  const status = span === undefined ? 200 : 206;
  if (file !== undefined && length > 0 && c.env.HANDOVERS?.get(c.req.raw) !== undefined) {
    const { start: from = 0 } = span ?? {};
    headers.set('Sealpin-Place', JSON.stringify({ cid: file, from, to: from + length - 1, form: 'bytes' }));
    return new Response(null, { status, headers });
  }
  return new Response(withContentLength(await body(span), length, c.var.requestId), { status, headers });
}

/**
 * The response 304 to a client that has the representation already.
 * @param headers those of the response 200
 */
export function notModified(etag: string, headers: Headers): Response {
  headers.set('ETag', etag);
  for (const name of ['Content-Encoding', 'Content-Type', 'Content-Disposition']) headers.delete(name);
  return new Response(null, { status: 304, headers });
}

function rangeNotSatisfiable(c: Ctx, bytes: number): Response {
  const response = problem(new SealpinError('range_not_satisfiable', `the file has ${bytes} bytes`), c);
  response.headers.set('Content-Range', `bytes */${bytes}`);
  return response;
}
