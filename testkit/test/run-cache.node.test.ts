import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { madeOnce } from '../run-cache.ts';

test('what several ask for at once is made by one of them, and its folder stays', async () => {
  const name = randomUUID();
  let made = 0;
  const make = async (folder: string): Promise<{ path: string }> => {
    made += 1;
    const path = join(folder, 'file');
    await writeFile(path, 'text');
    return { path };
  };
  const all = await Promise.all([madeOnce(name, make), madeOnce(name, make), madeOnce(name, make)]);
  expect(made).toBe(1);
  expect(new Set(all.map(({ path }) => path)).size).toBe(1);
  expect(await readFile(all[0].path, 'utf8')).toBe('text');
});

test('what could not be made is made by the next', async () => {
  const name = randomUUID();
  const begun = Promise.withResolvers<void>();
  const first = Promise.withResolvers<string>();
  const failing = madeOnce(name, () => {
    begun.resolve();
    return first.promise;
  });
  await begun.promise;
  const waiting = madeOnce(name, () => Promise.resolve('made'));
  first.reject(new Error('the first fails'));
  await expect(failing).rejects.toThrow('the first fails');
  expect(await waiting).toBe('made');
});
