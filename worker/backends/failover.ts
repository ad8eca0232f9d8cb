/** Several places that can do the same, of which some may be down. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';

/** Tells whether another place may succeed where this one failed. */
function isElsewhere(error: unknown): error is SealpinError {
  return (['pinning_unavailable', 'pinning_timeout', 'pinning_lost', 'disk_full'] as const).some((code) =>
    isSealpinError(error, code),
  );
}

/**
 * Ranks a failure by how little a retry changes it. Lost bytes may be, and room may be found, at a place that is down
 * now.
 */
function lastingOf({ code }: SealpinError): number {
  return code === 'pinning_lost' ? 2 : code === 'disk_full' ? 1 : 0;
}

/** Times until which a place is asked last, in ms since 1970, by its number. Plain data, which requests share. */
export type LastUntil = Map<number, number>;

/** Places in the order in which they are asked. One that is down, or full, is asked last for a while. */
export class Failover<T> {
  readonly #places: readonly T[];
  readonly #lastUntil: LastUntil;
  readonly #lastMs: number;

  /** @param o.lastMs how long a place that has failed is asked last: a minute */
  constructor(places: readonly T[], o: { lastUntil?: LastUntil; lastMs?: number } = {}) {
    this.#places = places;
    this.#lastUntil = o.lastUntil ?? new Map();
    this.#lastMs = o.lastMs ?? 60_000;
  }

  /** The places in their order at the moment. */
  get places(): readonly T[] {
    return this.by(() => 0);
  }

  /** The places by a rank, the lowest first; those that have failed lately are behind all others. */
  by(rank: (place: T, index: number) => number): readonly T[] {
    const ranked = this.#places.map((place, index) => ({ place, last: this.#failed(place), rank: rank(place, index) }));
    return ranked.toSorted((a, b) => a.last - b.last || a.rank - b.rank).map(({ place }) => place);
  }

  /** Asks a place last from now on. @returns whether there is one that has not failed */
  avoid(place: T): boolean {
    this.#lastUntil.set(this.#places.indexOf(place), Date.now() + this.#lastMs);
    return this.#places.some((each) => this.#failed(each) === 0);
  }

  /** Returns the time until which a place is asked last; 0 if it is not. */
  #failed(place: T): number {
    const until = this.#lastUntil.get(this.#places.indexOf(place)) ?? 0;
    return until > Date.now() ? until : 0;
  }

  /** Asks one place after the other until one succeeds. @throws the failure that another attempt may change, otherwise the last */
  async first<R>(ask: (place: T) => Promise<R>): Promise<R> {
    return (await this.from(this.places, ask)).result;
  }

  /**
   * Asks some of the places one after the other until one succeeds.
   * @returns also those that come after it
   * @throws the failure that another attempt may change, otherwise the last
   */
  async from<R>(places: readonly T[], ask: (place: T) => Promise<R>): Promise<{ result: R; rest: readonly T[] }> {
    let failure = new SealpinError('pinning_unavailable', 'there is no other place to ask');
    for (const [index, place] of places.entries()) {
      try {
        return { result: await ask(place), rest: places.slice(index + 1) };
      } catch (error) {
        if (!isElsewhere(error)) throw error;
        if (error.code !== 'pinning_lost') this.avoid(place);
        if (index === 0 || lastingOf(error) <= lastingOf(failure)) failure = error;
      }
    }
    throw failure;
  }
}

/**
 * A stream of `length` bytes that goes on at the next place where one breaks off.
 * @param open opens the bytes from `offset` at a place
 * @returns when the first place has opened
 */
export async function failoverStream<T>(
  failover: Failover<T>,
  { offset, length, signal }: { offset: number; length: number; signal: AbortSignal },
  open: (place: T, offset: number, length: number) => Promise<ReadableStream<Uint8Array>>,
  order = failover.places,
): Promise<ReadableStream<Uint8Array>> {
  const end = offset + length;
  let at = offset;
  const next = (places: readonly T[]) =>
    failover.from(places, async (place) => (await open(place, at, end - at)).getReader());
  let { result: reader, rest } = await next(order);
  let hasEnded = false;

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          let failure: unknown;
          try {
            const { done, value } = await reader.read();
            if (!done) {
              at += value.length;
              controller.enqueue(value);
              return;
            }
            hasEnded = true;
          } catch (cause) {
            signal.throwIfAborted();
            failure = cause;
          }
          if (at >= end || rest.length === 0) {
            if (at < end && !hasEnded) throw failure;
            controller.close();
            return;
          }
          try {
            ({ result: reader, rest } = await next(rest));
          } catch (cause) {
            rest = [];
            if (!hasEnded) throw failure ?? cause;
            controller.close();
            return;
          }
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
