/** Runs of seeds: each in an isolate of its own. */
import { addByteTexts } from './host/byte-texts.ts';
import { globalsOf } from './host/globals.ts';
import type { Code } from './host/isolate.ts';
import { Scheduler } from './host/scheduler.ts';
import type { Reached } from './world/coverage.ts';
import type * as World from './world/index.ts';
import type { Plan } from './world/plan.ts';
import type { Network, HistoryOutcome } from './world/simulate.ts';

/** An outcome, with the lines that the product logged. */
export type Run = HistoryOutcome & { log: string[] };

/** Carries a plan out. @param isCovered whether to note what it reaches */
export async function runPlan(code: Code, plan: Plan, isCovered = false): Promise<Run> {
  const scheduler = new Scheduler(plan.seed);
  const { world, network, log } = worldOf(code, scheduler);
  return { ...(await world.simulate(scheduler, network, plan, isCovered)), log };
}

/** The plan of a seed. */
export function planOf(code: Code, seed: string, years: number): Plan {
  return worldOf(code, new Scheduler(seed)).world.planOf(seed, years);
}

/** Sums up what histories have reached. */
export function reachedSummary(code: Code, reached: Reached): string[] {
  return worldOf(code, new Scheduler('')).world.summary(reached);
}

function worldOf(code: Code, scheduler: Scheduler): { world: typeof World; network: Network; log: string[] } {
  addByteTexts();
  const log: string[] = [];
  const network: Network = { fetch: () => Promise.reject(new TypeError('there is no network yet')) };
  const world = code.evaluate(
    globalsOf({
      scheduler,
      fetch: (input, init) => network.fetch(input, init),
      log: (line) => void log.push(`${Math.round(scheduler.now)} ${line}`),
    }),
  ) as typeof World;
  return { world, network, log };
}
