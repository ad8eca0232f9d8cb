/**
 * Semaphores of one isolate, because an isolate has 128 MB for all of them. A request that was
 * killed releases no permit, so a permit is lost when its holder has given no sign of life for a
 * while.
 */
import { SealpinError } from '../../shared/errors.ts';

/**
 * Leaves that an isolate reads, hashes and sends at once: each is several times 1 MiB in memory,
 * with the copies on its way.
 */
const leavesAtOnce = 4;
/**
 * Uploads that an isolate serves at once: what they hold while they wait for their clients is about
 * a leaf each. Permits of one by CAR, which holds up to 6 MB of what its blocks are.
 */
const uploadsAtOnce = 64;
export const carPermits = 8;
/** Share of one API key in these, so that its slow clients leave permits to others. */
const uploadsOfKey = 32;
/** Time for which an upload waits for its permit, in ms, and after which a client may try again. */
const permitWaitMs = 10_000;
const permitRetrySeconds = 10;

/**
 * Time without a sign of life after which a permit is free again, in ms: twice the longest step of
 * a transfer.
 */
const lostMs = 60_000;
/**
 * Interval at which those who wait look for lost permits, and those who hold one for long renew it.
 */
const lookMs = 5_000;

/** A permit that a request holds until it releases it, or several. */
export type Permit = { release(): void };

type Wanted = { readonly by: string | undefined; readonly permits: number };
type Held = Wanted & { renewedAt: number };
type Waiting = Wanted & { readonly until: number; grant(held: Held): void; refuse(error: Error): void };

/** A number of permits, handed out in the order in which they were asked for. */
export class Semaphore {
  readonly #count: number;
  readonly #share: number;
  readonly #held = new Set<Held>();
  readonly #waiting = new Set<Waiting>();

  /** @param count how many there are @param share how many of them one holder has at most */
  constructor(count: number, share: number = count) {
    this.#count = count;
    this.#share = share;
  }

  /** Number of permits that are taken. */
  get taken(): number {
    return permitsOf([...this.#held]);
  }

  /** Tells whether `acquire` would not wait. */
  isFree(): boolean {
    return this.#waiting.size === 0 && this.taken < this.#count;
  }

  /**
   * Waits for a permit.
   * @param waitMs the longest wait
   * @param by who takes it; others pass by who has a full share already
   * @param permits how many together
   * @throws overloaded when there was none in time
   */
  async acquire(waitMs = Number.POSITIVE_INFINITY, by?: string, permits = 1): Promise<Permit> {
    const held = await this.#wait(waitMs, { by, permits });
    const renewing = setInterval(() => (held.renewedAt = Date.now()), lookMs);
    return {
      release: () => {
        clearInterval(renewing);
        this.#held.delete(held);
        this.#grant();
      },
    };
  }

  async #wait(waitMs: number, wanted: Wanted): Promise<Held> {
    const { promise, resolve, reject } = Promise.withResolvers<Held>();
    this.#waiting.add({ ...wanted, until: Date.now() + waitMs, grant: resolve, refuse: reject });
    this.#grant();
    // Also a sign to the runtime that the request waits for something: it ends those that have
    // nothing under way.
    const looking = setInterval(() => this.#grant(), Math.min(waitMs, lookMs));
    try {
      return await promise;
    } finally {
      clearInterval(looking);
    }
  }

  /** Gives the free permits to those who wait, and refuses who has waited for long enough. */
  #grant(): void {
    const now = Date.now();
    for (const held of this.#held) if (now - held.renewedAt >= lostMs) this.#held.delete(held);
    const withFullShare = new Set<string | undefined>();
    let isHeldUp = this.taken >= this.#count;
    for (const waiting of this.#waiting) {
      const { by, permits, until } = waiting;
      const hasFullShare = withFullShare.has(by) || (!isHeldUp && this.#takenBy(by) + permits > this.#share);
      const fits = !isHeldUp && !hasFullShare && this.taken + permits <= this.#count;
      // Who is long past the end did not look when it came: a request that was killed.
      if (fits && now < until + lookMs) {
        const held = { renewedAt: now, by, permits };
        this.#held.add(held);
        this.#waiting.delete(waiting);
        waiting.grant(held);
      } else if (now >= until) {
        this.#waiting.delete(waiting);
        const detail = 'too many uploads run at the moment';
        waiting.refuse(new SealpinError('overloaded', detail, { retryAfterSeconds: permitRetrySeconds }));
      } else if (hasFullShare) withFullShare.add(by);
      // Who wants fewer does not pass by: those who want more would never get theirs.
      else isHeldUp = true;
    }
  }

  #takenBy(by: string | undefined): number {
    return permitsOf([...this.#held].filter((each) => by !== undefined && each.by === by));
  }
}

function permitsOf(held: readonly Held[]): number {
  return held.reduce((sum, { permits }) => sum + permits, 0);
}

/** The uploads of this isolate. */
const uploads = new Semaphore(uploadsAtOnce, uploadsOfKey);

/**
 * The permits of leaves. An upload releases its permit while it waits for a client that is slow.
 */
export const leafPermits = new Semaphore(leavesAtOnce);

/**
 * Serves an upload when there is room for it.
 * @param o.by the ID of its API key
 * @throws overloaded when there is none within 10 s
 */
export async function withPermit<T>({ by, permits }: { by: string; permits?: number }, upload: () => Promise<T>) {
  const permit = await uploads.acquire(permitWaitMs, by, permits);
  try {
    return await upload();
  } finally {
    permit.release();
  }
}
