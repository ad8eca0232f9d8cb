import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ci, inCi, long } from '../../testkit/long-run.ts';
import { first } from '../../testkit/present.ts';
import { loadCode } from '../host/isolate.ts';
import { planOf, runPlan } from '../runner.ts';
import { shrink } from '../shrink.ts';
import { planFrom } from './histories.ts';
import { plantedFaults } from './planted-faults.ts';

/** Outside of the long form: some that the first seeds find. */
const quick = plantedFaults.filter(({ seed }) => Number(seed) <= 2).slice(0, ci ? 2 : 1);

/** Seeds that are tried where the one that found a fault does not find it any more. */
const others = long ? Array.from({ length: 100 }, (_, i) => String(i + 1)) : [];

test.for(long ? plantedFaults : quick)('a simulation finds that $name', async (fault) => {
  const code = await loadCode([fault]);
  const seen: string[] = [];
  for (const seed of [fault.seed, ...others]) {
    const plan = seed.endsWith('.json') ? planFrom(seed) : planOf(code, seed, 0.5);
    const { violation } = await runPlan(code, plan);
    if (violation !== undefined) seen.push(violation);
    if (violation !== undefined && fault.found.test(violation)) return;
  }
  expect.fail(`nothing like ${String(fault.found)} in ${seen.length} violations: ${seen.slice(0, 3).join('; ')}`);
});

inCi('every planted fault is a change of what the product has', async () => {
  const files = Map.groupBy(plantedFaults, ({ file }) => file);
  // Faults of one line exclude each other, so that each is bundled in a turn of its own.
  const turns = Math.max(...[...files.values()].map(({ length }) => length));
  for (let turn = 0; turn < turns; turn += 1)
    await loadCode([...files.values()].flatMap((each) => each.slice(turn, turn + 1)));
  for (const { ordinary } of plantedFaults) expect(ordinary ?? 'package.json').toSatisfy(existsSync);
  await expect(loadCode([{ file: 'worker/env.ts', from: 'not there', to: '' }])).rejects.toThrow('does not have once');
});

test.runIf(long)('a plan that fails is shrunk to the steps that matter', async () => {
  const fault = first(plantedFaults);
  const code = await loadCode([fault]);
  const plan = planOf(code, fault.seed, 0.5);
  const small = await shrink(code, { plan, run: await runPlan(code, plan) }, () => undefined);
  expect(small.run.violation).toMatch(fault.found);
  expect(small.plan.bursts.flatMap(({ steps }) => steps).length).toBeLessThan(8);
});
