import { beforeAll, expect, test } from 'vitest';
import { ci, long } from '../../testkit/long-run.ts';
import { loadCode, type Code } from '../host/isolate.ts';
import { runPlan } from '../runner.ts';
import type { SimulatedFault } from '../world/plan.ts';
import { planFrom } from './histories.ts';

let code: Code;
beforeAll(async () => void (code = await loadCode()));

/** A few of everything that objects do, in 2,000 tasks. */
const ordinary = planFrom('crashed-anywhere.json');
/** Files in one request that go past the Worker, in 800 tasks. */
const handedOver = planFrom('handed-over.json');
/** Those of several requests, in 1,100 tasks. */
const partsHandedOver = planFrom('parts-handed-over.json');

/** What ends once so many tasks have run, or commits were made. */
const crashes: Record<string, (after: number) => SimulatedFault> = {
  'a power cut': (after) => ({ kind: 'power cut', afterTasks: after }),
  'the end of the isolate': (after) => ({ kind: 'isolate ends', afterTasks: after }),
  'the end of an object that is at work': (after) => ({ kind: 'object crashes', nth: after, afterTasks: after }),
  'the end of an object before a commit': (after) => ({
    kind: 'crash at a commit',
    isKept: false,
    afterCommits: after,
  }),
  'the end of an object after a commit': (after) => ({ kind: 'crash at a commit', isKept: true, afterCommits: after }),
  'the end of the process in front': (after) => ({ kind: 'front ends', afterTasks: after }),
};

/** The place that the short form tries; the long form tries all. */
const shortPlace = 40;

const cases = Object.entries(crashes).flatMap(([name, fault]) => {
  const one = fault(0).kind === 'front ends' ? handedOver : ordinary;
  return [one, partsHandedOver].map((plan) => [name, plan.seed, plan, fault] as const);
});
/** In the short form every other end, each with another plan. */
const tried = cases.filter((_, at) => ci || at % 7 === 0);

test.for(tried)('nothing is violated by %s in "%s", wherever it comes', async ([, , plan, fault]) => {
  const [burst, ...others] = plan.bursts;
  for (let after = long ? 1 : shortPlace, hasStruck = true; hasStruck; after += 1) {
    const steps = [{ id: 100, atMs: 0, fails: fault(after) }, ...(burst?.steps ?? [])];
    const { violation, history } = await runPlan(code, { ...plan, bursts: [{ atMs: 0, steps }, ...others] });
    hasStruck = history.some((line) => line.includes('strikes'));
    expect(violation, `after ${after}\n${history.join('\n')}`).toBeUndefined();
    if (after <= shortPlace) expect(hasStruck).toBe(true);
    if (!long) return;
  }
});

test.for([
  { kind: 'object crashes', nth: 0, afterTasks: 1 },
  { kind: 'isolate ends', afterTasks: 1 },
  { kind: 'lines break', afterTasks: 1 },
  { kind: 'front ends', afterTasks: 1 },
] as const)('a fault that finds nothing to end waits for something: $kind', async (fails) => {
  const steps = handedOver.bursts[0]?.steps.slice(0, 2).map((each) => ({ ...each, atMs: 90_000 })) ?? [];
  const bursts = [{ atMs: 0, steps: [{ id: 100, atMs: 60_000, fails }, ...steps] }];
  const { history } = await runPlan(code, { ...handedOver, bursts });
  expect(history.join('\n')).toMatch(/fault 100 strikes[^]*, 2 attempts\)/);
});
