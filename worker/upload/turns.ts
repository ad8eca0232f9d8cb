/**
 * Turns that the requests of one isolate take, because an isolate has 128 MB for all of them. A request that was killed ends no
 * turn, so a turn is lost when its holder has given no sign of life for a while.
 */
import { SealpinError } from '../../shared/errors.ts';

/** Leaves that an isolate hashes and sends at once; each takes about three times its size. */
const leavesAtOnce = 12;
/** Uploads that an isolate serves at once: what they hold while they wait for their clients is about a leaf each. */
const uploadsAtOnce = 64;
/** How long an upload waits for its place, in ms, and when a client may try again. */
const placeWaitMs = 10_000;
const placeRetrySeconds = 10;

/** After this time without a sign of life a turn is free again, in ms: twice the longest step of a transfer. */
const lostMs = 60_000;
/** How often those who wait look for lost turns, and those who hold one for long renew it. */
const lookMs = 5_000;

type Turn = { renewedAt: number };
type Waiting = (turn: Turn) => void;

/** A number of turns, handed out in the order in which they were asked for. */
export class Turns {
  readonly #count: number;
  readonly #now: () => number;
  readonly #held = new Set<Turn>();
  readonly #waiting = new Set<Waiting>();

  constructor(count: number, now: () => number = Date.now) {
    this.#count = count;
    this.#now = now;
  }

  /**
   * Does some work in a turn.
   * @param waitMs how long to wait for the turn
   * @throws overloaded when there was none in time, besides what the work throws
   */
  async run<T>(work: () => Promise<T>, waitMs = Number.POSITIVE_INFINITY): Promise<T> {
    const turn = await this.#take(waitMs);
    const renewing = setInterval(() => (turn.renewedAt = this.#now()), lookMs);
    try {
      return await work();
    } finally {
      clearInterval(renewing);
      this.#held.delete(turn);
      this.#grant();
    }
  }

  async #take(waitMs: number): Promise<Turn> {
    const { promise, resolve } = Promise.withResolvers<Turn>();
    this.#waiting.add(resolve);
    this.#grant();
    const startedAt = this.#now();
    // Also a sign to the runtime that the request waits for something: it ends those that have nothing under way.
    const { promise: late, reject } = Promise.withResolvers<never>();
    const looking = setInterval(
      () => {
        this.#grant();
        if (this.#now() - startedAt < waitMs) return;
        if (this.#waiting.delete(resolve))
          reject(
            new SealpinError('overloaded', 'too many uploads run at the moment', {
              retryAfterSeconds: placeRetrySeconds,
            }),
          );
      },
      Math.min(waitMs, lookMs),
    );
    try {
      return await Promise.race([promise, late]);
    } finally {
      clearInterval(looking);
    }
  }

  /** Gives the free turns to those who wait. */
  #grant(): void {
    const now = this.#now();
    if (this.#held.size >= this.#count)
      for (const turn of this.#held) if (now - turn.renewedAt >= lostMs) this.#held.delete(turn);
    for (const resolve of this.#waiting) {
      if (this.#held.size >= this.#count) return;
      const turn = { renewedAt: now };
      this.#held.add(turn);
      this.#waiting.delete(resolve);
      resolve(turn);
    }
  }
}

/** The turns of leaves. A client that is slow holds none while the Worker waits for its bytes. */
export const leafTurns = new Turns(leavesAtOnce);

/** The uploads of this isolate. */
const places = new Turns(uploadsAtOnce);

/**
 * Serves an upload when there is room for it.
 * @throws overloaded when there is none within 10 s
 */
export function inPlace<T>(upload: () => Promise<T>): Promise<T> {
  return places.run(upload, placeWaitMs);
}
