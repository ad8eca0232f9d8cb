/** Steps of every request before and after its handler. */
import type { ErrorHandler, Handler, MiddlewareHandler, NotFoundHandler } from 'hono';
import { routePath } from 'hono/route';
import { describe, SealpinError } from '../../shared/errors.ts';
import { servicesOf } from '../backends/configured.ts';
import { tellRefusal, uploadCountsMs } from '../objects/metrics/seen-refusals.ts';
import { checkSettings, rateLimitOf } from '../env.ts';
import { isHead, type App, type Check, type Ctx } from './app.ts';
import { isEncoded } from './body-headers.ts';
import { errorText, log, orLog } from '../log.ts';
import { problem } from './problem.ts';
import { countRequest } from './request-counts.ts';
import { parseTraceId } from './trace-context.ts';
import { countUsage } from './usage-counts.ts';

/** Gives each request an ID of our own, which its response and the log carry. */
export const requestId: MiddlewareHandler<App> = async (c, next) => {
  const id = crypto.randomUUID();
  c.set('requestId', id);
  await next();
  c.res.headers.set('X-Request-Id', id);
};

/** Counts each request for metrics and for the usage of its API key, and writes a line about it. */
export const accessLog: MiddlewareHandler<App> = async (c, next) => {
  const startedAt = Date.now();
  await next();
  const ms = Date.now() - startedAt;
  countRequest(c, ms);
  countUsage(c);
  log({
    event: 'request',
    requestId: c.var.requestId,
    method: c.req.raw.method,
    // The pattern of the route, because an address may hold what must not be logged.
    route: routePath(c),
    status: c.res.status,
    ms,
    // Left out of the line where they are undefined.
    code: c.var.code,
    trace: parseTraceId(c.req.header('traceparent')),
  });
};

const inert = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'",
  'Cache-Control': 'no-store',
};

/**
 * Keeps responses of the API from being pages, whatever a browser makes of their bytes, and out of
 * caches. Routes that allow another thing set these headers themselves.
 */
export const inertHeaders: MiddlewareHandler<App> = async (c, next) => {
  await next();
  const { headers } = c.res;
  for (const [name, value] of Object.entries(inert)) if (!headers.has(name)) headers.set(name, value);
};

/** Refuses each request while a setting is wrong, before it changes anything. */
export const checkedSettings: MiddlewareHandler<App> = async (c, next) => {
  checkSettings(c.env);
  await next();
};

/**
 * Names the limit that a request was counted for, where the operator has told it
 * (draft-ietf-httpapi-ratelimit-headers-10). The limiter only says whether a request is within the
 * limit, so how much is left is known only when there is nothing left.
 */
export const rateLimitFields: MiddlewareHandler<App> = async (c, next) => {
  await next();
  const { countedFor } = c.var;
  const policy = countedFor && rateLimitOf(c.env, countedFor);
  if (countedFor === undefined || policy === undefined) return;
  c.res.headers.set('RateLimit-Policy', `"${countedFor}";q=${policy.requests};w=${policy.seconds}`);
  const retryAfter = c.res.headers.get('Retry-After');
  if (c.res.status === 429 && retryAfter !== null)
    c.res.headers.set('RateLimit', `"${countedFor}";r=0;t=${retryAfter}`);
};

/**
 * Announces the length of what HEAD would get: the runtime drops the body of a GET that answers it,
 * and the length with it.
 */
export const headLength: MiddlewareHandler<App> = async (c, next) => {
  await next();
  const { headers, body } = c.res;
  if (isHead(c) && body !== null && !headers.has('Content-Length'))
    headers.set('Content-Length', String((await c.res.arrayBuffer()).byteLength));
};

/** Turns an error into a response, and logs what the operator must see. */
export const onError: ErrorHandler<App> = (error, c) => {
  const { requestId: id } = c.var;
  const code = error instanceof SealpinError ? error.code : 'internal';
  const { fault, status } = describe(code);
  if (fault === 'system' || status >= 500)
    log({ event: 'error', requestId: id, code, error: errorText(error), cause: errorText(error.cause) });
  if (code === 'disk_full' || (code === 'misconfigured' && isUpload(c))) tellRefused(c, code);
  const response = problem(error, c);
  // For a content coding, and for no other reason of a 415 (RFC 9110 section 12.5.3).
  if (code === 'unsupported_media_type' && isEncoded(c.req.raw.headers))
    response.headers.set('Accept-Encoding', 'identity');
  return response;
};

/** Interval at which an isolate says that the first service takes no uploads, in ms. */
const refusedEveryMs = 10_000;
let toldRefusedAt = 0;

function isUpload({ req }: Ctx): boolean {
  return ['POST', 'PATCH'].includes(req.method) && /^\/v1\/(?:storage\/(?:plain|encrypted)|uploads\/)/.test(req.path);
}

/** Tells, after the response, that the first service, where uploads go, has refused one. */
function tellRefused(c: Ctx, code: string): void {
  if (Date.now() - toldRefusedAt < refusedEveryMs) return;
  toldRefusedAt = Date.now();
  const told = orLog({ event: 'refusal.tell' }, async () => {
    checkSettings(c.env);
    const [first] = servicesOf(c.env);
    if (first !== undefined) await tellRefusal(c.env, first.id, code, uploadCountsMs);
  });
  // Where a setting or the list of backends is wrong, none has refused; health says so itself.
  c.executionCtx.waitUntil(told);
}

/**
 * The response where no route matches. It is not thrown: an error would skip the CORS headers.
 * @param now the path that the route has now
 */
export function notFound(now?: string): Handler<App> & NotFoundHandler<App> {
  const hint = now && `the operator’s routes have moved: this one is ${now}`;
  return (c: Ctx) => problem(new SealpinError('not_found', 'there is no such route', { hint }), c);
}

/**
 * Answers 405 with `Allow` (RFC 9110 section 15.5.6).
 * @param methods those of the route's path; GET answers HEAD, too
 */
export function methodNotAllowed(methods: readonly string[]): Handler<App> {
  const all = methods.flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
  const allow = [...new Set(all)].join(', ');
  return (c) => {
    const response = problem(new SealpinError('method_not_allowed'), c);
    response.headers.set('Allow', allow);
    return response;
  };
}

/**
 * Destinations whose bytes a browser would run, or apply to a page, as `Sec-Fetch-Dest` names them
 * (Fetch standard, section 2.2.7).
 */
const asCode = [
  'audioworklet',
  'manifest',
  'paintworklet',
  'script',
  'serviceworker',
  'sharedworker',
  'style',
  'worker',
  'xslt',
];

/**
 * Keeps what somebody has stored from being code of a page of this service: its policies trust its
 * own origin.
 * @throws forbidden
 */
export const notAsCode: MiddlewareHandler<App> = async (c, next) => {
  if (asCode.includes(c.req.header('Sec-Fetch-Dest')?.trim().toLowerCase() ?? ''))
    throw new SealpinError('forbidden', 'files are neither code nor style of a page');
  await next();
};

export function onlyHead(handler: Handler<App>): Handler<App> {
  return async (c, next) => (isHead(c) ? await handler(c, next) : await next());
}

/**
 * Refuses query parameters that a route does not have, or that appear twice: an ignored filter
 * would return too much.
 * @param known the names of the route's parameters
 * @throws invalid_request, naming the parameter
 */
export function checkQuery(known: readonly string[]): Check {
  const takes = known.length === 0 ? 'no parameters in its query' : `${known.join(', ')}, once each`;
  return (c) => {
    for (const [name, values] of Object.entries(c.req.queries())) {
      if (known.includes(name) && values.length === 1) continue;
      const parameter = name.slice(0, 40).toWellFormed();
      const detail = `the query has ${JSON.stringify(parameter)}, and this route takes ${takes}`;
      throw new SealpinError('invalid_request', detail, { faults: [{ parameter, detail }] });
    }
  };
}

/** Conditions (RFC 9110 section 13.1) and digests of what is sent (RFC 9530, 3230, 1864). */
const checks = [
  'If-Match',
  'If-None-Match',
  'If-Modified-Since',
  'If-Unmodified-Since',
  'If-Range',
  'Content-Digest',
  'Repr-Digest',
  'Digest',
  'Content-MD5',
];

/**
 * Refuses headers that ask for a check which a route does not make: its client would believe that
 * it was made.
 * @param method of the route, in lower case
 * @param known the headers that the route takes
 * @throws invalid_request, naming the header
 */
export function checkHeaders(method: string, known: readonly string[]): Check {
  const isSafe = ['get', 'head', 'options'].includes(method);
  const unknown = checks.filter((name) => !known.includes(name));
  return (c) => {
    for (const name of unknown) {
      const value = c.req.header(name);
      if (value === undefined || (isSafe && holdsAnyway(name, value.trim()))) continue;
      throw new SealpinError('invalid_request', `${name} is not checked by this route`, {
        hint: `leave ${name} out: what it asks for would not happen`,
      });
    }
  };
}

/** Tells whether a condition holds for any resource that has neither an ETag nor a date. */
function holdsAnyway(name: string, value: string): boolean {
  if (name === 'If-Match') return value === '*';
  return name !== 'If-None-Match' || value !== '*';
}
