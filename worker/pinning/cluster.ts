/**
 * The adapter for IPFS Cluster: pins by the REST API of its peers, bytes by the RPC of their Kubos. A file goes to one Kubo, which
 * verifies it; the peers that are to hold it fetch it from there. Any peer of the list does where another one is down.
 */
import { parseCid } from '../../shared/ipfs/index.ts';
import { anchorOf, importAnchor } from './anchor.ts';
import { pinAtPeers, summary, unpinnedAtPeers, type ClusterPeer } from './cluster-pin.ts';
import { clusterRest, isReplicated, type Replication } from './cluster-rest.ts';
import type { BlockImport, PinningService } from './contract.ts';
import { Failover, failoverStream } from './failover.ts';
import { kubo } from './kubo.ts';
import { rpc } from './kubo-rpc.ts';

export type ClusterOptions = {
  /** The service's name in errors. */
  id: string;
  /** The roots of the REST API and of the Kubo of each peer. The first is asked first. */
  peers: readonly { url: string; ipfs: string }[];
  /** For the REST APIs, and for the Kubos. */
  headers: Readonly<Record<string, string>>;
  ipfsHeaders: Readonly<Record<string, string>>;
  /** On how many peers a file is to be; undefined: as the peers are configured. */
  replication: Replication | undefined;
  /** The name of this service's pins: `sealpin:` and its id, at most 80 bytes of ASCII. */
  pinName: string;
  fetch: typeof fetch;
  timeouts?: Partial<ClusterTimeouts>;
};

type ClusterTimeouts = {
  /** The longest wait for a response: 30 s. */
  responseMs: number;
  /** The longest that pinning of small files may take: 60 s. Cluster takes 30 s to notice that a peer is down. */
  pinMs: number;
};

/** A pinning service behind the peers of an IPFS Cluster. */
export function cluster(o: ClusterOptions): PinningService {
  const { id, pinName, replication, fetch } = o;
  const { responseMs, pinMs } = { responseMs: 30_000, pinMs: 60_000, ...o.timeouts };
  const peers = new Failover<ClusterPeer>(
    o.peers.map(({ url, ipfs }) => {
      const node = { id, url: ipfs, headers: o.ipfsHeaders, fetch };
      return {
        rest: clusterRest({ id, url, headers: o.headers, fetch }, responseMs),
        kubo: kubo({ ...node, pinName, timeouts: { responseMs } }),
        rpc: rpc(node),
      };
    }),
  );
  const pinOptions = { id, peers, replication, pinMs, responseMs };

  const agreed = (cid: string, signal: AbortSignal) => peers.first(({ rest }) => rest.agreed(cid, signal));

  /** The import is opened with the first block, at a peer that works. */
  function importBlocks(signal: AbortSignal): BlockImport {
    const stop = new AbortController();
    const ended = AbortSignal.any([signal, stop.signal]);
    let opening: Promise<BlockImport> | undefined;
    const open = () =>
      peers.first(async (peer) => {
        await Promise.all([peer.rest.checkPeer(ended), peer.kubo.ping(ended)]);
        return peer.kubo.importBlocks(ended);
      });
    return {
      async write(cid, bytes) {
        ended.throwIfAborted();
        await (await (opening ??= open())).write(cid, bytes);
      },
      async finish() {
        ended.throwIfAborted();
        await (await opening)?.finish();
      },
      abort: (reason) => stop.abort(reason),
    };
  }

  /** Bitswap does not carry a block without bytes, so every Kubo gets it from us. */
  async function importEmptyBlock(cid: string, signal: AbortSignal): Promise<void> {
    await Promise.allSettled(
      peers.places.map(async (peer) => {
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
    // The peers agree on pins and removals, and carry out what was agreed last; a removal is confirmed by peers one by one.
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
      if (isReplicated(statuses, pin.min)) return { pin: 'ours' };
      const isHeld = statuses.some(({ status }) => status === 'pinned');
      return isHeld ? { pin: 'ours', lacks: summary(statuses) } : { pin: 'absent' };
    },

    /** A peer that is back is asked to try again what has failed there; one that stays away is replaced by another pin only. */
    async recover(cid, signal) {
      const statuses = await peers.first(({ rest }) => rest.statuses(cid, false, signal));
      const isRefused = statuses.some(({ status }) => status === 'pin_error');
      await peers.first(async ({ rest }) =>
        isRefused ? await rest.recover(cid, signal) : void (await rest.pin(cid, pinName, replication, signal)),
      );
    },

    async unpinBeside(cid, signal) {
      await unpin((await anchorOf(cid, pinName)).cid, signal);
      return (await agreed(cid, signal)) === undefined ? 'absent' : 'foreign';
    },

    async restoreName(cid, name, signal) {
      const pin = await agreed(cid, signal);
      if (pin?.name === pinName) await peers.first(({ rest }) => rest.pin(cid, name, replication, signal));
    },

    // Each Kubo says at once what it does not have: a search of the network would not end.
    block: (cid, signal) => peers.first((peer) => peer.kubo.block(cid, signal)),

    async discard(cid, signal) {
      for (const peer of peers.places) await peer.kubo.discard?.(cid, signal);
    },

    read: (cid, offset, length, signal) =>
      failoverStream(peers, { offset, length, signal }, (peer, at, left) => peer.kubo.read(cid, at, left, signal)),

    async ping(signal) {
      return { version: await peers.first(({ rest }) => rest.version(signal)) };
    },
  };
}
