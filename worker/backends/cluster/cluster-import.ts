/** Blocks on their way to an IPFS Cluster: to the Kubo of one peer. */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { parseCid, type Cid } from '../../../shared/ipfs/index.ts';
import { withStop } from '../../../shared/streams/timing.ts';
import type { BlockImport } from '../contract.ts';
import { shortMs } from '../failover.ts';
import { timeLimit } from '../time-limit.ts';
import type { ClusterPeer, ClusterPeers } from './cluster-peers.ts';

/** Opens an import: with its first block, at a peer that works. */
export function clusterImport(cluster: ClusterPeers, signal: AbortSignal): BlockImport {
  const { signal: ended, stop } = withStop(signal);
  let opening: Promise<{ peer: ClusterPeer; blocks: BlockImport }> | undefined;
  const open = async (first: Cid) => {
    const { importers, check } = cluster;
    const checked = importers.short(async (peer: ClusterPeer, limited) => {
      await check(peer, limited);
      return peer;
    });
    const { result: peer } = await importers.from(cluster.forImport(first), ended, checked);
    return { peer, blocks: peer.kubo.importBlocks(ended) };
  };
  return {
    async write(cid, bytes) {
      ended.throwIfAborted();
      const { peer, blocks } = await (opening ??= open(cid));
      await step(cluster, peer, blocks.write(cid, bytes));
    },
    async finish() {
      ended.throwIfAborted();
      if (opening === undefined) return;
      const { peer, blocks } = await opening;
      await step(cluster, peer, blocks.finish());
    },
    abort: stop,
  };
}

/**
 * Runs a step on a peer. The bytes sent are lost if it fails, so the next import goes to
 * another peer.
 */
async function step({ importers }: ClusterPeers, peer: ClusterPeer, work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (cause) {
    const isFull = isSealpinError(cause, 'disk_full');
    if (!isFull && !isSealpinError(cause, 'pinning_unavailable')) throw cause;
    const isAnyPeerLeft = importers.avoid(peer);
    if (!isFull || !isAnyPeerLeft) throw cause;
    throw new SealpinError('pinning_unavailable', `${cause.message}, and other peers have room`, {
      hint: 'the pinning service took nothing of this request; sent again, it goes to another machine',
      retryAfterSeconds: 1,
      cause,
    });
  }
}

/**
 * Imports the empty block. Bitswap does not carry a block without bytes, so every Kubo gets it from
 * us that is not silent.
 */
export async function importEmptyBlock(all: readonly ClusterPeer[], cid: string, signal: AbortSignal): Promise<void> {
  const limited = AbortSignal.any([signal, timeLimit(shortMs)]);
  await Promise.allSettled(
    all.map(async (peer) => {
      const blocks = peer.kubo.importBlocks(limited);
      await blocks.write(parseCid(cid), new Uint8Array());
      await blocks.finish();
    }),
  );
}
