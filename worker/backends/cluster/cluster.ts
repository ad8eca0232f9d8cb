/**
 * The adapter for IPFS Cluster: pins by the REST API of its peers, bytes by the RPC of their Kubos.
 * Each part of a file goes to one Kubo, which verifies it; the peers that are to hold it fetch it
 * from there. Any peer of the list does where another one is down, or full.
 */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { parseCid, type Cid } from '../../../shared/ipfs/index.ts';
import { anchorOf, importAnchor } from '../anchor.ts';
import { clusterPeers, type ClusterPeer, type PeerAddress } from './cluster-peers.ts';
import { pinAtPeers, summary, unpinnedAtPeers } from './cluster-pin.ts';
import { isReplicated, type Replication } from './cluster-rest.ts';
import type { BlockImport, PinningService } from '../contract.ts';
import { failoverStream } from '../failover.ts';

export type ClusterOptions = {
  /** The service's name in errors. */
  id: string;
  /** All peers. */
  peers: readonly PeerAddress[];
  /** Headers for the REST APIs and for the Kubos. */
  headers: Readonly<Record<string, string>>;
  ipfsHeaders: Readonly<Record<string, string>>;
  /** Number of peers that hold a file; undefined: as the peers are configured. */
  replication: Replication | undefined;
  /** The name of this service's pins: `sealpin:` and its id, at most 80 bytes of ASCII. */
  pinName: string;
  fetch: typeof fetch;
  timeouts?: Partial<ClusterTimeouts>;
};

type ClusterTimeouts = {
  /** The longest wait for a response: 30 s. */
  responseMs: number;
  /**
   * The longest that pinning of small files may take: 60 s. Cluster takes 30 s to notice that a
   * peer is down.
   */
  pinMs: number;
};

/** A pinning service behind the peers of an IPFS Cluster. */
export function cluster(o: ClusterOptions): PinningService {
  const { id, pinName, replication, fetch } = o;
  const { responseMs, pinMs } = { responseMs: 30_000, pinMs: 60_000, ...o.timeouts };
  const { headers, ipfsHeaders, peers: addresses } = o;
  const cluster = clusterPeers({ id, addresses, headers, ipfsHeaders, pinName, fetch, responseMs });
  const { all, peers, importers } = cluster;
  const pinOptions = { id, peers, replication, pinMs, responseMs };

  const agreed = (cid: string, signal: AbortSignal) => peers.first(({ rest }) => rest.agreed(cid, signal));

  /** The import is opened with the first block, at a peer that works. */
  function importBlocks(signal: AbortSignal): BlockImport {
    const stop = new AbortController();
    const ended = AbortSignal.any([signal, stop.signal]);
    let opening: Promise<{ peer: ClusterPeer; blocks: BlockImport }> | undefined;
    const open = async (first: Cid) => {
      const { result } = await importers.from(cluster.forImport(first), async (peer) => {
        await cluster.check(peer, ended);
        return { peer, blocks: peer.kubo.importBlocks(ended) };
      });
      return result;
    };
    /**
     * Runs a step on a peer. The bytes sent are lost if it fails, so the next import goes to
     * another peer.
     */
    const step = async (peer: ClusterPeer, work: Promise<void>): Promise<void> => {
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
    };
    return {
      async write(cid, bytes) {
        ended.throwIfAborted();
        const { peer, blocks } = await (opening ??= open(cid));
        await step(peer, blocks.write(cid, bytes));
      },
      async finish() {
        ended.throwIfAborted();
        if (opening === undefined) return;
        const { peer, blocks } = await opening;
        await step(peer, blocks.finish());
      },
      abort: (reason) => stop.abort(reason),
    };
  }

  /** Bitswap does not carry a block without bytes, so every Kubo gets it from us. */
  async function importEmptyBlock(cid: string, signal: AbortSignal): Promise<void> {
    await Promise.allSettled(
      all.map(async (peer) => {
        const blocks = peer.kubo.importBlocks(signal);
        await blocks.write(parseCid(cid), new Uint8Array());
        await blocks.finish();
      }),
    );
  }

  async function unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'> {
    const pin = await agreed(cid, signal);
    if (pin !== undefined && pin.name !== pinName) return 'foreign';
    const isRemoved = pin !== undefined && (await peers.first(({ rest }) => rest.unpin(cid, signal)));
    // Also where there was none: a peer that was down may not know of the removal yet.
    await unpinnedAtPeers(peers, { cid, name: pinName, unpinMs: responseMs, signal });
    return isRemoved ? 'removed' : 'absent';
  }

  return {
    id,
    takes: 'blocks',
    // The Kubo of the peer does.
    verifiesImports: true,
    // The peers agree on pins and removals, and carry out what was agreed last; a removal is
    // confirmed by peers one by one.
    ordersRequests: true,

    importBlocks,
    unpin,

    async pin(cid, { bytes, beside, signal }) {
      if (bytes === 0) await importEmptyBlock(cid, signal);
      if (!beside) return await pinAtPeers(pinOptions, { cid, name: pinName, bytes, signal });
      const anchor = await importAnchor(importBlocks(signal), cid, pinName);
      return await pinAtPeers(pinOptions, { cid: anchor, name: pinName, bytes, signal });
    },

    /** A pin of ours that no peer holds counts as absent, so that it is made again. */
    async stat(cid, signal) {
      const pin = await agreed(cid, signal);
      if (pin === undefined) return { pin: 'absent' };
      if (pin.name !== pinName) return { pin: 'foreign', name: pin.name };
      const statuses = await peers.first(({ rest }) => rest.statuses(cid, false, signal));
      // One that had to go to other peers asks for more.
      if (isReplicated(statuses, replication?.min ?? pin.min)) return { pin: 'ours' };
      const isHeld = statuses.some(({ status }) => status === 'pinned');
      return isHeld ? { pin: 'ours', lacks: summary(statuses) } : { pin: 'absent' };
    },

    /**
     * A peer that is back is asked to try again what has failed there; one that stays away is
     * replaced by another pin only.
     */
    async recover(cid, signal) {
      const statuses = await peers.first(({ rest }) => rest.statuses(cid, false, signal));
      const isRefused = statuses.some(({ status }) => status === 'pin_error');
      await peers.first(async ({ rest }) =>
        isRefused ? await rest.recover(cid, signal) : void (await rest.pin(cid, pinName, { replication }, signal)),
      );
    },

    async unpinBeside(cid, signal) {
      await unpin((await anchorOf(cid, pinName)).cid, signal);
      return (await agreed(cid, signal)) === undefined ? 'absent' : 'foreign';
    },

    // Each Kubo says at once what it does not have: a search of the network would not end.
    async block(cid, signal) {
      const order = await cluster.forReading(cid, signal);
      return (await peers.from(order, (peer) => peer.kubo.block(cid, signal))).result;
    },

    async discard(cid, signal) {
      for (const peer of all) await peer.kubo.discard?.(cid, signal);
    },

    async read(cid, offset, length, signal) {
      const order = await cluster.forReading(cid, signal);
      const open = (peer: ClusterPeer, at: number, left: number) => peer.kubo.read(cid, at, left, signal);
      return await failoverStream(peers, { offset, length, signal }, open, order);
    },

    /** Fails where too few peers answer to store anything. */
    async ping(signal) {
      const { answering, failures } = await cluster.checkAll(signal);
      const [first] = answering;
      const needed = Math.min(replication?.min ?? 1, all.length);
      if (first === undefined || answering.length < needed) throw failures[0];
      return { version: first.version, peers: { answering: answering.length, listed: all.length } };
    },
  };
}
