/** Peers of a service that can all do the same, of which some may be down. */
import { isSealpinError, SealpinError, type Code } from '../../shared/errors.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { withinLimit } from './time-limit.ts';

/** The longest wait for a short answer of one peer while another one may give it, in ms. */
export const shortMs = 3_000;

/** Codes of failures after which another peer may succeed. */
const elsewhere = ['pinning_unavailable', 'pinning_timeout', 'pinning_lost', 'disk_full'] as const;
/** Those of a read: what one peer has damaged, another one may have whole. */
export const whileReading: readonly Code[] = [...elsewhere, 'pinning_failed'];

/**
 * Ranks a failure by how little a retry changes it. Lost bytes may be, and room may be found, at a
 * peer that is down now.
 */
function lastingOf({ code }: SealpinError): number {
  return code === 'pinning_lost' ? 2 : code === 'disk_full' || code === 'pinning_failed' ? 1 : 0;
}

/**
 * Times until which a peer is asked last, in ms since 1970, by its number. Plain data, which
 * requests share.
 */
type LastUntil = Map<number, number>;

/** A question to a peer. `rest`: those that are asked after it. */
type Ask<T, R> = (peer: T, signal: AbortSignal, rest: readonly T[]) => Promise<R>;

/**
 * Peers in the order in which they are asked. One that is down, or full, is asked last for a while.
 */
export class Failover<T> {
  readonly #peers: readonly T[];
  readonly #lastUntil: LastUntil;
  readonly #lastMs: number;

  /** @param lastMs how long a peer that has failed is asked last: a minute */
  constructor(peers: readonly T[], lastUntil: LastUntil = new Map(), lastMs = 60_000) {
    this.#peers = peers;
    this.#lastUntil = lastUntil;
    this.#lastMs = lastMs;
  }

  /** The peers in their order at the moment. */
  get inOrder(): readonly T[] {
    return this.by(() => 0);
  }

  /** The peers by a rank, the lowest first; those that have failed lately are behind all others. */
  by(rank: (peer: T, index: number) => number): readonly T[] {
    const ranked = this.#peers.map((peer, index) => ({ peer, last: this.#failed(peer), rank: rank(peer, index) }));
    return ranked.toSorted((a, b) => a.last - b.last || a.rank - b.rank).map(({ peer }) => peer);
  }

  /** Asks a peer last from now on. @returns whether there is one that has not failed */
  avoid(peer: T): boolean {
    this.#lastUntil.set(this.#peers.indexOf(peer), Date.now() + this.#lastMs);
    return this.#peers.some((each) => this.#failed(each) === 0);
  }

  /** Returns the time until which a peer is asked last; 0 if it is not. */
  #failed(peer: T): number {
    const until = this.#lastUntil.get(this.#peers.indexOf(peer)) ?? 0;
    return until > Date.now() ? until : 0;
  }

  /**
   * Asks one peer after the other for a short answer, until one gives it.
   * @throws as `from` does
   */
  async first<R>(signal: AbortSignal, ask: Ask<T, R>): Promise<R> {
    return (await this.from(this.inOrder, signal, this.short(ask))).result;
  }

  /**
   * Limits the wait for a short answer. Without it one peer that is silent uses up the time of the
   * caller. Where others have failed lately, the time is what they lacked.
   */
  short<R>(ask: Ask<T, R>): Ask<T, R> {
    return async (peer, signal, rest) => {
      if (!rest.some((each) => this.#failed(each) === 0)) return await ask(peer, signal, rest);
      const late = () => new SealpinError('pinning_timeout', `a peer did not answer within ${shortMs / 1000} s`);
      return await withinLimit(signal, { ms: shortMs, late }, (limited) => ask(peer, limited, rest));
    };
  }

  /**
   * Asks some of the peers one after the other until one succeeds.
   * @param codes of the failures after which the next one is asked
   * @returns also those that come after it
   * @throws the failure that another attempt may change, otherwise the last; the reason of the
   * signal once it is aborted, for which no further peer is blamed
   */
  async from<R>(peers: readonly T[], signal: AbortSignal, ask: Ask<T, R>, codes: readonly Code[] = elsewhere) {
    let failure = new SealpinError('pinning_unavailable', 'there is no other peer to ask');
    for (const [index, peer] of peers.entries()) {
      signal.throwIfAborted();
      const rest = peers.slice(index + 1);
      try {
        return { result: await ask(peer, signal, rest), rest };
      } catch (error) {
        if (!isSealpinError(error, ...codes)) throw error;
        if (isSealpinError(error, 'pinning_unavailable', 'pinning_timeout', 'disk_full')) this.avoid(peer);
        if (index === 0 || lastingOf(error) <= lastingOf(failure)) failure = error;
      }
    }
    throw failure;
  }
}

/**
 * A stream of `length` bytes that continues at the next peer where one breaks off.
 * @param open opens the bytes from `offset` at a peer
 * @returns when the first peer has opened
 */
export async function failoverStream<T>(
  failover: Failover<T>,
  { offset, length, signal }: { offset: number; length: number; signal: AbortSignal },
  open: (peer: T, offset: number, length: number) => Promise<ReadableStream<Uint8Array>>,
  order = failover.inOrder,
): Promise<ReadableStream<Uint8Array>> {
  const end = offset + length;
  let at = offset;
  const next = (peers: readonly T[]) =>
    failover.from(peers, signal, async (peer) => (await open(peer, at, end - at)).getReader(), whileReading);
  let { result: reader, rest } = await next(order);
  let hasEnded = false;

  return pulled({
    async next() {
      for (;;) {
        let failure: unknown;
        try {
          const { value } = await reader.read();
          at += value?.length ?? 0;
          if (value !== undefined) return value;
          hasEnded = true;
        } catch (cause) {
          signal.throwIfAborted();
          failure = cause;
        }
        if (at >= end || (rest.length === 0 && hasEnded)) return undefined;
        if (rest.length === 0) throw failure;
        try {
          ({ result: reader, rest } = await next(rest));
        } catch (cause) {
          rest = [];
          if (hasEnded) return undefined;
          throw failure ?? cause;
        }
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
