/**
 * Turns that the requests of one isolate take, because an isolate has 128 MB for all of them. A request that was killed ends no
 * turn, so a turn is lost when its holder has given no sign of life for a while.
 */
import { SealpinError } from '../../shared/errors.ts';

/** Leaves that an isolate reads, hashes and sends at once: each is several times 1 MiB in memory, with the copies on its way. */
const leavesAtOnce = 4;
/** Uploads that an isolate serves at once: what they hold while they wait for their clients is about a leaf each. */
const uploadsAtOnce = 64;
/** How long an upload waits for its place, in ms, and when a client may try again. */
const placeWaitMs = 10_000;
const placeRetrySeconds = 10;

/** After this time without a sign of life a turn is free again, in ms: twice the longest step of a transfer. */
const lostMs = 60_000;
/** How often those who wait look for lost turns, and those who hold one for long renew it. */
const lookMs = 5_000;

/** A turn that a request holds until it ends it. */
export type Turn = { end(): void };

type Held = { renewedAt: number };

/** A number of turns, handed out in the order in which they were asked for. */
export class Turns {
  readonly #count: number;
  readonly #now: () => number;
  readonly #held = new Set<Held>();
  readonly #waiting = new Set<(held: Held) => void>();

  /** @param count how many there are */
  constructor(count: number, now: () => number = Date.now) {
    this.#count = count;
    this.#now = now;
  }

  /** How many are taken. */
  get taken(): number {
    return this.#held.size;
  }

  /** Whether `take` would not have to wait. */
  isFree(): boolean {
    return this.#waiting.size === 0 && this.#held.size < this.#count;
  }

  /**
   * Waits for a turn.
   * @param waitMs the longest wait
   * @throws overloaded when there was none in time
   */
  async take(waitMs = Number.POSITIVE_INFINITY): Promise<Turn> {
    const held = await this.#wait(waitMs);
    const renewing = setInterval(() => (held.renewedAt = this.#now()), lookMs);
    return {
      end: () => {
        clearInterval(renewing);
        this.#held.delete(held);
        this.#grant();
      },
    };
  }

  async #wait(waitMs: number): Promise<Held> {
    const { promise, resolve, reject } = Promise.withResolvers<Held>();
    this.#waiting.add(resolve);
    this.#grant();
    const startedAt = this.#now();
    // Also a sign to the runtime that the request waits for something: it ends those that have nothing under way.
    const looking = setInterval(
      () => {
        this.#grant();
        if (this.#now() - startedAt < waitMs || !this.#waiting.delete(resolve)) return;
        const detail = 'too many uploads run at the moment';
        reject(new SealpinError('overloaded', detail, { retryAfterSeconds: placeRetrySeconds }));
      },
      Math.min(waitMs, lookMs),
    );
    try {
      return await promise;
    } finally {
      clearInterval(looking);
    }
  }

  /** Gives the free turns to those who wait. */
  #grant(): void {
    const now = this.#now();
    for (const held of this.#held) if (now - held.renewedAt >= lostMs) this.#held.delete(held);
    for (const resolve of this.#waiting) {
      if (this.#held.size >= this.#count) return;
      const held = { renewedAt: now };
      this.#held.add(held);
      this.#waiting.delete(resolve);
      resolve(held);
    }
  }
}

/** The uploads of this isolate. */
const places = new Turns(uploadsAtOnce);

/** The turns of leaves. An upload gives its turn up while it waits for a client that is slow. */
export const leafTurns = new Turns(leavesAtOnce);

/**
 * Serves an upload when there is room for it.
 * @throws overloaded when there is none within 10 s
 */
export async function inPlace<T>(upload: () => Promise<T>): Promise<T> {
  const place = await places.take(placeWaitMs);
  try {
    return await upload();
  } finally {
    place.end();
  }
}
