/**
 * Counts of an isolate for API keys, until it hands them to the objects of their accounts: a write
 * for each request would cost more than most requests do.
 */
import { errorText, log } from '../log.ts';
import type { Account } from '../objects/account/account.ts';
import type { Used, UsedBy } from '../objects/account/keys/key-usage.ts';
import { unwrap } from '../objects/result.ts';
import { arrivedBytes, lengthOf } from './body-headers.ts';
import { isHead, type Ctx } from './app.ts';
import { later } from './collector.ts';

type AccountBinding = { ACCOUNT: DurableObjectNamespace<Account> };

/**
 * The most accounts that are told at one time: one event may make 1,000 calls (Cloudflare's limits
 * of Workers).
 */
const maxAccounts = 500;

/** Counts by account and key. */
const countsByAccount = new Map<string, Map<string, Used>>();
const handOverLater = later(handOverAll);

/** Counts a request that has its response, unless its API key was refused. */
export function countUsage(c: Ctx): void {
  const { usedBy } = c.var;
  const { status, headers } = c.res;
  if (usedBy === undefined || status === 401) return;
  const bytesOut = isHead(c) ? 0 : lengthOf(headers);
  add(usedBy, { requests: 1, bytesIn: arrivedBytes.get(c.req.raw) ?? 0, bytesOut });
  handOverLater(c);
}

/** Hands over what this isolate has counted, to so many accounts at a time. */
async function handOverAll(env: AccountBinding): Promise<void> {
  const accounts = [...countsByAccount.keys()].slice(0, maxAccounts);
  await Promise.all(accounts.map((account) => handOverUsage(env, account)));
}

/**
 * Hands over what this isolate has counted for an account. Where that fails it is kept; an addition
 * whose answer is lost counts twice.
 */
export async function handOverUsage(env: AccountBinding, account: string): Promise<void> {
  const used = countsByAccount.get(account);
  if (used === undefined) return;
  countsByAccount.delete(account);
  try {
    await unwrap(env.ACCOUNT.getByName(account).keys.addUsage(used));
  } catch (error) {
    for (const [keyId, each] of used) add({ account, keyId }, each);
    log({ event: 'usage.add', error: errorText(error) });
  }
}

function add({ account, keyId }: UsedBy, { requests, bytesIn, bytesOut }: Used): void {
  const keys = countsByAccount.get(account) ?? new Map<string, Used>();
  const before = keys.get(keyId) ?? { requests: 0, bytesIn: 0, bytesOut: 0 };
  keys.set(keyId, {
    requests: before.requests + requests,
    bytesIn: before.bytesIn + bytesIn,
    bytesOut: before.bytesOut + bytesOut,
  });
  countsByAccount.set(account, keys);
}
