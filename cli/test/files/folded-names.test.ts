/** Folders that are extracted onto a disk that takes names in other letters, or another form, for one. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { packTar } from 'modern-tar';
import { expect, test, vi } from 'vitest';
import { openExtraction } from '../../folder/extraction.ts';
import { contextIn, temporaryDirectory } from '../environment.ts';

const disk = vi.hoisted(() => ({ isFolding: false }));
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  // Such a disk finds a name by the folded one.
  const folded = (path: unknown): never => {
    const [folder = '', ...names] = String(path).split('.tmp/');
    const inner = names.map((name) => (disk.isFolding ? name.normalize('NFC').toLowerCase() : name));
    return [folder, ...inner].join('.tmp/') as never;
  };
  return {
    ...real,
    mkdir: ((path, options) => real.mkdir(folded(path), options)) as typeof real.mkdir,
    lstat: ((path: unknown) => real.lstat(folded(path))) as typeof real.lstat,
    rmdir: (path) => real.rmdir(folded(path)),
    utimes: (path, ...times) => real.utimes(folded(path), ...times),
  };
});

async function extracted(names: readonly string[]) {
  const outer = await temporaryDirectory();
  const extraction = await openExtraction('out', contextIn(outer));
  const archive = await packTar(names.map((name) => ({ header: { name: `${name}/`, type: 'directory', size: 0 } })));
  try {
    await extraction.unpack(new Blob([archive]).stream(), new AbortController().signal);
    return await readdir(await extraction.commit(), { recursive: true });
  } catch (error) {
    await extraction.abort();
    expect(await readdir(outer)).toEqual([]);
    throw error;
  }
}

test.each([
  { title: 'letters', one: 'Plans', other: 'plans' },
  { title: 'Unicode form', one: 'caf\u00E9', other: 'cafe\u0301' },
])('directories that differ in $title only are refused there, and are two elsewhere', async ({ one, other }) => {
  const below = [join(one, 'x'), join(other, 'y')];
  for (const names of [[one, other], below, [one, ...below]]) {
    disk.isFolding = true;
    await expect(extracted(names)).rejects.toMatchObject({
      code: 'archive_invalid',
      message: expect.stringContaining('perhaps in other letters or another form') as string,
    });
    disk.isFolding = false;
    expect(await extracted(names)).toEqual(expect.arrayContaining([...names]));
  }
});

test('a directory that is named twice, or after what is in it, is one there, too', async () => {
  disk.isFolding = true;
  const names = ['plans', 'b', 'plans', 'b/x', 'plans/y/z', 'b/x', 'plans/y'];
  expect((await extracted(names)).toSorted()).toEqual(['b', 'b/x', 'plans', 'plans/y', 'plans/y/z']);
});
