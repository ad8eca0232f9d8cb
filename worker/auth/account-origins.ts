/**
 * The origins whose pages may use the keys of an account. A preflight carries no key, so that CORS
 * itself cannot differ by account (Fetch standard, section 4.8): this refuses the request that
 * follows it.
 */
import { SealpinError } from '../../shared/errors.ts';
import type { Ctx } from '../http/app.ts';
import { readOrigins } from '../objects/account/account-list.ts';

/**
 * Checks the `Origin` of a request with a key of an account. A request without one is not a page's,
 * or is a page's of this service.
 * @throws forbidden
 */
export async function checkOrigin(c: Ctx, account: string): Promise<void> {
  const origin = c.req.header('Origin');
  if (origin === undefined || origin === new URL(c.req.url).origin) return;
  const origins = await readOrigins(c.env.API_KEYS, account);
  if (origins !== null && !origins.includes(origin))
    throw new SealpinError('forbidden', 'pages of this origin may not use the keys of this account', {
      hint: 'ask the operator of the service to add the origin to the account',
    });
}
