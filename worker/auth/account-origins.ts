/**
 * The origins whose pages may use the keys of an account. They are in KV, and are read for requests of pages only. A preflight carries
 * no key, so that CORS itself cannot differ by account (Fetch standard, section 4.8): this refuses the request that follows it.
 */
import * as v from 'valibot';
import { SealpinError } from '../../shared/errors.ts';
import type { Ctx } from '../http/app.ts';

const Origins = v.array(v.string());

/** Seconds for which a place of Cloudflare's network may keep the origins before it reads KV again. */
const cacheTtlSeconds = 60;

function nameOf(account: string): string {
  return `origins:${account}`;
}

/** Writes the origins of an account; null: pages of any origin that `CORS_ORIGINS` allows. */
export async function writeOrigins(
  store: KVNamespace,
  account: string,
  origins: readonly string[] | null,
): Promise<void> {
  if (origins === null) await store.delete(nameOf(account));
  else await store.put(nameOf(account), JSON.stringify(origins));
}

/**
 * Checks the `Origin` of a request with a key of an account. A request without one is not a page's, or is a page's of this service.
 * @throws forbidden
 */
export async function checkOrigin(c: Ctx, account: string): Promise<void> {
  const origin = c.req.header('Origin');
  if (origin === undefined || origin === new URL(c.req.url).origin) return;
  const stored = await c.env.API_KEYS.get(nameOf(account), { type: 'json', cacheTtl: cacheTtlSeconds });
  const origins = v.safeParse(v.nullable(Origins), stored);
  // An entry that cannot be read allows nothing.
  const allowed = origins.success ? (origins.output ?? [origin]) : [];
  if (!allowed.includes(origin))
    throw new SealpinError('forbidden', 'pages of this origin may not use the keys of this account', {
      hint: 'ask the operator of the service to add the origin to the account',
    });
}
