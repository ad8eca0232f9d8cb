/** Waiting, and limits to it. No timer and no listener outlives the wait. */

/** The longest that a timer waits; one of more ends at once. */
const maxTimerMs = 2 ** 31 - 1;

/** Waits so many ms, at most 24 days. @throws the reason of the signal once it is aborted */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await within(new Promise<never>(() => undefined), ms, () => undefined, signal);
}

/**
 * Waits for work that may ignore its signal: what comes after the wait is dropped.
 * @param late gives the result of work that takes longer than `ms`, or throws
 * @throws what the work throws, the reason of the signal once it is aborted
 */
export async function within<T, L>(work: Promise<T>, ms: number, late: () => L, signal?: AbortSignal): Promise<T | L> {
  const end = Promise.withResolvers<typeof isLate>();
  const stop = (): void => end.reject(signal?.reason as Error);
  if (signal?.aborted === true) stop();
  signal?.addEventListener('abort', stop, { once: true });
  const timer = setTimeout(end.resolve, Math.min(Math.max(0, ms), maxTimerMs), isLate);
  try {
    const first = await Promise.race([work, end.promise]);
    return first === isLate ? late() : first;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

const isLate = Symbol('late');

/**
 * Makes waits, one at a time, that an interruption ends, and each one after it. `Promise.race` with
 * a promise that outlives them would keep the result of each.
 */
export function interruptible() {
  let interruption: { readonly reason: unknown } | undefined;
  let fail: ((reason: unknown) => void) | undefined;
  return {
    wait: <T>(work: Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        fail = reject;
        if (interruption !== undefined) reject(interruption.reason);
        work.then(resolve, reject);
      }),
    interrupt(reason: unknown): void {
      interruption ??= { reason };
      fail?.(interruption.reason);
    },
  };
}

/** Tells whether a promise settles within so many milliseconds. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const settled = Promise.allSettled([work]).then(() => true);
  return await within(settled, ms, () => false);
}

/** Makes a signal that aborts with the error of `late` after `ms`, unless it is cleared. */
export function timeLimit(ms: number, late: () => Error): { readonly signal: AbortSignal; clear(): void } {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(late()), Math.min(ms, maxTimerMs));
  return { signal: stop.signal, clear: () => clearTimeout(timer) };
}

/** A signal that aborts with the caller's, or on `stop`. */
export function withStop(caller: AbortSignal | undefined): { stop(reason?: unknown): void; signal: AbortSignal } {
  const own = new AbortController();
  return { stop: (reason) => own.abort(reason), signal: caller ? AbortSignal.any([caller, own.signal]) : own.signal };
}

/** The longest `Retry-After` that is kept: a server, or one in front of it, can name any. */
const maxRetryAfter = 3600;

/**
 * Parses the value of `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date.
 * @returns seconds, at most an hour; undefined for a date that is past, and for anything else
 */
export function parseRetryAfter(text: string | null | undefined): number | undefined {
  const seconds = /^\d+$/.test(text ?? '') ? Number(text) : Math.ceil((Date.parse(text ?? '') - Date.now()) / 1000);
  return seconds >= 0 ? Math.min(seconds, maxRetryAfter) : undefined;
}
