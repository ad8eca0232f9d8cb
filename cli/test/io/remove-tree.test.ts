/**
 * Directories with all that is in them are removed: nothing beside them, and not all entries at
 * once.
 */
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { removeTree } from '../../io/remove-tree.ts';
import { temporaryDirectory } from '../environment.ts';

test('a tree is removed, and nothing that its links lead to', async () => {
  const outer = await temporaryDirectory();
  await mkdir(join(outer, 'kept'));
  await writeFile(join(outer, 'kept/file'), 'x');
  await mkdir(join(outer, 'tree/a/b'), { recursive: true });
  for (const name of ['one', 'a/two', 'a/b/three']) await writeFile(join(outer, 'tree', name), 'x', { mode: 0o444 });
  await symlink('../kept', join(outer, 'tree/link'));
  await symlink('kept', join(outer, 'link'));
  for (const name of ['tree', 'link', 'absent']) await removeTree(join(outer, name));
  expect(await readdir(outer)).toEqual(['kept']);
  expect(await readFile(join(outer, 'kept/file'), 'utf8')).toBe('x');
});

test('two that remove the same tree both succeed', async () => {
  const outer = await temporaryDirectory();
  for (let index = 0; index < 100; index += 1) await mkdir(join(outer, `tree/${index}/x`), { recursive: true });
  await Promise.all([removeTree(join(outer, 'tree')), removeTree(join(outer, 'tree'))]);
  expect(await readdir(outer)).toEqual([]);
});

test('few requests are on their way to the file system, however many entries there are', async () => {
  const outer = await temporaryDirectory();
  await mkdir(join(outer, 'tree'));
  for (let index = 0; index < 500; index += 1) await symlink('x', join(outer, 'tree', `${index}`));
  let most = 0;
  const sampling = setInterval(() => {
    most = Math.max(most, process.getActiveResourcesInfo().filter((name) => name.startsWith('FSReq')).length);
  });
  await removeTree(join(outer, 'tree'));
  clearInterval(sampling);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(10);
});
