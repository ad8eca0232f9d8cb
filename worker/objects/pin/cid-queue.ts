/** One operation at a time for each CID; what somebody waits for interrupts what the alarm does. */
import { settlesWithin } from '../../../shared/streams/timing.ts';
import { err, type Failure, type Result } from '../result.ts';

/** Time that an operation waits for another one on the same CID, in ms. */
export const waitMs = 10_000;

/** The operations of an object. */
export class CidQueue {
  readonly #last = new Map<string, Promise<void>>();
  /** Current work of the alarm, by CID. */
  readonly #interruptible = new Map<string, AbortController>();

  /**
   * Runs an operation that somebody waits for.
   * @returns also `overloaded`, when the one before it does not end
   */
  async interrupt<T extends object>(cid: string, operation: () => Promise<Result<T>>): Promise<Result<T>> {
    this.#interruptible.get(cid)?.abort(new Error('a request comes first'));
    return await this.#serialize(cid, operation);
  }

  /**
   * Runs what the alarm does, under a signal that aborts when somebody else comes.
   * @returns as `interrupt`
   */
  async inBackground(cid: string, work: (signal: AbortSignal) => Promise<void>): Promise<Result> {
    return await this.#serialize(cid, async () => {
      const stop = new AbortController();
      this.#interruptible.set(cid, stop);
      try {
        await work(stop.signal);
      } finally {
        this.#interruptible.delete(cid);
      }
      return { ok: true };
    });
  }

  /**
   * Waits for what is at work on a CID, for a while. It is no work itself: two who wait would wait
   * for each other in turn.
   * @returns whether there was something
   */
  async ended(cid: string): Promise<boolean> {
    const last = this.#last.get(cid);
    if (last === undefined) return false;
    await settlesWithin(last, waitMs);
    return true;
  }

  async #serialize<T extends object>(cid: string, operation: () => Promise<Result<T>>): Promise<Result<T>> {
    const before = this.#last.get(cid) ?? Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const mine = before.then(() => promise);
    this.#last.set(cid, mine);
    // Who gives up waiting leaves those before it at work: the next one waits for them, too.
    void mine.then(() => this.#last.get(cid) === mine && this.#last.delete(cid));
    try {
      if (!(await settlesWithin(before, waitMs)))
        return err('overloaded', 'the same bytes are being stored or removed', 5);
      return await operation();
    } finally {
      resolve();
    }
  }
}

/** A request to remove a pin could arrive after one that makes it again. */
export function beingRemoved(): Failure {
  return err('overloaded', 'the same bytes are being removed', 5);
}
