/**
 * Origins of pages that may call the API and read its responses (Fetch standard, section 3.2);
 * never with a browser's own credentials.
 */
import type { MiddlewareHandler } from 'hono';
import { cors as allowOrigin } from 'hono/cors';
import { orUndefined } from '../../shared/errors.ts';
import { corsOrigins } from '../env.ts';
import type { App, Ctx } from './app.ts';

/** Headers that a request may have besides those of its route. */
const ofAnyRequest = [
  'Authorization',
  'Cache-Control',
  'Content-Type',
  'Traceparent',
  'Tracestate',
  'X-HTTP-Method-Override',
  'X-Request-ID',
  'X-Requested-With',
];
/** Headers of the gateway's specification, which the description of the API leaves out. */
const ofGateway = ['X-Ipfs-Path', 'X-Ipfs-Roots'];

/**
 * Answers preflights, and lets pages of the listed origins read responses. Any other origin gets no
 * CORS header at all.
 * @param taken headers of requests, by the rows of their routes
 * @param sent headers of responses
 */
export function cors(taken: readonly string[], sent: readonly string[]): MiddlewareHandler<App> {
  const options = {
    allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowHeaders: [...new Set([...ofAnyRequest, ...taken])],
    exposeHeaders: [...sent, ...ofGateway],
    // Seconds for which a browser may remember a preflight.
    maxAge: 600,
  };
  const allowListed = allowOrigin({ ...options, origin: (_origin, c: Ctx) => allowedOrigin(c) });
  // The same response for every page, so that it does not vary.
  const allowAll = allowOrigin({ ...options, origin: '*' });
  return async (c, next) => {
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
}

/** Addresses that say by themselves what may be read: by CID, and by a signed URL. */
const forEveryPage = /^\/(?:ipfs|v1\/accounts\/[^/]+\/signed)\//;

/** The origins that may read a response: the caller's own, all (`*`), or none. */
function allowedOrigin(c: Ctx): string | undefined {
  const origin = c.req.header('Origin');
  // A list that is wrong is refused after this, with all settings.
  const listed = orUndefined(() => corsOrigins(c.env)) ?? [];
  if (listed.includes('*') || forEveryPage.test(c.req.path)) return '*';
  return origin !== undefined && listed.includes(origin) ? origin : undefined;
}
