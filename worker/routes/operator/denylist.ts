/** `/v1/operator/denylist/:cid`: the CIDs whose bytes the operator neither serves nor stores. */
import { DenylistQuery, type DeniedCid, type DenylistReceipt } from '../../../shared/api.ts';
import { parseCid } from '../../../shared/ipfs/index.ts';
import { isoTime } from '../../../shared/time.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import { askInBatches } from '../../objects/batches.ts';
import { unwrap } from '../../objects/result.ts';
import { pinOf } from '../../objects/pin/shard.ts';

/** Accounts that one request informs: Cloudflare lets it make 1,000 requests of its own. */
const pageAccounts = 250;

/** Returns since when a CID is on the denylist. */
export async function readDenied(c: Ctx): Promise<Response> {
  const cid = deniedCid(c);
  const { createdAt } = await unwrap((await pinOf(c.env, cid)).denied(cid));
  return c.json<DeniedCid>({ cid, createdAt: isoTime(createdAt) });
}

/**
 * Puts a CID on the denylist, or takes it off. `Pin` first: from then on no account gets a
 * reference to the CID, so that those which have one are all that have files with it. They remember
 * it themselves, and so a read asks nobody. A request that fails halfway can be repeated, and the
 * response to one that has told as many accounts as it may has a cursor for the next.
 */
export async function changeDenylist(c: Ctx, denied: boolean): Promise<Response> {
  const cid = deniedCid(c);
  const { cursor: after } = parseQuery(c, DenylistQuery);
  const page = { after, limit: pageAccounts };
  const { accounts } = await unwrap((await pinOf(c.env, cid)).deny(cid, denied, page));
  await askInBatches(accounts, (id) => unwrap(c.env.ACCOUNT.getByName(id).administration.deny(cid, denied)));
  const cursor = accounts.length === pageAccounts ? accounts.at(-1) : undefined;
  return c.json<DenylistReceipt>({ cid, accounts: accounts.length, cursor });
}

function deniedCid(c: Ctx): string {
  return parseCid(c.req.param('cid') ?? '').text;
}
