/** How a route says that it will go: `Deprecation` (RFC 9745) and `Sunset` (RFC 8594). */
import type { MiddlewareHandler } from 'hono';
import type { App } from './app.ts';

/** Days as `2030-01-31`, from midnight in UTC: since when a route is deprecated, and when it may be gone. `guide`: what to call instead. */
export type Deprecated = { since: string; sunset: string; guide: string };

/** Marks every response of a route, problems included. */
export function deprecation({ since, sunset, guide }: Deprecated): MiddlewareHandler<App> {
  return async (c, next) => {
    await next();
    const { headers } = c.res;
    headers.set('Deprecation', `@${Date.parse(since) / 1000}`);
    headers.set('Sunset', new Date(sunset).toUTCString());
    headers.append('Link', `<${guide}>; rel="deprecation"; type="text/html"`);
  };
}
