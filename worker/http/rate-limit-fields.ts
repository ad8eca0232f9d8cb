/**
 * The rate limits in responses (draft-ietf-httpapi-ratelimit-headers-10). The limiter only says
 * whether a request is within the limit, so how much is left is known only when there is nothing
 * left.
 */
import type { MiddlewareHandler } from 'hono';
import { rateLimitOf } from '../env.ts';
import type { App } from './app.ts';

/** Names the limit that a request was counted for, where the operator has told it. */
export const rateLimitFields: MiddlewareHandler<App> = async (c, next) => {
  // Read before the request changes anything: a wrong setting is a fault of its own.
  const policies = { account: rateLimitOf(c.env, 'account'), address: rateLimitOf(c.env, 'address') };
  await next();
  const { countedFor } = c.var;
  const policy = countedFor && policies[countedFor];
  if (countedFor === undefined || policy === undefined) return;
  c.res.headers.set('RateLimit-Policy', `"${countedFor}";q=${policy.requests};w=${policy.seconds}`);
  const retryAfter = c.res.headers.get('Retry-After');
  if (c.res.status === 429 && retryAfter !== null)
    c.res.headers.set('RateLimit', `"${countedFor}";r=0;t=${retryAfter}`);
};
