import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { loadCode, type Code } from '../host/isolate.ts';
import { planOf, runPlan } from '../runner.ts';
import type { Plan, Step } from '../world/plan.ts';
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

test.for(ci ? ['2', '3'] : ['2'])('nothing is violated in months of the seed %s', async (seed) => {
  const run = await runPlan(code, planOf(code, seed, ci ? 0.5 : 0.1));
  expect(run.violation, run.history.join('\n')).toBeUndefined();
});

// Plans that found a bug: they stay as they are when the plans of seeds change.
// The short form runs a twelfth of them.
test.for(historyFiles.filter((_, at) => ci || at % 12 === 0))('nothing is violated any more in %s', async (file) => {
  const run = await runPlan(code, planFrom(file));
  expect(run.violation, run.history.join('\n')).toBeUndefined();
});

test('who opens, changes or revokes a share is asked for one of a file that was stored before', () => {
  const [stored, shared] = [new Map<number, number>(), new Map<number, number>()];
  const asked = Array.from({ length: 10 }, (_, seed) => planOf(code, String(seed), 0.5)).flatMap(({ bursts }) => {
    stored.clear();
    shared.clear();
    return bursts.flatMap(({ steps }) =>
      steps
        .toSorted((a, b) => a.atMs - b.atMs)
        .flatMap((step) => {
          if (!('does' in step)) return [];
          const { does, id, by } = step;
          if (/^(store|storeSigned|upload)$/.test(does.kind)) stored.set(id, by);
          if (does.kind === 'share' && stored.get(does.of) === by) shared.set(id, by);
          return /^(open|change|revoke)$/.test(does.kind) && 'of' in does ? [shared.has(Number(does.of))] : [];
        }),
    );
  });
  expect(asked.length).toBeGreaterThan(50);
  expect(asked).not.toContain(false);
});

test('actions meet only where each asks for something', async () => {
  const of = 99;
  const does = [{ kind: 'list' }, { kind: 'read', of }, { kind: 'revoke', of }, { kind: 'list' }] as const;
  const steps = does.map((each, i) => ({ id: i, atMs: 0, does: each, by: 0 }));
  const plan: Plan = { ...briefly('1'), bursts: [{ atMs: 0, steps }] };
  const { reached } = await runPlan(code, plan, true);
  expect([...reached.keys()].filter((name) => name.startsWith('pair'))).toEqual(['pair list + list']);
});

test.for(ci ? (['lose', 'damage'] as const) : (['damage'] as const))(
  'a bucket may %s the index of a file, or its bytes',
  async (kind) => {
    const topology = { kinds: ['r2', 's3'], replicas: 2 } as const;
    const store = { kind: 'store', mode: 'plain', content: 3, isRepeatable: true } as const;
    const steps: Step[] = [
      { id: 1, atMs: 0, does: store, by: 0 },
      { id: 2, atMs: 60_000, fails: { kind, backend: 'b0', nth: 0 } },
      { id: 3, atMs: 9 * 86_400_000, fails: { kind, backend: 'b1', nth: 1 } },
    ];
    const { history, violation } = await runPlan(code, { ...briefly('1'), topology, bursts: [{ atMs: 0, steps }] });
    expect(history.join('\n')).toMatch(new RegExp(`fault 2: ${kind} \\S+/cid/[^]*fault 3: ${kind} \\S+/data/`));
    expect(violation).toBeUndefined();
  },
);

const refused = [
  ['--seeds', '1,000'],
  ['--seeds', '0'],
  ['--from', '1.5'],
  ['--processes', ''],
  ['--years', 'ten'],
] as const;
// One of the numbers that are whole, and the one that is not.
test.for(refused.filter((_, at) => ci || at % 4 === 0))(
  'the command refuses %s %s, instead of running nothing',
  (flags) => {
    const command = join(import.meta.dirname, '../index.ts');
    const { status, stderr, stdout } = spawnSync(process.execPath, [command, ...flags], {
      encoding: 'utf8',
    });
    expect({ status, stderr, stdout }).toMatchObject({ status: 2, stderr: expect.stringContaining(flags[0] ?? '') });
  },
);

test('the model is one that can be read: at most 500 lines', () => {
  const lines = ['model', 'quotas', 'promises', 'denials'].map(
    (name) => readFileSync(join(import.meta.dirname, `../world/${name}.ts`), 'utf8').split('\n').length - 1,
  );
  expect(lines.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(500);
});
