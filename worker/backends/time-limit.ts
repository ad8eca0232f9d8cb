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
