/** What happens to every request before and after its handler. */
import type { MiddlewareHandler } from 'hono';
import type { App } from './app.ts';

/** Gives each request an id of our own making, which its answer and our log carry. */
export const named: MiddlewareHandler<App> = async (c, next) => {
  c.set('requestId', crypto.randomUUID());
  await next();
  c.res.headers.set('X-Request-Id', c.var.requestId);
};
