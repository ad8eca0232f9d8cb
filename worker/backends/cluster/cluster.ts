/**
 * The adapter for IPFS Cluster: pins by the REST API of its peers, bytes by the RPC of their Kubos.
 * Each part of a file goes to one Kubo, which verifies it; the peers that are to hold it fetch it
 * from there. Any peer of the list does where another one is down, or full.
 */
import * as v from 'valibot';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { parseCid, sha256 } from '../../../shared/ipfs/index.ts';
import { equalBytes } from '../../../shared/streams/equal-bytes.ts';
import { anchorOf, importAnchor } from '../anchor.ts';
import { clusterPeers, type ClusterPeer, type ClusterPeers, type PeersOptions } from './cluster-peers.ts';
import { clusterImport, importEmptyBlock } from './cluster-import.ts';
import { pinAtPeers, summary, unpinnedAtPeers, type ClusterPinOptions } from './cluster-pin.ts';
import { isReplicated, type Replication } from './cluster-rest.ts';
import type { Adapter, BlockImport, Held, PinningService } from '../contract.ts';
import { failoverStream, whileReading } from '../failover.ts';
import { addressField, authorized, headersField, secretField, unknownField } from '../option-fields.ts';

const peersMessage = 'peers must be a list of at least one {"url", "ipfs"}';
const replicationMessage = 'replication must be {"min", "max"}, whole numbers from 1 with min not above max';

const Peer = v.strictObject(
  { url: addressField('url', 'tokenSecret'), ipfs: addressField('ipfs', 'ipfsTokenSecret') },
  peersMessage,
);

const factor = v.pipe(v.number(replicationMessage), v.integer(replicationMessage), v.minValue(1, replicationMessage));

const Replication = v.pipe(
  v.strictObject({ min: factor, max: factor }, replicationMessage),
  v.check(({ min, max }) => min <= max, replicationMessage),
);

/** `tokenSecret` is for the REST APIs, `ipfsTokenSecret` for the Kubos. */
const ClusterFields = v.strictObject(
  {
    peers: v.pipe(v.optional(v.array(Peer, peersMessage), []), v.minLength(1, peersMessage)),
    tokenSecret: secretField('tokenSecret'),
    ipfsTokenSecret: secretField('ipfsTokenSecret'),
    headers: headersField,
    replication: v.optional(Replication),
  },
  unknownField,
);

/**
 * IPFS Cluster, configured by
 * `{"peers": [{"url", "ipfs"}], "tokenSecret"?, "ipfsTokenSecret"?, "headers"?, "replication"?}`.
 */
export const clusterAdapter: Adapter<typeof ClusterFields> = {
  options: ClusterFields,
  triedAgainst:
    'IPFS Cluster 1.1.6, one and three peers on one machine, also while peers are killed; not over a wide area',
  places: ({ peers }) => peers.flatMap(({ url, ipfs }) => [url, ipfs]),
  make: ({ peers, tokenSecret, ipfsTokenSecret, headers, replication }, context) =>
    cluster({
      ...context,
      peers,
      headers: authorized(headers, tokenSecret, context),
      ipfsHeaders: authorized(headers, ipfsTokenSecret, context),
      replication,
    }),
};

export type ClusterOptions = PeersOptions & {
  /** Number of peers that hold a file; undefined: as the peers are configured. */
  replication: Replication | undefined;
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
  const { id, pinName, replication } = o;
  const { responseMs, pinMs } = { responseMs: 30_000, pinMs: 60_000, ...o.timeouts };
  const cluster = clusterPeers(o, responseMs);
  const { all, peers } = cluster;
  const pinOptions = { id, peers, pinName, replication, pinMs, responseMs };
  const importBlocks = (signal: AbortSignal): BlockImport => clusterImport(cluster, signal);
  const { agreed, ...pins } = agreedPins(pinOptions);

  return {
    id,
    takes: 'blocks',
    // The Kubo of the peer does.
    verifiesImports: true,
    // The peers agree on pins and removals, and carry out what was agreed last; a removal is
    // confirmed by peers one by one.
    ordersRequests: true,

    importBlocks,
    ...pins,

    async pin(cid, { bytes, beside, signal }) {
      if (bytes === 0) await importEmptyBlock(all, cid, signal);
      if (!beside) return await pinAtPeers(pinOptions, { cid, bytes, signal });
      const anchor = await importAnchor(importBlocks(signal), cid, pinName);
      return await pinAtPeers(pinOptions, { cid: anchor, bytes, signal });
    },

    async unpinBeside(cid, signal) {
      await pins.unpin((await anchorOf(cid, pinName)).cid, signal);
      return (await agreed(cid, signal)) === undefined ? 'absent' : 'foreign';
    },

    block: (cid, signal) => blockAt(cluster, cid, signal),

    ...damagedBlocks(all),

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

/** Makes the functions that look for a pin, repair it and remove it. */
function agreedPins({ peers, pinName, replication, responseMs }: ClusterPinOptions) {
  const agreed = (cid: string, signal: AbortSignal) =>
    peers.first(signal, ({ rest }, limited) => rest.agreed(cid, limited));

  async function unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'> {
    const pin = await agreed(cid, signal);
    if (pin !== undefined && pin.name !== pinName) return 'foreign';
    const isRemoved = pin !== undefined && (await peers.first(signal, ({ rest }, limited) => rest.unpin(cid, limited)));
    // Also where there was none: a peer that was down may not know of the removal yet.
    await unpinnedAtPeers(peers, { cid, name: pinName, unpinMs: responseMs, signal });
    return isRemoved ? 'removed' : 'absent';
  }

  /** A pin of ours that no peer holds counts as absent, so that it is made again. */
  async function stat(cid: string, signal: AbortSignal): Promise<Held> {
    const pin = await agreed(cid, signal);
    if (pin === undefined) return { pin: 'absent' };
    if (pin.name !== pinName) return { pin: 'foreign', name: pin.name };
    const statuses = await peers.first(signal, ({ rest }, limited) => rest.statuses(cid, false, limited));
    // One that had to go to other peers asks for more.
    if (isReplicated(statuses, replication?.min ?? pin.min)) return { pin: 'ours' };
    const isHeld = statuses.some(({ status }) => status === 'pinned');
    return isHeld ? { pin: 'ours', lacks: summary(statuses) } : { pin: 'absent' };
  }

  /**
   * A peer that is back is asked to try again what has failed there; one that stays away is
   * replaced by another pin only.
   */
  async function recover(cid: string, signal: AbortSignal): Promise<void> {
    const statuses = await peers.first(signal, ({ rest }, limited) => rest.statuses(cid, false, limited));
    const isRefused = statuses.some(({ status }) => status === 'pin_error');
    await peers.first(signal, async ({ rest }, limited) =>
      isRefused ? await rest.recover(cid, limited) : void (await rest.pin(cid, pinName, { replication }, limited)),
    );
  }

  return { agreed, stat, recover, unpin };
}

/**
 * A block of the first peer that gives the right bytes. Each Kubo says at once what it does not
 * have: a search of the network would not end.
 * @returns wrong bytes only where every peer has such, or none
 */
async function blockAt({ peers, forReading }: ClusterPeers, cid: string, signal: AbortSignal): Promise<Uint8Array> {
  const { digest } = parseCid(cid);
  let damaged: Uint8Array | undefined;
  const order = await forReading(cid, signal);
  const ask = async ({ kubo }: ClusterPeer): Promise<Uint8Array> => {
    const bytes = await kubo.block(cid, signal);
    if (equalBytes(await sha256(bytes), digest)) return bytes;
    damaged ??= bytes;
    throw new SealpinError('pinning_lost', `what a peer has of ${cid} is damaged`);
  };
  try {
    return (await peers.from(order, signal, ask, whileReading)).result;
  } catch (error) {
    if (damaged !== undefined && isSealpinError(error, 'pinning_lost')) return damaged;
    throw error;
  }
}

/**
 * Makes the functions for damaged blocks. One that a peer has whole, or may have while it is away,
 * would be lost with the pin.
 */
function damagedBlocks(all: readonly ClusterPeer[]): Required<Pick<PinningService, 'isDamaged' | 'discard'>> {
  return {
    async isDamaged(cid, signal) {
      const asked = all.map(async ({ kubo }) => await kubo.isDamaged?.(cid, signal).catch(() => false));
      const seen = await Promise.all(asked);
      return seen.includes(false) ? false : seen.find((each) => each !== undefined);
    },

    async discard(cid, signal) {
      for (const peer of all) await peer.kubo.discard?.(cid, signal);
    },
  };
}
