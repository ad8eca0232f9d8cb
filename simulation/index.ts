/**
 * Simulates years of the service: `npm run simulate -- --seeds 1000 --years 10`. A seed that fails
 * is shrunk, and its history printed; `--seed` runs one seed alone.
 */
import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { loadCode, type Code } from './host/isolate.ts';
import { planOf, runPlan } from './runner.ts';
import { shrink } from './shrink.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10' },
    years: { type: 'string', default: '10' },
    from: { type: 'string', default: '1' },
    step: { type: 'string' },
    seed: { type: 'string' },
  },
});
const years = Number(values.years);
const [first, count] =
  values.seed === undefined ? [Number(values.from), Number(values.seeds)] : [Number(values.seed), 1];

if (values.step === undefined && count > 1) await inProcesses();
else await inThisProcess(await loadCode());

/** Runs the seeds in as many processes as there are cores. */
async function inProcesses(): Promise<void> {
  const begun = performance.now();
  const processes = Math.min(availableParallelism(), count);
  const codes = Array.from({ length: processes }, (_, i) => {
    const seeds = Math.ceil((count - i) / processes);
    const args = ['--from', String(first + i), '--seeds', String(seeds), '--step', String(processes)];
    const child = fork(import.meta.filename, [...args, '--years', String(years)], { execArgv: process.execArgv });
    return new Promise<number>((resolve) => void child.once('exit', (code) => resolve(code ?? 1)));
  });
  const failed = (await Promise.all(codes)).filter((code) => code !== 0).length;
  const seconds = Math.round((performance.now() - begun) / 1_000);
  console.log(
    `${count} seeds of ${years} years in ${seconds} s: ${failed === 0 ? 'no violation' : 'violations, see above'}`,
  );
  process.exitCode = failed === 0 ? 0 : 1;
}

async function inThisProcess(code: Code): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const seed = String(first + i * Number(values.step ?? 1));
    const plan = planOf(code, seed, years);
    const run = await runPlan(code, plan);
    if (values.seed !== undefined && run.violation === undefined) console.log(run.history.join('\n'));
    console.log(
      `seed ${seed}: ${run.tasks} tasks, digest ${run.digest.slice(0, 16)}: ${run.violation ?? 'no violation'}`,
    );
    if (run.violation === undefined) continue;
    process.exitCode = 1;
    const small = await shrink(code, { plan, run }, (line) => console.log(`seed ${seed}: ${line}`));
    console.log(`seed ${seed}, shrunk, with ${JSON.stringify(plan.topology)}:`);
    console.log(small.run.history.map((line) => `  ${line}`).join('\n'));
    console.log(
      small.run.log
        .slice(-20)
        .map((line) => `  logged: ${line}`)
        .join('\n'),
    );
    console.log(`  plan: ${JSON.stringify(small.plan)}`);
  }
}
