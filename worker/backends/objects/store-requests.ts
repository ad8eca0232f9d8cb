/** Parts that requests to all buckets have: time limits, and another attempt. */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { sleep } from '../../../shared/streams/timing.ts';
import { withinLimit } from '../time-limit.ts';

/** The longest wait for a response that needs no more bytes of ours, in ms. */
const responseMs = 30_000;
/** Waits before what is held is sent again, in ms: an object may be written once a second. */
const waitsMs = [250, 1_100, 2_500] as const;

/** Seconds after which a client may try again that met a store which asks for fewer requests. */
export const slowDownSeconds = 5;

/**
 * Makes a request that sends nothing but what is held, again where the store could not be reached
 * or asked to wait.
 */
export async function repeated<T>(id: string, signal: AbortSignal, request: (signal: AbortSignal) => Promise<T>) {
  const late = () => new SealpinError('pinning_timeout', `${id} did not answer within ${responseMs / 1000} s`);
  for (const waitMs of waitsMs) {
    try {
      return await withinLimit(signal, { ms: responseMs, late }, request);
    } catch (error) {
      if (!isSealpinError(error, 'pinning_unavailable')) throw error;
      await sleep(waitMs * (1 + Math.random() / 2), signal);
    }
  }
  return await withinLimit(signal, { ms: responseMs, late }, request);
}

/** Does something for each item, some at once. */
export async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const rest = [...items];
  // Workers have six connections.
  await Promise.all(
    Array.from({ length: 5 }, async () => {
      for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
    }),
  );
}
