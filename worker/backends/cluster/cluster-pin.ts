/** Pinning at an IPFS Cluster: the peers agree on a pin at once, and each makes it later. */
import { SealpinError } from '../../../shared/errors.ts';
import type { ClusterPeer } from './cluster-peers.ts';
import { isReplicated, type PeerStatus, type Replication } from './cluster-rest.ts';
import type { Failover } from '../failover.ts';
import { missingBlock, missingError } from '../kubo/missing-blocks.ts';
import { sleep } from '../../../shared/streams/timing.ts';

/**
 * Extra time that a pin may take for each MiB, in ms: the blocks cross a network, at 4 MiB/s if it
 * is slow.
 */
const msPerMib = 250;

/** Intervals at which the peers are polled, in ms: the first, and the longest. */
const poll = { firstMs: 25, growth: 1.5, longestMs: 1000 };

/**
 * Time after which a pin that no peer works on is requested again, in ms. Only then does Cluster
 * replace peers that are down.
 */
const againMs = 3000;

/**
 * Intervals at which a pin is in doubt, in ms, and for each MiB: far longer than peers close to
 * each other take.
 */
const doubt = { everyMs: 1000, msPerMib: 50 };

/** States of a peer that is about to hold the pin. */
const inProgress = ['pinning', 'pin_queued'];

export type ClusterPinOptions = {
  id: string;
  peers: Failover<ClusterPeer>;
  replication: Replication | undefined;
  /** The longest that the pin of a small file may take. */
  pinMs: number;
  /** The longest wait for a Kubo's response. */
  responseMs: number;
};

/**
 * Pins a CID under a name, and waits until as many peers hold it as the pin asks for.
 * @throws as `PinningService.pin` does
 */
export async function pinAtPeers(
  { id, peers, replication, pinMs, responseMs }: ClusterPinOptions,
  { cid, name, bytes, signal }: { cid: string; name: string; bytes: number; signal: AbortSignal },
): Promise<void> {
  const mebibytes = Math.ceil(bytes / 1_048_576);
  const walkMs = pinMs + mebibytes * msPerMib;
  const deadline = Date.now() + walkMs;
  const doubtMs = doubt.everyMs + mebibytes * doubt.msPerMib;
  const request = (o: { replication: Replication | undefined; wanted?: readonly string[] } = { replication }) =>
    peers.first(({ rest }) => rest.pin(cid, name, o, signal));
  const missing = () => {
    const rpcs = peers.inOrder.map(({ rpc }) => rpc);
    return missingBlock(rpcs, cid, { walkMs, responseMs, signal });
  };
  const { min } = await request();
  /** Peers that have failed to hold it. */
  const failing = new Set<string>();
  let requestedAt = Date.now();
  let doubtAt = requestedAt + doubtMs;
  let isRecovered = false;
  let isRepeated = false;
  for (let waitMs = poll.firstMs; ; waitMs = Math.min(waitMs * poll.growth, poll.longestMs)) {
    const statuses = await peers.first(({ rest }) => rest.statuses(cid, false, signal));
    if (isReplicated(statuses, min)) return;
    const now = Date.now();
    if (now > deadline)
      throw new SealpinError('pinning_timeout', `${id} did not pin ${cid} in time: ${summary(statuses)}`);
    if (now > doubtAt) {
      const message = await missing();
      const isHeld = statuses.some(({ status }) => status === 'pinned');
      if (message !== undefined && !isHeld) {
        // The Kubos would search for minutes, and none could collect garbage meanwhile.
        await peers.first(({ rest }) => rest.unpin(cid, signal));
        if ((await missing()) !== undefined) throw missingError(id, cid, message);
        // Somebody else has sent the blocks since, and relies on the pin.
        await request();
      } else if (!isHeld && !isRepeated && statuses.some(({ status }) => inProgress.includes(status))) {
        // A Kubo that wanted a block before it was imported is not told, and asks again after 40 s
        // (Kubo 0.42). A new pin asks at once.
        await peers.first(({ rest }) => rest.unpin(cid, signal));
        await request();
        isRepeated = true;
      }
      doubtAt = Date.now() + doubtMs;
    }
    if (now - requestedAt > againMs && !statuses.some(({ status }) => inProgress.includes(status))) {
      const errors = statuses.filter(({ status }) => status === 'pin_error');
      const [failed] = errors;
      // A failure may be from before this request, and Cluster itself tries again after 12 minutes
      // only.
      if (failed && !isRecovered) {
        await peers.first(({ rest }) => rest.recover(cid, signal));
        isRecovered = true;
        requestedAt = Date.now();
        continue;
      }
      // A peer that is down is replaced by the next request. One whose disk is full, or whose Kubo
      // is away, keeps its place: as many others are asked besides. What fails there as well is
      // reported.
      if (failed && statuses.every(({ status }) => status === 'pin_error' || status === 'pinned')) {
        const isNew = errors.some(({ id: peer }) => !failing.has(peer));
        for (const { id: peer } of errors) failing.add(peer);
        const all = isNew && min > 0 ? await knownPeers(peers, signal) : [];
        const more = { min: min + failing.size, max: (replication?.max ?? min) + failing.size };
        if (all.length < more.min)
          throw await peers.first(async ({ rest }) => rest.refused(failed.error || 'a peer did not pin it'));
        await request({ replication: more, wanted: all.filter((peer) => !failing.has(peer)) });
      } else {
        await request();
      }
      requestedAt = now;
    }
    await sleep(waitMs, signal);
  }
}

/** The IDs of all peers; none where no peer says. */
async function knownPeers(peers: Failover<ClusterPeer>, signal: AbortSignal): Promise<readonly string[]> {
  try {
    return (await peers.first(({ rest }) => rest.checkPeer(signal))).all;
  } catch {
    signal.throwIfAborted();
    return [];
  }
}

/**
 * Waits until no Kubo holds a pin of that name, which the peers agreed to remove. A peer that was
 * killed may have answered before it learned of the pin, for a minute: so it is removed at each
 * that knows it.
 * @throws pinning_unavailable while one peer cannot be asked
 */
export async function unpinnedAtPeers(
  peers: Failover<ClusterPeer>,
  { cid, name, unpinMs, signal }: { cid: string; name: string; unpinMs: number; signal: AbortSignal },
): Promise<void> {
  const deadline = Date.now() + unpinMs;
  await Promise.all(
    peers.inOrder.map(async ({ rest }) => {
      for (let waitMs = poll.firstMs; ; waitMs = Math.min(waitMs * poll.growth, poll.longestMs)) {
        const statuses = await rest.statuses(cid, true, signal);
        if (statuses.every(({ status }) => status === 'unpinned')) return;
        const pin = await rest.agreed(cid, signal);
        if (pin !== undefined && pin.name !== name) return;
        if (pin !== undefined) await rest.unpin(cid, signal);
        if (Date.now() > deadline)
          throw new SealpinError('pinning_timeout', `${cid} was not unpinned in time: ${summary(statuses)}`);
        await sleep(waitMs, signal);
      }
    }),
  );
}

/** Describes the state of a pin at each peer, in Cluster's words. */
export function summary(peers: readonly PeerStatus[]): string {
  return peers.map(({ status, error }) => (error === '' ? status : `${status} (${error})`)).join(', ') || 'no peer';
}
