/**
 * Rules of the protocol tus 1.0.0 (tus.io/protocols/resumable-upload) for every request and
 * response of an upload.
 */
import type { MiddlewareHandler } from 'hono';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { parseRetryAfter } from '../../shared/streams/timing.ts';
import { tusVersion } from '../../shared/tus-protocol.ts';
import type { App, Ctx } from './app.ts';
import { problem } from './problem.ts';

/**
 * Methods that a client may need to send as POST, because what is in between lets no other through.
 */
const overridable = ['PATCH', 'DELETE', 'HEAD'];

/**
 * Takes `X-HTTP-Method-Override` as the method of a POST.
 * @param serve serves a request from the start
 */
export function methodOverride(
  serve: (request: Request, env: Ctx['env'], context: Ctx['executionCtx']) => Response | Promise<Response>,
): MiddlewareHandler<App> {
  return async (c, next) => {
    const method = c.req.header('X-HTTP-Method-Override')?.toUpperCase();
    if (method === undefined || c.req.method !== 'POST' || !overridable.includes(method)) return await next();
    const headers = new Headers(c.req.raw.headers);
    headers.delete('X-HTTP-Method-Override');
    const { url, signal } = c.req.raw;
    const request =
      method === 'HEAD' ? new Request(url, { method, headers, signal }) : new Request(c.req.raw, { method, headers });
    return await serve(request, c.env, c.executionCtx);
  };
}

/** Tells whether a body broke off or stalled: HEAD tells what of it is recorded. */
export function isBrokenBody(error: unknown): boolean {
  return isSealpinError(error, 'body_incomplete') || isSealpinError(error, 'body_timeout');
}

/**
 * Refuses another version of the protocol, and names ours in every response. To HEAD and PATCH it
 * says 423 where a client that read anything else would forget the upload and send everything
 * again.
 */
export const tus: MiddlewareHandler<App> = async (c, next) => {
  const { method } = c.req.raw;
  const isOfProtocol = ['HEAD', 'PATCH', 'POST', 'DELETE'].includes(method);
  if (isOfProtocol && c.req.header('Tus-Resumable') !== tusVersion) {
    const error = new SealpinError('precondition_failed', `this service speaks tus ${tusVersion}`, {
      hint: `send Tus-Resumable: ${tusVersion}`,
    });
    c.res = problem(error, c);
    c.res.headers.set('Tus-Version', tusVersion);
  } else {
    await next();
    const { status, headers } = c.res;
    const isBusy = isSealpinError(c.error, 'rate_limited') || isSealpinError(c.error, 'overloaded');
    const isBroken = isBrokenBody(c.error);
    if ((method === 'HEAD' && (status === 429 || status >= 500)) || (method === 'PATCH' && (isBusy || isBroken))) {
      const detail = isBroken
        ? 'the body broke off or stalled; HEAD tells how much of it is recorded'
        : 'the service is too busy, or a part of it does not respond';
      const retryAfterSeconds = parseRetryAfter(headers.get('Retry-After'));
      const busy = new SealpinError('upload_busy', detail, { retryAfterSeconds });
      c.res = problem(busy, c);
    }
  }
  c.res.headers.set('Tus-Resumable', tusVersion);
};
