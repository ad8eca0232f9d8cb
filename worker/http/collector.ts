/**
 * Collector of an isolate's counts: hands them over some seconds after a request, for all requests
 * until then.
 */
import type { Ctx } from './app.ts';

/**
 * Time for which an isolate collects before it hands over, in ms. Below the 30 s for which a Worker
 * may go on after its response (developers.cloudflare.com/workers/runtime-apis/context/#waituntil).
 */
const collectMs = 10_000;

/** The wait of an isolate. One request waits for all; the next one does when that was stopped. */
export class Collector {
  #since = 0;

  /** Hands everything over later, unless another request does. */
  handOverLater(c: Ctx, handOver: () => Promise<void>): void {
    if (Date.now() - this.#since < 2 * collectMs) return;
    this.#since = Date.now();
    c.executionCtx.waitUntil(this.#after(handOver));
  }

  async #after(handOver: () => Promise<void>): Promise<void> {
    await scheduler.wait(collectMs);
    this.#since = 0;
    await handOver();
  }
}
