/**
 * Simulates years of the service: `npm run simulate -- --seeds 1000 --years 10`. A seed that fails
 * is shrunk, and its history printed; `--seed` runs one seed alone.
 */
import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { loadCode, type Code } from './host/isolate.ts';
import { planOf, runPlan, reachedSummary, type Run } from './runner.ts';
import { shrink } from './shrink.ts';
import type { Plan } from './world/plan.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10' },
    years: { type: 'string', default: '10' },
    from: { type: 'string', default: '1' },
    // Each waits for threads of the platform for a tenth of its time.
    processes: { type: 'string', default: String(availableParallelism() + 1) },
    step: { type: 'string' },
    seed: { type: 'string' },
  },
});
const years = Number(values.years);
if (!(years > 0)) refuse('years', 'a number above 0');
const [first, count] = values.seed === undefined ? [whole('from'), whole('seeds')] : [whole('seed'), 1];

/** The last message of a process. */
type ProcessResult = { ran: number; failed: number; reached: [string, number][]; cpuSeconds: number };

if (values.step === undefined) await inProcesses();
else process.send?.(await inThisProcess(await loadCode(), whole('step')));

/** The value of a flag, a whole number from 1 on. */
function whole(flag: Exclude<keyof typeof values, 'years'>): number {
  const text = values[flag] ?? '';
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : refuse(flag, 'a whole number from 1 on');
}

function refuse(flag: string, what: string): never {
  console.error(`--${flag} must be ${what}`);
  process.exit(2);
}

/** Runs the seeds in some processes, and sums up what they have reached. */
async function inProcesses(): Promise<void> {
  const begun = performance.now();
  const processes = Math.min(whole('processes'), count);
  const ended =
    processes === 1
      ? [await inThisProcess(await loadCode(), 1)]
      : await Promise.all(Array.from({ length: processes }, (_, i) => inChild(i, processes)));
  const reached = new Map<string, number>();
  for (const [name, times] of ended.flatMap((each) => each.reached))
    reached.set(name, (reached.get(name) ?? 0) + times);
  const failed = ended.reduce((sum, each) => sum + each.failed, 0);
  const ran = ended.reduce((sum, each) => sum + each.ran, 0);
  const seconds = Math.round((performance.now() - begun) / 1_000);
  const cpu = (ended.reduce((sum, each) => sum + each.cpuSeconds, 0) / ran).toFixed(1);
  console.log(reachedSummary(await loadCode(), reached).join('\n'));
  console.log(`${ran} seeds of ${years} years in ${seconds} s, ${cpu} s of CPU each: ${failed} with a violation`);
  process.exitCode = failed === 0 && ran === count ? 0 : 1;
}

async function inChild(i: number, processes: number): Promise<ProcessResult> {
  const seeds = Math.ceil((count - i) / processes);
  const args = ['--from', String(first + i), '--seeds', String(seeds), '--step', String(processes)];
  const child = fork(import.meta.filename, [...args, '--years', String(years)], { execArgv: process.execArgv });
  return await new Promise((resolve, reject) => {
    child.once('message', (message) => resolve(message as ProcessResult));
    child.once('exit', (code) => reject(new Error(`a process ended with ${code}`)));
  });
}

async function inThisProcess(code: Code, step: number): Promise<ProcessResult> {
  const reached = new Map<string, number>();
  let [ran, failed] = [0, 0];
  for (; ran < count; ran += 1) {
    const seed = String(first + ran * step);
    const plan = planOf(code, seed, years);
    const run = await runPlan(code, plan, true);
    for (const [name, times] of run.reached) reached.set(name, (reached.get(name) ?? 0) + times);
    if (values.seed !== undefined && run.violation === undefined) console.log(run.history.join('\n'));
    console.log(
      `seed ${seed}: ${run.tasks} tasks, digest ${run.digest.slice(0, 16)}: ${run.violation ?? 'no violation'}`,
    );
    if (run.violation === undefined) continue;
    failed += 1;
    await explain(code, seed, plan, run);
  }
  const { user, system } = process.cpuUsage();
  return { ran, failed, reached: [...reached], cpuSeconds: (user + system) / 1e6 };
}

/** Prints what is left of a seed that fails when everything is left out that does not matter. */
async function explain(code: Code, seed: string, plan: Plan, run: Run): Promise<void> {
  const small = await shrink(code, { plan, run }, (line) => console.log(`seed ${seed}: ${line}`));
  console.log(`seed ${seed}, shrunk, with ${JSON.stringify(plan.topology)}:`);
  console.log(small.run.history.map((line) => `  ${line}`).join('\n'));
  const logged = small.run.log.slice(-20);
  console.log(logged.map((line) => `  logged: ${line}`).join('\n'));
  console.log(`  plan: ${JSON.stringify(small.plan)}`);
}
