/** `/v1/denylist/:cid`: the CIDs whose bytes the operator neither serves nor stores. */
import type { DeniedCid, DenylistReceipt } from '../../shared/api.ts';
import { parseCid } from '../../shared/ipfs/index.ts';
import type { Ctx } from '../http/app.ts';
import { askInBatches } from '../objects/batches.ts';
import { unwrap } from '../objects/result.ts';
import { pinOf } from '../objects/shard.ts';

/** Puts a CID on the denylist. */
export function denyCid(c: Ctx): Promise<Response> {
  return change(c, true);
}

/** Takes a CID off the denylist. */
export function allowCid(c: Ctx): Promise<Response> {
  return change(c, false);
}

/** Returns since when a CID is on the denylist. */
export async function readDenied(c: Ctx): Promise<Response> {
  const cid = cidOf(c);
  const { createdAt } = await unwrap((await pinOf(c.env, cid)).denied(cid));
  const body: DeniedCid = { cid, createdAt: new Date(createdAt).toISOString() };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/**
 * `Pin` first: from then on no account gets a reference to the CID, so that those which have one are all that have files with it. They
 * remember it themselves, and so a read asks nobody. A request that fails halfway can be repeated.
 */
async function change(c: Ctx, denied: boolean): Promise<Response> {
  const cid = cidOf(c);
  const { accounts } = await unwrap((await pinOf(c.env, cid)).deny(cid, denied));
  await askInBatches(accounts, (id) => unwrap(c.env.ACCOUNT.getByName(id).administration.deny(cid, denied)));
  const body: DenylistReceipt = { cid, accounts: accounts.length };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

function cidOf(c: Ctx): string {
  return parseCid(c.req.param('cid') ?? '').text;
}
