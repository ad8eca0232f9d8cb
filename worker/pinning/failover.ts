/** Several places that can do the same, of which some may be down. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';

/** Whether another place may succeed where this one failed. */
function isElsewhere(error: unknown): error is SealpinError {
  return (['pinning_unavailable', 'pinning_timeout', 'pinning_lost'] as const).some((code) =>
    isSealpinError(error, code),
  );
}

/** Places in the order in which they are asked. One that is down is asked last from then on. */
export class Failover<T> {
  #places: readonly T[];

  constructor(places: readonly T[]) {
    this.#places = places;
  }

  /** The places in their order at the moment. */
  get places(): readonly T[] {
    return this.#places;
  }

  /** Asks one place after the other until one succeeds. @throws the failure that another attempt may change, otherwise the last */
  async first<R>(ask: (place: T) => Promise<R>): Promise<R> {
    return (await this.from(this.#places, ask)).result;
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
        if (error.code !== 'pinning_lost') this.#places = [...this.#places.filter((each) => each !== place), place];
        // What is lost here may be at a place that is down.
        if (index === 0 || error.code !== 'pinning_lost' || failure.code === 'pinning_lost') failure = error;
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
): Promise<ReadableStream<Uint8Array>> {
  const end = offset + length;
  let at = offset;
  const next = (places: readonly T[]) =>
    failover.from(places, async (place) => (await open(place, at, end - at)).getReader());
  let { result: reader, rest } = await next(failover.places);
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
