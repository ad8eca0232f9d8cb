/** Search for a block by its CID: the root of a file here, or a block below one. */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { linksOf, parseCid, type BlockSource } from '../../../shared/ipfs/index.ts';
import type { Bindings, Ctx } from '../../http/app.ts';
import { unwrap } from '../../objects/result.ts';
import { blocksByShard, blockShardName } from '../../objects/pin/block-roots.ts';
import { pinOf } from '../../objects/pin/shard.ts';
import { configuredSources } from '../files/file-backends.ts';

/** The root of a file here that has the block, or is it, and the services that hold it. */
export type FoundBlock = { readonly root: string; readonly sources: BlockSource[] };

/**
 * Finds a block.
 * @returns undefined where it is in no file here, as far as is known
 * @throws gone when its file is being deleted, content_denied when it or every file with it is on
 * the denylist
 */
export async function findBlock(c: Ctx, cid: string): Promise<FoundBlock | undefined> {
  const { env } = c;
  const pin = await pinOf(env, cid);
  const { services, gone } = await unwrap(pin.services(cid));
  if (services.length > 0) return { root: cid, sources: configuredSources(c, cid, services) };
  // What was a part of an upload, and is released, may be below the root of the file that it has
  // become.
  let refusal = gone ? new SealpinError('gone') : undefined;
  for (const root of (await unwrap(env.PIN.getByName(await blockShardName(cid)).rootsOf(cid))).roots) {
    try {
      const found = await unwrap((await pinOf(env, root)).services(root));
      if (found.services.length > 0) return { root, sources: configuredSources(c, root, found.services) };
      if (found.gone) refusal ??= new SealpinError('gone');
    } catch (error) {
      if (!isSealpinError(error, 'content_denied')) throw error;
      refusal = error;
    }
  }
  if (refusal !== undefined) throw refusal;
  return undefined;
}

/**
 * Nodes whose blocks this isolate has remembered, the oldest first: a client that asks again costs
 * no rows.
 */
const remembered = new Set<string>();
const maxRemembered = 4096;

/**
 * Remembers the blocks that a node links to as those below its root, as the alarm of `Pin` does
 * some seconds after an upload. A client that is faster gets each node before what is below it, so
 * all blocks are known by the time that they are asked for.
 * @param block verified
 */
export async function rememberBlocks(env: Bindings, root: string, cid: string, block: Uint8Array): Promise<void> {
  const key = `${root} ${cid}`;
  if (parseCid(cid).codec === 'raw' || remembered.has(key)) return;
  const shards = await blocksByShard(new Set(linksOf(block).map(({ text }) => text)));
  await Promise.all([...shards].map(async ([name, cids]) => unwrap(env.PIN.getByName(name).addBlocks(root, cids))));
  remembered.add(key);
  const [oldest] = remembered;
  if (remembered.size > maxRemembered && oldest !== undefined) remembered.delete(oldest);
}
