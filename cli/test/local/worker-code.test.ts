import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inCi } from '../../../testkit/long-run.ts';
import { temporaryDirectory } from '../../../testkit/temporary-directory.ts';
import { keptFile, rebuildWorkerCode, sourceKey, workerCode } from '../../local/code/worker-code.ts';

inCi('is built where the cache is empty or damaged, then taken from it until it is rebuilt', async () => {
  const directory = await temporaryDirectory();
  const path = join(directory, keptFile);
  await writeFile(path, '{"key":');
  const built = await workerCode(directory);
  expect(built.worker).toContain('/v1/storage');
  const kept = JSON.parse(await readFile(path, 'utf8')) as Record<string, string>;
  expect(kept).toMatchObject(built);

  await writeFile(path, JSON.stringify({ ...kept, worker: 'of another day' }));
  expect(await workerCode(directory)).toEqual({ ...built, worker: 'of another day' });
  expect(await rebuildWorkerCode(directory)).toEqual(built);
  expect(await workerCode(directory)).toEqual(built);
  expect(await readdir(directory)).toEqual([keptFile]);
});

inCi('a cache that cannot be written stops no start', async () => {
  const directory = await temporaryDirectory();
  const file = join(directory, 'file');
  await writeFile(file, '');
  expect((await workerCode(join(file, 'cache'))).worker).toContain('/v1/storage');
});

test('its key changes with each file of the source, its path and the packages, and not with tests', async () => {
  const root = await temporaryDirectory();
  const put = async (folder: string, name: string, text: string): Promise<string> => {
    await mkdir(join(root, folder), { recursive: true });
    await writeFile(join(root, folder, name), text);
    return sourceKey(root);
  };
  const keys = [
    sourceKey(root),
    await put('worker/routes', 'a.ts', 'one'),
    await put('worker/routes', 'a.ts', 'two'),
    await put('worker/routes', 'b.ts', ''),
    await put('web', 'page.html', '<p>'),
    await put('cli/local', 'bundle.ts', 'target'),
    await put('', 'package-lock.json', '{}'),
  ];
  expect(new Set(keys).size).toBe(keys.length);
  expect(await put('worker/test', 'a.test.ts', 'new')).toBe(keys.at(-1));
  expect(await put('cli/commands', 'list.ts', 'new')).toBe(keys.at(-1));
});
