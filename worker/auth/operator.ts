/** The operator of the service, who shows `ADMIN_TOKEN`, and what other secrets allow. */
import { restoreHeader } from '../../shared/api.ts';
import { apiKeyPrefix } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { isOwnName, textOf } from '../env.ts';
import type { Check, Ctx } from '../http/app.ts';
import { bearer } from './authenticate.ts';
import { limitAddress } from './rate-limit.ts';

/** The secrets that routes ask for. */
const tokens = {
  ADMIN_TOKEN: 'the operator’s token',
  METRICS_TOKEN: 'the token for metrics',
  RESTORE_TOKEN: 'the token for restoring',
} as const;
type TokenName = keyof typeof tokens;

/** Lets who shows a secret as bearer token call a route. @throws as `requireToken` */
export function tokenOnly(name: TokenName): Check {
  return (c) => requireToken(c, name, bearer(c), 'Authorization: Bearer');
}

/**
 * Lets a restoration begin: besides the operator's token it needs a secret that is set for its time
 * only.
 * @throws as `requireToken`
 */
export async function requireRestoreToken(c: Ctx): Promise<void> {
  await requireToken(c, 'RESTORE_TOKEN', c.req.header(restoreHeader), `${restoreHeader}:`);
}

/**
 * Tells whether a request carries the operator's token. Any other `Authorization`, a load
 * balancer's perhaps, means nothing here.
 */
export async function isOperator(c: Ctx): Promise<boolean> {
  const token = bearer(c);
  // A token that looks like an API key is not the operator's, and counts for its account.
  if (token === undefined || token.startsWith(apiKeyPrefix)) return false;
  try {
    // Guesses count as everywhere else; past the limit the response is the one that anybody gets.
    await limitAddress(c);
    await requireToken(c, 'ADMIN_TOKEN', token, 'Authorization: Bearer');
    return true;
  } catch (error) {
    if (isSealpinError(error)) return false;
    throw error;
  }
}

/**
 * Checks a token. Where the service has none of this name, what it would open does not exist.
 * @throws not_found, unauthorized; misconfigured where another secret or variable has the same
 * value
 */
async function requireToken(c: Ctx, name: TokenName, shown: string | undefined, header: string): Promise<void> {
  const token = textOf(c.env, name);
  if (token === '') throw new SealpinError('not_found');
  const same = Object.entries(c.env).find(
    ([other, value]) => other !== name && (isOwnName(other) ? textOf(c.env, other) : value) === token,
  );
  if (same !== undefined)
    throw new SealpinError('misconfigured', `${name} and ${same[0]} have the same value`, {
      hint: 'each opens something else: set a new value for one of them',
    });
  if (!(await isSameText(shown ?? '', token)))
    throw new SealpinError('unauthorized', `${tokens[name]} is missing or wrong`, {
      hint: `send ${header} and the ${name}`,
    });
}

/** Compares digests in constant time, so that the time says nothing about the length either. */
async function isSameText(one: string, other: string): Promise<boolean> {
  const digest = (text: string): Promise<ArrayBuffer> =>
    crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return crypto.subtle.timingSafeEqual(await digest(one), await digest(other));
}
