/** One history: a plan that is carried out, and compared with the model. */
import { beginningMs, newOwner, type Scheduler } from '../host/scheduler.ts';
import { openAccount } from './account-actions.ts';
import type { ActingWorld } from './actor.ts';
import { act } from './actions.ts';
import { checkEmpty, checkRest } from './rest-checks.ts';
import { adminToken } from '../platform/edge.ts';
import { ask, answerJson } from './asking.ts';
import { Coverage, type Reached } from './coverage.ts';
import { Faults } from './faults.ts';
import { Model, Violation } from './model.ts';
import type { Burst, Plan, Step } from './plan.ts';
import { SimulatedService } from './simulated-service.ts';

/** The network that a world answers. */
export type Network = { fetch: typeof fetch };

/** Outcome of a history. `violation`: what was seen and must not be. */
export type HistoryOutcome = {
  violation: string | undefined;
  history: string[];
  digest: string;
  tasks: number;
  reached: Reached;
};

/** The time in which everything comes to rest: every pin is asked for once a week. */
const restMs = 20 * 86_400_000;
/** The time after which nothing is kept of what was deleted: receipts stay for 90 days. */
const forgottenMs = 130 * 86_400_000;

/** Carries a plan out. @param isCovered whether to note what it reaches */
export async function simulate(
  scheduler: Scheduler,
  network: Network,
  plan: Plan,
  isCovered: boolean,
): Promise<HistoryOutcome> {
  const history: string[] = [];
  const tell = (line: string): void => {
    scheduler.note(line);
    history.push(`${historyTimeText(scheduler.now)} ${line}`);
  };
  const found = Promise.withResolvers<never>();
  const violated = (what: string): void => found.reject(new Violation(what));
  const coverage = isCovered ? new Coverage() : undefined;
  const { topology, hasFront = false } = plan;
  const service = new SimulatedService({ scheduler, topology, hasFront, violated, coverage });
  network.fetch = (input, init) => service.fetch(input, init);
  const world: ActingWorld = {
    service,
    model: new Model(),
    accounts: [],
    quotas: plan.quotas,
    hasMigrated: false,
    coverage,
    keys: new Map(),
    tell,
  };
  const main = scheduler.as(newOwner('history'), () => runHistory(world, plan, violated));
  let violation: string | undefined;
  try {
    await scheduler.run(Promise.race([main, found.promise]));
  } catch (error) {
    violation = error instanceof Violation ? error.message : String((error as Error).stack);
    tell(`violated: ${violation}`);
  }
  service.close();
  return {
    violation,
    history,
    digest: scheduler.digest(),
    tasks: scheduler.tasks,
    reached: coverage?.reached ?? new Map(),
  };
}

async function runHistory(world: ActingWorld, plan: Plan, violated: (what: string) => void): Promise<void> {
  const { scheduler } = world.service;
  const faults = new Faults(world);
  for (const account of plan.quotas.keys()) await openAccount(world, account);
  for (const burst of plan.bursts) {
    await scheduler.sleep(beginningMs + burst.atMs - scheduler.now, 'until the next burst');
    await runBurst(world, faults, burst, violated);
    await scheduler.sleep(restMs, 'rest');
    await checkRest(world);
  }
  await scheduler.sleep(beginningMs + plan.endMs - scheduler.now, 'until the end');
  await checkRest(world);
  await closeAll(world);
  await scheduler.sleep(forgottenMs, 'until all is forgotten');
  checkEmpty(world);
}

/** Closes every account that the operator's list has. */
async function closeAll({ service }: ActingWorld): Promise<void> {
  const operate = (method: string, path: string) =>
    ask(service, { method, path, apiKey: adminToken, isRepeatable: true });
  const told = await operate('GET', '/v1/operator/accounts?limit=100');
  const { accounts, cursor } = answerJson<{ accounts?: { id: string }[]; cursor?: string }>(told.answer);
  if (accounts === undefined || cursor !== undefined) throw new Violation(`the list of accounts says ${told.status}`);
  for (const { id } of accounts) await operate('DELETE', `/v1/operator/accounts/${id}`);
}

/** Carries the steps of a burst out, each at its time, and waits for their ends. */
async function runBurst(
  world: ActingWorld,
  faults: Faults,
  { steps }: Burst,
  violated: (what: string) => void,
): Promise<void> {
  const { scheduler } = world.service;
  let lastMs = 0;
  const carryOut = async (step: Step): Promise<void> => {
    await scheduler.sleep(step.atMs, `until step ${step.id}`);
    if ('does' in step) return await act(world, step);
    const forMs = faults.begin(step.fails, `fault ${step.id}`);
    lastMs = Math.max(lastMs, scheduler.now + forMs);
  };
  await Promise.all(
    steps.map((step) =>
      carryOut(step).catch((error: unknown) => {
        if (!(error instanceof Violation)) throw error;
        violated(error.message);
      }),
    ),
  );
  await scheduler.sleep(lastMs - scheduler.now, 'until faults end');
}

function historyTimeText(now: number): string {
  const ms = now - beginningMs;
  return `day ${Math.floor(ms / 86_400_000)} +${((ms % 86_400_000) / 1_000).toFixed(3)} s`;
}
