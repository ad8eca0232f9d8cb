import { expect, test, vi, type TestContext } from 'vitest';
import { inNamespaces } from '../namespaces.ts';

test('a script that a signal ended ran, and one that the kernel refused did not', async (context) => {
  const skipped: unknown[] = [];
  const skip = (note: unknown): never => skipped.push(note) as never;
  const ran = (script: string) =>
    inNamespaces({ skip } as TestContext, ['--mount'], { what: 'folder', script, env: {} });
  await ran('exit 0');
  context.skip(skipped.length > 0, 'no namespaces can be made here (unshare)');
  expect(await ran('kill -9 $$')).toMatchObject({ status: null });
  expect(skipped).toEqual([]);
  await ran('exit 77');
  expect(skipped).toEqual(['no folder can be made here (unshare)']);
});

test.for([
  ['0', 'skips the test'],
  ['1', 'fails'],
] as const)('a script without unshare, with SEALPIN_REQUIRE_ALL=%s, %s', async ([required]) => {
  vi.stubEnv('SEALPIN_REQUIRE_ALL', required);
  try {
    const context = { skip: () => 'skipped' as never } as unknown as TestContext;
    const done = inNamespaces(context, ['--mount'], { what: 'folder', script: 'exit 0', env: { PATH: '/nowhere' } });
    expect(await done.catch(String)).toMatch(required === '1' ? /unshare is missing/ : /^skipped$/);
  } finally {
    vi.unstubAllEnvs();
  }
});
