import { execFile } from 'node:child_process';
import { symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../temporary-directory.ts';

const repository = resolve(import.meta.dirname, '../..');

const config = `
import { closingLines } from ${JSON.stringify(join(repository, 'testkit/closing-lines.ts'))};
const reporters = ['default', closingLines];
export default { test: { name: 'node', include: ['*.test.js'], reporters, retry: 1, maxWorkers: 1, isolate: false } };
`;

const tests = `
import { beforeAll, describe, expect, test } from 'vitest';
let tries = 0;
test('passes', () => {});
test('passes at last', () => expect((tries += 1)).toBe(2));
test('lacks a program', (context) => context.skip('none here'));
describe('a group', () => {
  test('differs', () => expect({ a: 1 }, 'first line\\nsecond line').toEqual({ a: 2 }));
});
describe('a group that cannot begin', () => {
  beforeAll(() => { throw new TypeError('no service'); });
  test('is never run', () => {});
});
`;

test('the last lines of a run name what was not run, what passed again and what failed, with its reason', async () => {
  const directory = await temporaryDirectory();
  await symlink(join(repository, 'node_modules'), join(directory, 'node_modules'));
  await writeFile(join(directory, 'vitest.config.ts'), config);
  await writeFile(join(directory, 'some.test.js'), tests);
  await writeFile(join(directory, 'unreadable.test.js'), `throw new Error('cannot be loaded');`);
  const output = await new Promise<string>((done) => {
    const vitest = join(repository, 'node_modules/vitest/vitest.mjs');
    execFile(process.execPath, [vitest, 'run'], { cwd: directory }, (_error, stdout) => done(stdout));
  });
  expect(output.trimEnd().split('\n').slice(-7)).toEqual([
    'failed at first, passed again: [node] some.test.js: passes at last',
    'not run: lacks a program: none here',
    'not run: is never run',
    'FAILED: [node] some.test.js: a group that cannot begin: TypeError: no service',
    expect.stringMatching(/^FAILED: \[node\] some\.test\.js: a group > differs: AssertionError: first line/),
    'FAILED: [node] unreadable.test.js: Error: cannot be loaded',
    '2 passed, 3 failed',
  ]);
});
