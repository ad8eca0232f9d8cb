/** What happens to every request before and after its handler. */
import type { ErrorHandler, MiddlewareHandler } from 'hono';
import { matchedRoutes, routePath } from 'hono/route';
import { describe, SealpinError } from '../../shared/errors.ts';
import type { App, Ctx } from './app.ts';
import { isEncoded } from '../upload/body.ts';
import { errorText, log } from '../log.ts';
import { operations, queryNames } from '../routes/table.ts';
import { problem } from './problem.ts';

const inertHeaders = { 'X-Content-Type-Options': 'nosniff', 'Content-Security-Policy': "default-src 'none'" };

/** Gives each request an id of our own making, which its answer and the log carry, and writes a line about it. */
export const named: MiddlewareHandler<App> = async (c, next) => {
  const startedAt = Date.now();
  c.set('requestId', crypto.randomUUID());
  await next();
  c.res.headers.set('X-Request-Id', c.var.requestId);
  // No answer of the API is a page, whatever a browser thinks of its bytes; routes that say more about it have done so.
  for (const [name, value] of Object.entries(inertHeaders))
    if (!c.res.headers.has(name)) c.res.headers.set(name, value);
  // The route, not the address: an address may hold what does not belong into a log.
  const { requestId } = c.var;
  log({
    event: 'request',
    requestId,
    method: c.req.raw.method,
    route: routePath(c),
    status: c.res.status,
    ms: Date.now() - startedAt,
  });
};

/** Turns what was thrown into an answer; what the operator has to see goes to the log. */
export const failed: ErrorHandler<App> = (error, c) => {
  const { requestId } = c.var;
  const code = error instanceof SealpinError ? error.code : 'internal';
  const { fault, status } = describe(code);
  if (fault === 'system' || status >= 500)
    log({ event: 'error', requestId, code, error: errorText(error), cause: errorText(error.cause) });
  const answer = problem(error, requestId);
  // For a content coding, and for no other reason of a 415 (RFC 9110 section 12.5.3).
  if (code === 'unsupported_media_type' && isEncoded(c.req.raw.headers))
    answer.headers.set('Accept-Encoding', 'identity');
  return answer;
};

/**
 * Refuses parameters of the query that the route does not have, or that come twice: a filter that were ignored would answer
 * with too much.
 * @throws invalid_request
 */
export const knownQuery: MiddlewareHandler<App> = async (c, next) => {
  const method = c.req.method === 'HEAD' ? 'GET' : c.req.method;
  const path = matchedRoutes(c).find((route) => route.method === method)?.path;
  const operation = operations.find((each) => each.path === path && each.method.toUpperCase() === method);
  if (operation !== undefined) {
    const known = queryNames(operation);
    for (const [name, values] of Object.entries(c.req.queries())) {
      if (known.includes(name) && values.length === 1) continue;
      const takes = known.length === 0 ? 'no parameters in its query' : `${known.join(', ')}, once each`;
      const wrong = JSON.stringify(name.slice(0, 40).toWellFormed());
      throw new SealpinError('invalid_request', `the query has ${wrong}, and this route takes ${takes}`);
    }
  }
  await next();
};

const allowedMethods = 'GET, HEAD, POST, DELETE';
const allowedHeaders =
  'Authorization, Content-Digest, Content-Type, Content-Disposition, Idempotency-Key, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range';
const exposedHeaders =
  'Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Idempotency-Replayed, Location, Retry-After, X-Ipfs-Path, X-Ipfs-Roots, X-Request-Id';
const preflightSeconds = '600';

/** Lets pages of the listed origins read our answers (Fetch standard, section 3.2); never with a browser's own credentials. */
export const shared: MiddlewareHandler<App> = async (c, next) => {
  const allowed = allowedOrigin(c);
  if (c.req.method === 'OPTIONS' && c.req.header('Access-Control-Request-Method') !== undefined) {
    const headers = new Headers({ Vary: 'Origin' });
    if (allowed !== undefined) {
      headers.set('Access-Control-Allow-Origin', allowed);
      headers.set('Access-Control-Allow-Methods', allowedMethods);
      headers.set('Access-Control-Allow-Headers', allowedHeaders);
      headers.set('Access-Control-Max-Age', preflightSeconds);
    }
    return new Response(null, { status: 204, headers });
  }
  await next();
  c.res.headers.append('Vary', 'Origin');
  if (allowed === undefined) return undefined;
  c.res.headers.set('Access-Control-Allow-Origin', allowed);
  c.res.headers.set('Access-Control-Expose-Headers', exposedHeaders);
  return undefined;
};

/** Which origins may read an answer: the caller's own, all (`*`), or none. What is public under its CID is so for pages, too. */
function allowedOrigin(c: Ctx): string | undefined {
  const origin = c.req.header('Origin');
  const listed = (c.env.CORS_ORIGINS ?? '').split(',').map((each) => each.trim());
  if (listed.includes('*') || c.req.path.startsWith('/ipfs/')) return '*';
  return origin !== undefined && listed.includes(origin) ? origin : undefined;
}
