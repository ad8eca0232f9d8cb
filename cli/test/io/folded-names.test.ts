/** Folders that are extracted onto a disk that takes several names for one. */
import fs, { readdir } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { packTar } from 'modern-tar';
import { expect, test } from 'vitest';
import { openExtraction } from '../../folder/extraction.ts';
import { contextIn, temporaryDirectory } from '../environment.ts';

/** Meanwhile this process finds the names in an extraction by their folded form. */
async function whileFolding<T>(work: () => Promise<T>): Promise<T> {
  const { mkdir, lstat, rmdir, utimes } = fs;
  const folded = (path: unknown): string => {
    const [folder, ...names] = String(path).split('.tmp/');
    return [folder, ...names.map((name) => name.normalize('NFC').toLowerCase())].join('.tmp/');
  };
  Object.assign(fs, {
    mkdir: (path: string, o?: object) => mkdir(folded(path), o),
    lstat: (path: string) => lstat(folded(path)),
    rmdir: (path: string) => rmdir(folded(path)),
    utimes: (path: string, ...times: [Date, Date]) => utimes(folded(path), ...times),
  });
  syncBuiltinESMExports();
  try {
    return await work();
  } finally {
    Object.assign(fs, { mkdir, lstat, rmdir, utimes });
    syncBuiltinESMExports();
  }
}

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
    await expect(whileFolding(() => extracted(names))).rejects.toMatchObject({
      code: 'archive_invalid',
      message: expect.stringContaining('perhaps in other letters or another form') as string,
    });
    expect(await extracted(names)).toEqual(expect.arrayContaining([...names]));
  }
});

test('a directory that is named twice, or after what is in it, is one there, too', async () => {
  const names = ['plans', 'b', 'plans', 'b/x', 'plans/y/z', 'b/x', 'plans/y'];
  expect((await whileFolding(() => extracted(names))).toSorted()).toEqual([
    'b',
    'b/x',
    'plans',
    'plans/y',
    'plans/y/z',
  ]);
});
