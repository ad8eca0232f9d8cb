/** Daily usage of an account's API keys: for the account, and for the operator. */
import { PageQuery, type UsageList } from '../../../shared/api.ts';
import type { Principal } from '../../auth/authenticate.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import { handOverUsage } from '../../http/usage-counts.ts';
import type { UsagePage } from '../../objects/account/keys/key-usage.ts';
import { unwrap } from '../../objects/result.ts';
import { accountInPath } from './accounts.ts';
import { cursorOf, pageOf } from '../page.ts';

/** A page of the days of the keys of the caller's account, the newest first. */
export async function listUsage(c: Ctx, { account, key }: Principal): Promise<Response> {
  const page = pageOf(parseQuery(c, PageQuery));
  await handOverUsage(c.env, key.account);
  return usageList(c, await unwrap(account.keys.usage(key.hash, page)));
}

/** The same for the operator. */
export async function listAccountUsage(c: Ctx): Promise<Response> {
  const page = pageOf(parseQuery(c, PageQuery));
  const { id, object } = accountInPath(c);
  await handOverUsage(c.env, id);
  return usageList(c, await unwrap(object.administration.usage(page)));
}

function usageList(c: Ctx, { usage, next }: UsagePage): Response {
  return c.json<UsageList>({
    usage: usage.map(({ key: keyId, ...used }) => ({ keyId, ...used })),
    ...cursorOf({ next }),
  });
}
