/** An engine's side of its calls: results, failures, progress and cancelling. */
import { isSealpinError } from '../../shared/errors.ts';
import type { Calls, Failure, FromEngine, FromPage } from '../protocol.ts';

/**
 * A call that runs. `report` tells how many bytes are done, of `total`, and may be called for each
 * of them. `stalled` tells the page what holds the call up, and ends when the page says to
 * continue; it throws the signal's reason.
 */
export type Running = {
  readonly signal: AbortSignal;
  report(bytes: number, o?: { total?: number | undefined; file?: number | undefined; isLast?: boolean }): void;
  stalled(cause: unknown): Promise<void>;
};

/** Functions of an engine, one for each call. */
export type Handlers<C extends Calls> = {
  [Name in keyof C]: (argument: Parameters<C[Name]>[0], running: Running) => Promise<ReturnType<C[Name]>>;
};

/** Progress is reported this often, in ms. */
const progressMs = 200;

/** Answers the calls of a page. */
export function serveCalls<C extends Calls>(handlers: Handlers<C>): void {
  const running = new Map<number, { stop: AbortController; resume?: () => void }>();
  const post = (message: FromEngine): void => postMessage(message);
  addEventListener('message', ({ data }: MessageEvent<FromPage<C>>) => {
    if ('cancel' in data) return running.get(data.id)?.stop.abort();
    if ('resume' in data) return running.get(data.id)?.resume?.();
    const { id, call, argument } = data;
    const stop = new AbortController();
    const { signal } = stop;
    running.set(id, { stop });
    let reportedAt = 0;
    let later: ReturnType<typeof setTimeout> | undefined;
    const report: Running['report'] = (bytes, { total, file, isLast = false } = {}) => {
      const tell = (): void => {
        reportedAt = performance.now();
        post({ id, progress: bytes, total, file });
      };
      clearTimeout(later);
      const waitMs = reportedAt + progressMs - performance.now();
      if (isLast || waitMs <= 0) tell();
      // It may be the last for long, where a line stalls.
      else later = setTimeout(tell, waitMs);
    };
    const stalled: Running['stalled'] = (cause) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      running.set(id, { stop, resume: resolve });
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      post({ id, stalled: failureOf(cause, signal) });
      return promise;
    };
    handlers[call](argument, { signal, report, stalled })
      .then(
        (result) => post({ id, result }),
        (error: unknown) => post({ id, failure: failureOf(error, signal) }),
      )
      .finally(() => {
        clearTimeout(later);
        running.delete(id);
      });
  });
}

function failureOf(error: unknown, signal: AbortSignal): Failure {
  if (signal.aborted) return { code: 'aborted', message: '' };
  if (isSealpinError(error)) return { code: error.code, reason: error.reason, message: error.message };
  if (error instanceof DOMException && error.name === 'AbortError') return { code: 'aborted', message: '' };
  if (error instanceof DOMException && error.name === 'QuotaExceededError')
    return { code: 'disk_full', message: error.message };
  return { code: 'internal', message: error instanceof Error ? error.message : '' };
}
