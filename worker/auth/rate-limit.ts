/** Rate limits: per account for API keys that KV has, per address for everything else. */
import type { ApiKey } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Ctx } from '../http/app.ts';
import { errorText, log } from '../log.ts';
import type { CachedKey } from '../objects/account/keys/key-cache.ts';

/** The longest period of a Cloudflare rate limit, after which its count starts over. */
const periodSeconds = 60;

/**
 * Remembers a key that KV has, and counts a request with it. All keys of an account are counted
 * together, because a key with `keys` can make any number of them; but those that can only store,
 * as the links of inboxes have them, are counted apart: who was given one cannot keep the owner
 * out. Each invitation, of which there are few, is counted by itself: no guest keeps another one
 * out.
 * @throws rate_limited, overloaded
 */
export function limitAccount(c: Ctx, { account, hash }: ApiKey, { id, scopes }: CachedKey): Promise<void> {
  if (knownHashes.size >= maxRemembered) knownHashes.clear();
  knownHashes.add(hash);
  c.set('countedFor', 'account');
  if (scopes.includes('send')) return limit(c, c.env.KEY_LIMIT, `invitation:${account}:${id}`);
  const onlyStores = scopes.every((scope) => scope === 'write');
  return limit(c, c.env.KEY_LIMIT, `${onlyStores ? 'writers' : 'account'}:${account}`);
}

/**
 * Counts a request that has proved nothing yet: an unknown key, an operator’s token, a recovery.
 * @throws
 * rate_limited, overloaded
 */
export function limitAddress(c: Ctx): Promise<void> {
  c.set('countedFor', 'address');
  return limit(c, c.env.ADDRESS_LIMIT, `address:${addressOf(c)}`);
}

/** Entries of the two memories below, which belong to one isolate and may be lost at any time. */
const maxRemembered = 10_000;
/** Addresses that have sent too many unknown keys, and until when (ms) none is looked up. */
const refusedUntil = new Map<string, number>();
/** Hashes of keys that KV had at their last look-up. */
const knownHashes = new Set<string>();

/**
 * Refuses a key that this isolate has never found, from an address that has just sent too many
 * unknown ones: looking up a key in KV is billed, and anybody can make up keys with a valid
 * checksum. A key that this isolate has found is never refused here.
 * @param hash SHA-256 of the key, in hex
 * @throws rate_limited
 */
export function limitLookup(c: Ctx, hash: string): void {
  c.set('countedFor', 'address');
  const until = refusedUntil.get(addressOf(c));
  if (knownHashes.has(hash) || until === undefined) return;
  const waitMs = until - Date.now();
  if (waitMs > 0) throw new SealpinError('rate_limited', undefined, { retryAfterSeconds: Math.ceil(waitMs / 1000) });
  refusedUntil.delete(addressOf(c));
}

/**
 * Counts a request with a key that KV does not have, by address.
 * @throws rate_limited, overloaded
 */
export async function limitUnknownKey(c: Ctx): Promise<void> {
  try {
    await limitAddress(c);
  } catch (error) {
    if (isSealpinError(error, 'rate_limited')) {
      if (refusedUntil.size >= maxRemembered) refusedUntil.clear();
      refusedUntil.set(addressOf(c), Date.now() + periodSeconds * 1000);
    }
    throw error;
  }
}

function addressOf(c: Ctx): string {
  return networkOf(c.req.header('CF-Connecting-IP') ?? '');
}

/** Groups of 16 bits that an IPv6 subnet of one site has (RFC 4291 section 2.5.4: 64 bits). */
const subnetGroups = 4;
const allGroups = 8;

/**
 * The network that an address counts for: an IPv4 address itself, an IPv6 address by its /64, which
 * one client may have as a whole.
 * @param address in any form of RFC 4291 section 2.2
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:([0-9.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail === undefined || tail === '' ? [] : tail.split(':');
  // An IPv4 address at the end takes two groups.
  const taken = front.length + back.length + (address.includes('.') ? 1 : 0);
  const gap = Array.from({ length: Math.max(0, allGroups - taken) }, () => '0');
  const groups = [...front, ...(tail === undefined ? [] : gap), ...back].slice(0, subnetGroups);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}

async function limit(c: Ctx, limiter: RateLimit | undefined, key: string): Promise<void> {
  if (limiter === undefined) return;
  let success: boolean;
  try {
    ({ success } = await limiter.limit({ key }));
  } catch (error) {
    log({ event: 'limit.failed', requestId: c.var.requestId, error: errorText(error) });
    // A request that is not counted must not change anything.
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD')
      throw new SealpinError('overloaded', undefined, { retryAfterSeconds: 5 });
    return;
  }
  if (!success) throw new SealpinError('rate_limited', undefined, { retryAfterSeconds: periodSeconds });
}
