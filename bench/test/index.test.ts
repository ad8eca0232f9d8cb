import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { inCi } from '../../testkit/long-run.ts';

const bench = resolve(import.meta.dirname, '..');

function run(...args: string[]) {
  return spawnSync(process.execPath, [join(bench, 'index.ts'), ...args], { encoding: 'utf8' });
}

inCi('--list imports and names every bench file', () => {
  const names = readdirSync(bench).flatMap((file) => (file.endsWith('.bench.ts') ? file.slice(0, -9) : []));
  expect(names.length).toBeGreaterThan(3);
  const { status, stdout } = run('--list');
  expect(status).toBe(0);
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[0]),
  ).toEqual(names.toSorted());
});

test('a name that no bench has is refused with the usage', () => {
  expect(run('nothing')).toMatchObject({
    status: 2,
    stdout: '',
    stderr: expect.stringContaining('usage: npm run bench'),
  });
});
