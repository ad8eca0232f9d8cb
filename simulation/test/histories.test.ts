import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { loadCode, type Code } from '../host/isolate.ts';
import { planOf, runPlan } from '../runner.ts';
import type { Plan } from '../world/plan.ts';
import { historyFiles, planFrom } from './histories.ts';
import { ci } from '../../testkit/long-run.ts';

let code: Code;
beforeAll(async () => void (code = await loadCode()));

/** The first two bursts of a seed; in the short form the first. */
function briefly(seed: string): Plan {
  const plan = planOf(code, seed, 0.5);
  return { ...plan, bursts: plan.bursts.slice(0, ci ? 2 : 1), endMs: 0 };
}

test('one seed gives one history, byte by byte', async () => {
  const plan = briefly('7');
  const [first, second] = [await runPlan(code, plan), await runPlan(code, plan)];
  expect(second.history.join('\n')).toBe(first.history.join('\n'));
  expect(second.log).toEqual(first.log);
  expect(second.digest).toBe(first.digest);
  expect((await runPlan(code, briefly('8'))).digest).not.toBe(first.digest);
});

test.for(ci ? ['2', '3'] : ['2'])('nothing is violated in half a year of the seed %s', async (seed) => {
  const run = await runPlan(code, planOf(code, seed, 0.5));
  expect(run.violation, run.history.join('\n')).toBeUndefined();
});

// Plans that found a bug: they stay as they are when the plans of seeds change.
// The short form runs a sixth of them.
test.for(historyFiles.filter((_, at) => ci || at % 6 === 0))('nothing is violated any more in %s', async (file) => {
  const run = await runPlan(code, planFrom(file));
  expect(run.violation, run.history.join('\n')).toBeUndefined();
});

test('the model is one that can be read: at most 500 lines', () => {
  const lines = ['model', 'quotas', 'promises', 'denials'].map(
    (name) => readFileSync(join(import.meta.dirname, `../world/${name}.ts`), 'utf8').split('\n').length - 1,
  );
  expect(lines.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(500);
});
