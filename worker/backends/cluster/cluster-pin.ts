/** Pinning at an IPFS Cluster: the peers agree on a pin at once, and each makes it later. */
import { SealpinError } from '../../../shared/errors.ts';
import type { ClusterPeer } from './cluster-peers.ts';
import { isReplicated, type AgreedPin, type PeerStatus, type Replication } from './cluster-rest.ts';
import { shortMs, type Failover } from '../failover.ts';
import { missingBlock, missingError } from '../kubo/missing-blocks.ts';
import { mebibytes, slowestMsPerMib } from '../pin-limit.ts';
import { sleep } from '../../../shared/streams/timing.ts';

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
  /** The name of this service's pins. */
  pinName: string;
  replication: Replication | undefined;
  /** The longest that the pin of a small file may take. */
  pinMs: number;
  /** The longest wait for a Kubo's response. */
  responseMs: number;
};

/** A CID, and the bytes of the blocks below it. */
type Wanted = { cid: string; bytes: number; signal: AbortSignal };

/**
 * Pins a CID under our name, and waits until as many peers hold it as the pin asks for.
 * @throws as `PinningService.pin` does
 */
export async function pinAtPeers(o: ClusterPinOptions, wanted: Wanted): Promise<void> {
  await new PinAttempt(o, wanted).run();
}

class PinAttempt {
  readonly #o: ClusterPinOptions;
  readonly #cid: string;
  readonly #signal: AbortSignal;
  /** The longest that all may take. */
  readonly #limitMs: number;
  readonly #doubtMs: number;
  /** Number of peers that the pin asks for. */
  #min = 0;
  /** Peers that have failed to hold it. */
  readonly #failing = new Set<string>();
  #requestedAt = 0;
  #doubtAt = 0;
  #isRecovered = false;
  #isRepeated = false;

  constructor(o: ClusterPinOptions, { cid, bytes, signal }: Wanted) {
    this.#o = o;
    this.#cid = cid;
    this.#signal = signal;
    this.#limitMs = o.pinMs + mebibytes(bytes) * slowestMsPerMib;
    this.#doubtMs = doubt.everyMs + mebibytes(bytes) * doubt.msPerMib;
  }

  async run(): Promise<void> {
    const { id, peers } = this.#o;
    const deadline = Date.now() + this.#limitMs;
    this.#min = (await this.#request()).min;
    this.#requestedAt = Date.now();
    this.#doubtAt = this.#requestedAt + this.#doubtMs;
    for (let waitMs = poll.firstMs; ; waitMs = Math.min(waitMs * poll.growth, poll.longestMs)) {
      const statuses = await peers.first(this.#signal, ({ rest }, signal) => rest.statuses(this.#cid, false, signal));
      if (isReplicated(statuses, this.#min)) return;
      const now = Date.now();
      if (now > deadline)
        throw new SealpinError('pinning_timeout', `${id} did not pin ${this.#cid} in time: ${summary(statuses)}`);
      if (now > this.#doubtAt) await this.#doubt(statuses);
      const isIdle = !statuses.some(({ status }) => inProgress.includes(status));
      if (now - this.#requestedAt > againMs && isIdle && (await this.#askAgain(statuses, now)) === 'recovers') continue;
      await sleep(waitMs, this.#signal);
    }
  }

  #request(more?: { replication: Replication; wanted: readonly string[] }): Promise<AgreedPin> {
    const { peers, pinName, replication } = this.#o;
    const wanted = more ?? { replication };
    return peers.first(this.#signal, ({ rest }, signal) => rest.pin(this.#cid, pinName, wanted, signal));
  }

  async #unpin(): Promise<void> {
    await this.#o.peers.first(this.#signal, ({ rest }, signal) => rest.unpin(this.#cid, signal));
  }

  /** Looks for a missing block. Meanwhile nobody asks for the pin: no Kubo is waited for long. */
  #missing(): Promise<string | undefined> {
    const rpcs = this.#o.peers.inOrder.map(({ rpc }) => rpc);
    const limits = { walkMs: this.#doubtMs, responseMs: shortMs };
    return missingBlock(rpcs, this.#cid, { ...limits, signal: this.#signal });
  }

  /** Looks for a reason why it takes so long. */
  async #doubt(statuses: readonly PeerStatus[]): Promise<void> {
    const message = await this.#missing();
    const isHeld = statuses.some(({ status }) => status === 'pinned');
    if (message !== undefined && !isHeld) {
      // The Kubos would search for minutes, and none could collect garbage meanwhile.
      await this.#unpin();
      if ((await this.#missing()) !== undefined) throw missingError(this.#o.id, this.#cid, message);
      // Somebody else has sent the blocks since, and relies on the pin.
      await this.#request();
    } else if (!isHeld && !this.#isRepeated && statuses.some(({ status }) => inProgress.includes(status))) {
      // A Kubo that wanted a block before it was imported is not told, and asks again after 40 s
      // (Kubo 0.42). A new pin asks at once.
      await this.#unpin();
      await this.#request();
      this.#isRepeated = true;
    }
    this.#doubtAt = Date.now() + this.#doubtMs;
  }

  /** Requests a pin again that no peer works on. */
  async #askAgain(statuses: readonly PeerStatus[], now: number): Promise<'recovers' | 'requested'> {
    const { peers } = this.#o;
    const errors = statuses.filter(({ status }) => status === 'pin_error');
    const [failed] = errors;
    // A failure may be from before this request, and Cluster itself tries again after 12 minutes
    // only.
    if (failed && !this.#isRecovered) {
      await peers.first(this.#signal, ({ rest }, signal) => rest.recover(this.#cid, signal));
      this.#isRecovered = true;
      this.#requestedAt = Date.now();
      return 'recovers';
    }
    // A peer that is down is replaced by the next request. One whose disk is full, or whose Kubo is
    // away, keeps its place: as many others are asked besides. What fails there, too, is reported.
    if (failed && statuses.every(({ status }) => status === 'pin_error' || status === 'pinned'))
      await this.#askOthers(errors, failed);
    else await this.#request();
    this.#requestedAt = now;
    return 'requested';
  }

  /** Requests the pin at other peers than those that have failed. */
  async #askOthers(errors: readonly PeerStatus[], failed: PeerStatus): Promise<void> {
    const { peers, replication } = this.#o;
    const failing = this.#failing;
    const isNew = errors.some(({ id }) => !failing.has(id));
    for (const { id } of errors) failing.add(id);
    const all = isNew && this.#min > 0 ? await knownPeers(peers, this.#signal) : [];
    const more = { min: this.#min + failing.size, max: (replication?.max ?? this.#min) + failing.size };
    if (all.length < more.min)
      throw await peers.first(this.#signal, async ({ rest }) => rest.refused(failed.error || 'a peer did not pin it'));
    await this.#request({ replication: more, wanted: all.filter((id) => !failing.has(id)) });
  }
}

/** The IDs of all peers; none where no peer says. */
async function knownPeers(peers: Failover<ClusterPeer>, signal: AbortSignal): Promise<readonly string[]> {
  try {
    return (await peers.first(signal, ({ rest }, limited) => rest.checkPeer(limited))).all;
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
