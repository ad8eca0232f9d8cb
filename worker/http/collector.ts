/** Hands over what an isolate counts, some seconds after a request, for all requests until then. */
import type { Ctx } from './app.ts';

/**
 * Time for which an isolate collects before it hands over, in ms. Below the 30 s for which a Worker
 * may go on after its response (developers.cloudflare.com/workers/runtime-apis/context/#waituntil).
 */
const collectMs = 10_000;

/**
 * Makes the function that has everything handed over later. One request waits for all; the next one
 * does when that was stopped.
 */
export function later(handOver: (env: Ctx['env']) => Promise<void>): (c: Ctx) => void {
  let since = 0;
  const handOverAll = async (env: Ctx['env']): Promise<void> => {
    await scheduler.wait(collectMs);
    since = 0;
    await handOver(env);
  };
  return (c) => {
    if (Date.now() - since < 2 * collectMs) return;
    since = Date.now();
    c.executionCtx.waitUntil(handOverAll(c.env));
  };
}
