import { afterEach, expect, test, vi, type TestContext } from 'vitest';
import { inNamespaces } from '../namespaces.ts';

afterEach(() => vi.unstubAllEnvs());

test('a script that a signal ended ran, and one that the kernel refused did not', async (context) => {
  const skipped: unknown[] = [];
  const skip = (note: unknown): never => skipped.push(note) as never;
  const ran = (script: string) =>
    inNamespaces({ skip } as TestContext, ['--mount'], { what: 'folder', script, env: {} });
  vi.stubEnv('SEALPIN_REQUIRE_ALL', '');
  await ran('exit 0');
  context.skip(skipped.length > 0, 'no namespaces can be made here (unshare)');
  expect(await ran('kill -9 $$')).toMatchObject({ status: null });
  expect(skipped).toEqual([]);
  await ran('exit 77');
  expect(skipped).toEqual(['no folder can be made here (unshare)']);
  vi.stubEnv('SEALPIN_REQUIRE_ALL', '1');
  await expect(ran('exit 77')).rejects.toThrow('no folder can be made here');
});
