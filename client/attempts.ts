/**
 * Attempts at something that a service may do later: how many there are, and the pauses between
 * them; and an end to what has none.
 */
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { sleep } from '../shared/streams/timing.ts';

/** Attempts in a row that bring nothing new. With the pauses below they take about two minutes. */
const maxTries = 8;
/** The first pause, and the longest, in ms. */
export const firstPauseMs = 1000;
const maxPauseMs = 30_000;
/** A longer Retry-After is not waited for. */
export const maxRetryAfterSeconds = 300;

/** Time in which a service is told that what was begun there is abandoned, in ms. */
export const abandonMs = 10_000;

/** The one deadline of all that is undone after a failure, from when it is first asked for. */
export type Deadline = () => AbortSignal;

export function undoingDeadline(): Deadline {
  let signal: AbortSignal | undefined;
  return () => (signal ??= AbortSignal.timeout(abandonMs));
}

/** A failure that another attempt may not meet. */
export class TemporaryError extends SealpinError {}

/** Tells whether another attempt may succeed. */
export function isTemporaryFailure(error: unknown): error is SealpinError {
  return error instanceof TemporaryError || isSealpinError(error, 'service_unreachable');
}

export type AttemptOptions = {
  readonly signal: AbortSignal;
  /** Waits; rejects with the signal's reason. For tests. */
  readonly wait?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
  /** Called before each wait. */
  readonly onRetry?: ((failure: SealpinError) => void) | undefined;
  /** Tells whether another attempt may succeed: `isTemporaryFailure` where it is left out. */
  readonly isTemporary?: ((error: unknown) => error is SealpinError) | undefined;
};

export type RetryOptions = { readonly signal?: AbortSignal | undefined } & Pick<AttemptOptions, 'onRetry'>;

/**
 * Counts the attempts in a row that bring nothing, and waits between them: Retry-After, else longer
 * each time, with jitter.
 */
export function attemptsOf({ signal, wait = sleep, onRetry, isTemporary = isTemporaryFailure }: AttemptOptions) {
  let tries = 0;
  let farthest = -1;
  return {
    pause: (ms: number): Promise<void> => wait(ms, signal),
    /** Another byte has arrived: the count begins again. */
    reached(offset: number): void {
      if (offset > farthest) tries = 0;
      farthest = Math.max(farthest, offset);
    },
    /** Returns when it is time for the next attempt; throws when there is none. */
    async failed(error: unknown): Promise<void> {
      signal.throwIfAborted();
      tries += 1;
      if (!isTemporary(error) || tries >= maxTries) throw error;
      if ((error.retryAfterSeconds ?? 0) > maxRetryAfterSeconds) throw error;
      onRetry?.(error);
      const backOffMs = Math.min(maxPauseMs, firstPauseMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2);
      await wait(error.retryAfterSeconds === undefined ? backOffMs : error.retryAfterSeconds * 1000, signal);
    },
  };
}

/**
 * Returns when to ask again after an error, in seconds; undefined where no other answer is to be
 * expected.
 */
export function secondsUntilAgain(error: unknown): number | undefined {
  if (isSealpinError(error, 'service_unreachable')) return 1;
  return isSealpinError(error) ? error.retryAfterSeconds : undefined;
}

/**
 * Sends a request again while its failures say that it may succeed later, so that what was uploaded
 * before it is not lost for it.
 * @param request takes how many attempts there were before: one of them may have been done
 */
export async function untilAnswered<T>(
  request: (before: number) => Promise<T>,
  {
    signal = new AbortController().signal,
    isTemporary = (error): error is SealpinError => secondsUntilAgain(error) !== undefined,
    ...o
  }: RetryOptions & Pick<AttemptOptions, 'isTemporary' | 'wait'>,
): Promise<T> {
  const attempts = attemptsOf({ signal, isTemporary, ...o });
  for (let before = 0; ; before += 1) {
    try {
      return await request(before);
    } catch (error) {
      await attempts.failed(error);
    }
  }
}

/**
 * Empty pages in a row: a filter that matches few of many files has some, and a hostile service has
 * no end of them.
 */
const maxEmptyPages = 100;

/**
 * Returns what looks at each page of a list, with where the next one begins.
 * @throws SealpinError (what is returned) `service_answer` for a page that comes again, and after
 * too many that are empty
 */
export function endlessList(): (items: number, next: string | undefined) => void {
  const seen = new Set<string>();
  let emptyPages = 0;
  return (items, next) => {
    emptyPages = items === 0 ? emptyPages + 1 : 0;
    const what = emptyPages > maxEmptyPages ? 'returns empty pages' : 'repeats a page';
    if (emptyPages > maxEmptyPages || (next !== undefined && seen.has(next)))
      throw new SealpinError('service_answer', `the service's list never ends: it ${what}`);
    if (next !== undefined) seen.add(next);
  };
}
