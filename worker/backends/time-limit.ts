/** Time limits of steps at a backend. */
import { SealpinError } from '../../shared/errors.ts';

/**
 * Makes a signal that aborts after `ms` by `pinning_timeout`. That of `AbortSignal.timeout` has no
 * code, so what it ends would be taken for a fault of this service.
 */
export function timeLimit(ms: number): AbortSignal {
  const stop = new AbortController();
  const late = () => stop.abort(new SealpinError('pinning_timeout', `a backend took longer than ${ms / 1000} s`));
  AbortSignal.timeout(ms).addEventListener('abort', late, { once: true });
  return stop.signal;
}

/**
 * Runs `work` under the caller's signal and a time limit of its own.
 * @param o.late makes the error of a limit that has passed
 */
export async function withinLimit<T>(
  signal: AbortSignal,
  { ms, late }: { readonly ms: number; readonly late: () => SealpinError },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const limit = new AbortController();
  const { promise: expired, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    limit.abort(late());
    reject(limit.signal.reason);
  }, ms);
  try {
    return await Promise.race([work(AbortSignal.any([signal, limit.signal])), expired]);
  } catch (cause) {
    signal.throwIfAborted();
    limit.signal.throwIfAborted();
    throw cause;
  } finally {
    clearTimeout(timer);
  }
}
