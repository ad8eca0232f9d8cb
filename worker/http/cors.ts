/**
 * Origins of pages that may call the API and read its responses (Fetch standard, section 3.2);
 * never with a browser's own credentials.
 */
import type { MiddlewareHandler } from 'hono';
import { cors as allowOrigin } from 'hono/cors';
import type { App, Ctx } from './app.ts';

const options = {
  allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
  allowHeaders: [
    'Authorization',
    'Cache-Control',
    'Content-Digest',
    'Content-Type',
    'Content-Disposition',
    'Idempotency-Key',
    'If-Match',
    'If-Modified-Since',
    'If-None-Match',
    'If-Range',
    'If-Unmodified-Since',
    'Range',
    'Repr-Digest',
    'Traceparent',
    'Tracestate',
    'Tus-Resumable',
    'Upload-Defer-Length',
    'Upload-Length',
    'Upload-Metadata',
    'Upload-Offset',
    'Want-Repr-Digest',
    'X-HTTP-Method-Override',
    'X-Request-ID',
    'X-Requested-With',
  ],
  exposeHeaders: [
    'Accept-Ranges',
    'Content-Disposition',
    'Content-Length',
    'Content-Range',
    'ETag',
    'Idempotency-Replayed',
    'Link',
    'Location',
    'RateLimit',
    'RateLimit-Policy',
    'Repr-Digest',
    'Retry-After',
    'Sealpin-Cid',
    'Sealpin-File',
    'Tus-Extension',
    'Tus-Max-Size',
    'Tus-Resumable',
    'Tus-Version',
    'Upload-Defer-Length',
    'Upload-Expires',
    'Upload-Length',
    'Upload-Metadata',
    'Upload-Offset',
    'X-Ipfs-Path',
    'X-Ipfs-Roots',
    'X-Request-Id',
  ],
  // Seconds for which a browser may remember a preflight.
  maxAge: 600,
};

const allowListed = allowOrigin({ ...options, origin: (_origin, c: Ctx) => allowedOrigin(c) });
/** The same response for every page, so that it does not vary. */
const allowAll = allowOrigin({ ...options, origin: '*' });

/**
 * Answers preflights, and lets pages of the listed origins read responses. Any other origin gets no
 * CORS header at all.
 */
export const cors: MiddlewareHandler<App> = async (c, next) => {
  const isOptions = c.req.method === 'OPTIONS';
  const isPreflight = isOptions && c.req.header('Access-Control-Request-Method') !== undefined;
  // The library takes every OPTIONS for a preflight; any other one is a method that a route does
  // not have.
  const allowed = allowedOrigin(c);
  if (allowed !== undefined && (isPreflight || !isOptions))
    return await (allowed === '*' ? allowAll : allowListed)(c, next);
  if (isPreflight) return new Response(null, { status: 204, headers: { Vary: 'Origin' } });
  await next();
  c.res.headers.append('Vary', 'Origin');
  return undefined;
};

/** Addresses that say by themselves what may be read: by CID, and by a signed URL. */
const forEveryPage = /^\/(?:ipfs|v1\/accounts\/[^/]+\/signed)\//;

/** The origins that may read a response: the caller's own, all (`*`), or none. */
function allowedOrigin(c: Ctx): string | undefined {
  const origin = c.req.header('Origin');
  const listed = (c.env.CORS_ORIGINS ?? '').split(',').map((each) => each.trim());
  if (listed.includes('*') || forEveryPage.test(c.req.path)) return '*';
  return origin !== undefined && listed.includes(origin) ? origin : undefined;
}
