/** Shorter plans that fail in the same way. */
import type { Code } from './host/isolate.ts';
import { runPlan, type Run } from './runner.ts';
import type { Burst, Plan } from './world/plan.ts';

/** Runs that shrinking may take. */
const maxRuns = 300;

/** A plan that fails, and what it does. */
export type Failing = { plan: Plan; run: Run };

/**
 * Leaves out the years between the bursts where they do not matter, then bursts, then steps, as
 * long as what is left fails in the same way.
 * @param found a plan that fails
 */
export async function shrink(code: Code, found: Failing, tell: (line: string) => void): Promise<Failing> {
  let best = found;
  const budget = { runs: 0 };
  const fails = async (plan: Plan): Promise<boolean> => {
    if (budget.runs >= maxRuns) return false;
    budget.runs += 1;
    const run = await runPlan(code, plan);
    if (violationKind(run) !== violationKind(found.run)) return false;
    best = { plan, run };
    tell(`${stepCount(plan)} steps still fail`);
    return true;
  };
  const atOnce = found.plan.bursts.map((burst) => ({ ...burst, atMs: 0 }));
  await fails({ ...found.plan, bursts: atOnce, endMs: 0 });
  for (let before = Infinity; stepCount(best.plan) < before && budget.runs < maxRuns;) {
    before = stepCount(best.plan);
    await leaveOut(
      () => best.plan.bursts,
      (bursts) => fails({ ...best.plan, bursts }),
    );
    for (let i = 0; i < best.plan.bursts.length; i += 1)
      await leaveOut(
        () => best.plan.bursts[i]?.steps ?? [],
        (steps) =>
          fails({ ...best.plan, bursts: best.plan.bursts.with(i, { ...(best.plan.bursts[i] as Burst), steps }) }),
      );
  }
  return best;
}

/** Leaves out halves, then quarters, and so on down to single items. */
async function leaveOut<T>(items: () => T[], fails: (items: T[]) => Promise<boolean>): Promise<void> {
  for (let size = Math.ceil(items().length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let at = 0; at < items().length;) if (!(await fails(items().toSpliced(at, size)))) at += size;
}

function stepCount({ bursts }: Plan): number {
  return bursts.reduce((sum, { steps }) => sum + steps.length, 0);
}

/** Kind of a violation: its words without names and numbers. */
function violationKind({ violation }: Pick<Run, 'violation'>): string | undefined {
  return violation
    ?.split('\n')[0]
    ?.replaceAll(/\b(b\d|[a-z]{2,3}[a-z2-7]{50,}|[0-9A-Za-z]{22}|[0-9a-f]{2,}(-[0-9a-f]+)*|\d+)\b/g, '…')
    .replace(/: \{.*/, '');
}
