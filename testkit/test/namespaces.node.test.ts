import { expect, test, type TestContext } from 'vitest';
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
