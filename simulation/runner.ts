/** Runs of seeds: each in an isolate of its own. */
import { addByteTexts } from './host/byte-texts.ts';
import { globalsOf } from './host/globals.ts';
import type { Code } from './host/isolate.ts';
import { Scheduler } from './host/scheduler.ts';
import type { Reached } from './world/coverage.ts';
import type { Plan } from './world/plan.ts';
import type { HistoryLimits, Network, HistoryOutcome } from './world/simulate.ts';

type World = {
  kinds: readonly string[];
  summary(reached: Reached, kinds: readonly string[]): string[];
  planOf(seed: string, years: number): Plan;
  simulate(scheduler: Scheduler, network: Network, plan: Plan, limits: HistoryLimits): Promise<HistoryOutcome>;
};

/** An outcome, with the lines that the product logged. */
export type Run = HistoryOutcome & { log: string[] };

/** Tasks after which a history is stuck: far more than any needs. */
const maxTasks = 3_000_000;

/** Carries a plan out. @param isCovered whether to note what it reaches */
export async function runPlan(code: Code, plan: Plan, isCovered = false): Promise<Run> {
  const scheduler = new Scheduler(plan.seed);
  const { world, network, log } = worldOf(code, scheduler);
  return { ...(await world.simulate(scheduler, network, plan, { maxTasks, isCovered })), log };
}

/** The plan of a seed. */
export function planOf(code: Code, seed: string, years: number): Plan {
  return worldOf(code, new Scheduler(seed)).world.planOf(seed, years);
}

/** Sums up what histories have reached. */
export function reachedSummary(code: Code, reached: Reached): string[] {
  const { world } = worldOf(code, new Scheduler(''));
  return world.summary(reached, world.kinds);
}

function worldOf(code: Code, scheduler: Scheduler): { world: World; network: Network; log: string[] } {
  addByteTexts();
  const log: string[] = [];
  const network: Network = { fetch: () => Promise.reject(new TypeError('there is no network yet')) };
  const world = code.evaluate(
    globalsOf({
      scheduler,
      fetch: (input, init) => network.fetch(input, init),
      log: (line) => void log.push(`${Math.round(scheduler.now)} ${line}`),
    }),
  ) as World;
  return { world, network, log };
}
