/** Requests that continue an upload, and the wait of another one for their end. */

import { settlesWithin } from '../../../../shared/streams/timing.ts';

type RunningRequest = { lease: string; ended: PromiseWithResolvers<void> };

/**
 * The requests that an object lets continue an upload. They are known as long as the object is in
 * memory: after that nobody waits for them.
 */
export class RunningRequests {
  readonly #running = new Map<string, RunningRequest>();

  /** Records the request that continues an upload, in place of the one before it. */
  begin(uploadId: string, lease: string): void {
    this.#running.get(uploadId)?.ended.resolve();
    this.#running.set(uploadId, { lease, ended: Promise.withResolvers() });
  }

  /** A request has ended, and records nothing more. */
  end(uploadId: string, lease: string): void {
    const running = this.#running.get(uploadId);
    if (running?.lease !== lease) return;
    running.ended.resolve();
    this.#running.delete(uploadId);
  }

  /** Waits until no request continues an upload, or until it has waited for `waitMs`. */
  async idle(uploadId: string, waitMs: number): Promise<void> {
    const running = this.#running.get(uploadId);
    if (running !== undefined) await settlesWithin(running.ended.promise, waitMs);
  }
}
