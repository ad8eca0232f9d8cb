/** Rate limits: per API key where the edge knows it, per address for everybody else. */
import type { MiddlewareHandler } from 'hono';
import { SealpinError } from '../shared/errors.ts';
import type { App, Ctx } from './app.ts';
import { errorText, log } from './log.ts';

/** The longest period that a limit of Cloudflare has: when it is over, the count begins anew. */
const periodSeconds = 60;

/** Counts a request of a key. @throws rate_limited, overloaded */
export function limitKey(c: Ctx, hash: string): Promise<void> {
  return limit(c, c.env.KEY_LIMIT, `key:${hash}`);
}

/** Counts a request of somebody who has shown nothing yet: a key that the edge does not know, a token, a recovery. @throws rate_limited, overloaded */
export function limitAddress(c: Ctx): Promise<void> {
  return limit(c, c.env.ADDRESS_LIMIT, `address:${c.req.header('CF-Connecting-IP') ?? ''}`);
}

/** A route that is limited by address. */
export const perAddress: MiddlewareHandler<App> = async (c, next) => {
  await limitAddress(c);
  await next();
};

async function limit(c: Ctx, limiter: RateLimit | undefined, key: string): Promise<void> {
  if (limiter === undefined) return;
  let success: boolean;
  try {
    ({ success } = await limiter.limit({ key }));
  } catch (error) {
    log({ event: 'limit.failed', requestId: c.var.requestId, error: errorText(error) });
    // Nothing is written that nobody counts.
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD')
      throw new SealpinError('overloaded', undefined, { retryAfterSeconds: 5 });
    return;
  }
  if (!success) throw new SealpinError('rate_limited', undefined, { retryAfterSeconds: periodSeconds });
}
