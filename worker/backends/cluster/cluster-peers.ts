/** The peers of an IPFS Cluster in their order, and what is remembered of them. */
import { parseCid, type Cid } from '../../../shared/ipfs/index.ts';
import { clusterRest, type ClusterRest, type PeerInfo } from './cluster-rest.ts';
import type { PinningService } from '../contract.ts';
import { Failover, shortMs } from '../failover.ts';
import { kubo } from '../kubo/kubo.ts';
import { rpc, type Rpc } from '../kubo/kubo-rpc.ts';
import { timeLimit } from '../time-limit.ts';

/** Address of a peer: the roots of its REST API and of its Kubo. */
export type PeerAddress = { url: string; ipfs: string };

export type ClusterPeer = {
  rest: ClusterRest;
  /** Its Kubo, as a pinning service of its own and by single commands. */
  kubo: PinningService;
  rpc: Rpc;
};

/** Plain data, which requests share, by the number of the peer. */
type PeerMemory = ReturnType<typeof newMemory>;

function newMemory() {
  return {
    down: new Map<number, number>(),
    full: new Map<number, number>(),
    wereAway: new Set<number>(),
    ids: new Map<number, string>(),
    /** Time of the last question for the IDs, in ms since 1970. */
    askedAt: 0,
    /** Peers that hold what is read at the moment, by CID. */
    holders: new Map<string, readonly string[]>(),
  };
}

/** Memories by the list of the configuration, from which each request makes an adapter. */
const memories = new WeakMap<readonly PeerAddress[], PeerMemory>();

function memoryOf(addresses: readonly PeerAddress[]): PeerMemory {
  const memory = memories.get(addresses) ?? newMemory();
  memories.set(addresses, memory);
  return memory;
}

/**
 * Time for which the disk of a peer counts as full, in ms: until garbage is collected, or somebody
 * acts.
 */
const fullMs = 600_000;

/**
 * The longest wait for who holds a file, in ms: without it the file is looked for at one peer after
 * the other.
 */
const holdersMs = 2_000;

/** Interval at which peers are asked for IDs that are still unknown, in ms. */
const idsMs = 60_000;

/**
 * Number of files whose holders are remembered. Files may move, which costs one wasted question.
 */
const maxHolders = 1_000;

export type PeersOptions = {
  /** The service's name in errors. */
  id: string;
  /** All peers. */
  peers: readonly PeerAddress[];
  /** Headers for the REST APIs and for the Kubos. */
  headers: Readonly<Record<string, string>>;
  ipfsHeaders: Readonly<Record<string, string>>;
  /** The name of this service's pins: `sealpin:` and its id, at most 80 bytes of ASCII. */
  pinName: string;
  fetch: typeof fetch;
};

export type ClusterPeers = ReturnType<typeof clusterPeers>;

/** Makes the clients of all peers. */
export function clusterPeers(options: PeersOptions, responseMs: number) {
  const memory = memoryOf(options.peers);
  const all = clientsOf(options, responseMs);
  const peers = new Failover(all, memory.down);
  const importers = new Failover(all, memory.full, fullMs);

  /** Checks a peer and its Kubo, and learns its ID. */
  async function check(peer: ClusterPeer, signal: AbortSignal): Promise<PeerInfo> {
    const [info] = await Promise.all([peer.rest.checkPeer(signal), peer.kubo.ping(signal)]);
    memory.ids.set(all.indexOf(peer), info.id);
    return info;
  }

  /** Asks listed peers for the IDs that are not known. */
  async function learnIds(signal: AbortSignal): Promise<void> {
    if (memory.ids.size === all.length || Date.now() - memory.askedAt < idsMs) return;
    memory.askedAt = Date.now();
    await Promise.allSettled(all.filter((_, index) => !memory.ids.has(index)).map((peer) => check(peer, signal)));
  }

  return {
    all,
    peers,
    importers,
    check,

    /**
     * The peers for new blocks: each gets its share.
     * @param cid of the first block: the same bytes go to the same peer
     */
    forImport(cid: Cid): readonly ClusterPeer[] {
      const circle = spread(cid, all.length);
      return importers.by((_, index) => circle(index));
    },

    /**
     * The peers for reading: those first that are to hold what is below a CID, in another order for
     * each.
     */
    async forReading(cid: string, signal: AbortSignal): Promise<readonly ClusterPeer[]> {
      if (all.length === 1) return all;
      const limited = AbortSignal.any([signal, timeLimit(holdersMs)]);
      await Promise.all([learnHolders(peers, memory.holders, cid, limited), learnIds(limited)]);
      signal.throwIfAborted();
      const holders = memory.holders.get(cid) ?? [];
      const isHolder = (index: number) => holders.includes(memory.ids.get(index) ?? '');
      const circle = spread(parseCid(cid), all.length);
      return peers.by((_, index) => circle(index) + (isHolder(index) ? 0 : all.length));
    },

    checkAll: (signal: AbortSignal) => checkAll(all, check, memory.wereAway, signal),
  };
}

function clientsOf(o: PeersOptions, responseMs: number): ClusterPeer[] {
  const { id, headers, ipfsHeaders, pinName, fetch } = o;
  return o.peers.map(({ url, ipfs }) => {
    const node = { id, url: ipfs, headers: ipfsHeaders, fetch };
    return {
      rest: clusterRest({ id, url, headers, fetch }, responseMs),
      kubo: kubo({ ...node, pinName, timeouts: { responseMs } }),
      rpc: rpc(node),
    };
  });
}

/** The number of a peer in a circle that begins at another place for each CID. */
function spread({ digest: [high = 0, low = 0] }: Cid, count: number): (index: number) => number {
  const start = (high * 256 + low) % count;
  return (index) => (index - start + count) % count;
}

/** Asks who holds what is below a CID. */
async function learnHolders(
  peers: Failover<ClusterPeer>,
  known: PeerMemory['holders'],
  cid: string,
  signal: AbortSignal,
): Promise<void> {
  if (known.has(cid)) return;
  try {
    const pin = await peers.first(signal, ({ rest }, limited) => rest.agreed(cid, limited));
    if (known.size >= maxHolders) known.clear();
    if (pin !== undefined) known.set(cid, pin.holders);
  } catch {
    // The file is looked for at all peers.
  }
}

/**
 * Checks all peers. Where one was away and is back, they try again what failed meanwhile, which
 * Cluster itself does every 12 minutes.
 * @returns those that answer, and why others do not
 */
async function checkAll(
  all: readonly ClusterPeer[],
  check: (peer: ClusterPeer, signal: AbortSignal) => Promise<PeerInfo>,
  wereAway: PeerMemory['wereAway'],
  signal: AbortSignal,
): Promise<{ answering: PeerInfo[]; failures: unknown[] }> {
  const answering: PeerInfo[] = [];
  const failures: unknown[] = [];
  let back: ClusterPeer | undefined;
  const limited = AbortSignal.any([signal, timeLimit(shortMs)]);
  const checks = await Promise.allSettled(all.map((peer) => check(peer, limited)));
  for (const [index, result] of checks.entries()) {
    if (result.status === 'fulfilled') answering.push(result.value);
    else failures.push(result.reason);
    if (result.status === 'rejected') wereAway.add(index);
    else if (wereAway.delete(index)) back = all[index];
  }
  await back?.rest.recoverAll(signal).catch(() => undefined);
  return { answering, failures };
}
