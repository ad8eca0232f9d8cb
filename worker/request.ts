/** What happens to every request before and after its handler. */
import type { ErrorHandler, MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import { describe, SealpinError } from '../shared/errors.ts';
import type { App, Ctx } from './app.ts';
import { errorText, log } from './log.ts';
import { problem } from './problem.ts';

/** Gives each request an id of our own making, which its answer and the log carry, and writes a line about it. */
export const named: MiddlewareHandler<App> = async (c, next) => {
  const startedAt = Date.now();
  c.set('requestId', crypto.randomUUID());
  await next();
  c.res.headers.set('X-Request-Id', c.var.requestId);
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
  return problem(error, requestId);
};

const allowedMethods = 'GET, HEAD, POST, DELETE';
const allowedHeaders =
  'Authorization, Content-Type, Content-Disposition, Idempotency-Key, If-Match, If-None-Match, If-Range, Range';
const exposedHeaders =
  'Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Idempotency-Replayed, Location, Retry-After, X-Request-Id';
const preflightSeconds = '600';

/** Lets pages of the listed origins read our answers (Fetch standard, section 3.2); never with a browser's own credentials. */
export const shared: MiddlewareHandler<App> = async (c, next) => {
  const origin = c.req.header('Origin');
  const allowed = origin !== undefined && origins(c).includes(origin);
  if (c.req.method === 'OPTIONS' && c.req.header('Access-Control-Request-Method') !== undefined) {
    const headers = new Headers({ Vary: 'Origin' });
    if (allowed) {
      headers.set('Access-Control-Allow-Origin', origin);
      headers.set('Access-Control-Allow-Methods', allowedMethods);
      headers.set('Access-Control-Allow-Headers', allowedHeaders);
      headers.set('Access-Control-Max-Age', preflightSeconds);
    }
    return new Response(null, { status: 204, headers });
  }
  await next();
  c.res.headers.append('Vary', 'Origin');
  if (!allowed) return undefined;
  c.res.headers.set('Access-Control-Allow-Origin', origin);
  c.res.headers.set('Access-Control-Expose-Headers', exposedHeaders);
  return undefined;
};

function origins(c: Ctx): string[] {
  return (c.env.CORS_ORIGINS ?? '')
    .split(',')
    .map((origin) => origin.trim())
    .filter((origin) => origin !== '');
}
