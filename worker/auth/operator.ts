/** The operator of the service, who shows the secret `ADMIN_TOKEN`. */
import type { MiddlewareHandler } from 'hono';
import { apiKeyPrefix } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { App, Ctx } from '../http/app.ts';
import { bearer } from './authenticate.ts';
import { limitAddress } from './rate-limit.ts';

/**
 * A route for the operator alone. Without the secret `ADMIN_TOKEN` there is no operator, and the route does not exist.
 * @throws not_found, unauthorized
 */
export const operatorOnly: MiddlewareHandler<App> = async (c, next) => {
  await requireOperator(c);
  await next();
};

/**
 * Whether a request carries the operator's token. Any other `Authorization`, a load balancer's perhaps, means nothing
 * here.
 */
export async function isOperator(c: Ctx): Promise<boolean> {
  const token = bearer(c);
  // A token that looks like an API key is not the operator's, and counts for its account.
  if (token === undefined || token.startsWith(apiKeyPrefix)) return false;
  try {
    // Guesses count as everywhere else; past the limit the response is the one that anybody gets.
    await limitAddress(c);
    await requireOperator(c);
    return true;
  } catch (error) {
    if (isSealpinError(error)) return false;
    throw error;
  }
}

async function requireOperator(c: Ctx): Promise<void> {
  const token = c.env.ADMIN_TOKEN ?? '';
  if (token === '') throw new SealpinError('not_found');
  if (!(await isSameText(bearer(c) ?? '', token))) {
    throw new SealpinError('unauthorized', 'the operator’s token is missing or wrong', {
      hint: 'send Authorization: Bearer and the ADMIN_TOKEN',
    });
  }
}

/** Compares digests in constant time, so that the time says nothing about the length either. */
async function isSameText(one: string, other: string): Promise<boolean> {
  const digest = (text: string): Promise<ArrayBuffer> =>
    crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return crypto.subtle.timingSafeEqual(await digest(one), await digest(other));
}
