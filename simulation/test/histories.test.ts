import { beforeAll, expect, test } from 'vitest';
import { loadCode, type Code } from '../host/isolate.ts';
import { planOf, runPlan } from '../runner.ts';

let code: Code;
beforeAll(async () => void (code = await loadCode()));

test('one seed gives one history, byte by byte', async () => {
  const plan = planOf(code, '7', 1);
  const [first, second] = [await runPlan(code, plan), await runPlan(code, plan)];
  expect(second.history.join('\n')).toBe(first.history.join('\n'));
  expect(second.log).toEqual(first.log);
  expect(second.digest).toBe(first.digest);
  expect((await runPlan(code, planOf(code, '8', 1))).digest).not.toBe(first.digest);
});

test.for(['1', '2', '3', '5'])('nothing is violated in a year of the seed %s', async (seed) => {
  const run = await runPlan(code, planOf(code, seed, 1));
  expect(run.violation, run.history.join('\n')).toBeUndefined();
});

test('an object goes on with its work where a bucket never answers to a stream', async () => {
  const run = await runPlan(code, planOf(code, '1', 3));
  expect(run.history.join('\n')).toContain('"trouble":"hangs"');
  expect(run.violation, run.history.join('\n')).toBeUndefined();
});
