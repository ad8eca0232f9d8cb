import { fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { recall, remember, type StoredEntry } from '../../files/history.ts';
import { temporaryDirectory } from '../environment.ts';

const entry = (cid: string): StoredEntry => ({
  v: 1,
  cid,
  fileId: 'f',
  service: 'http://127.0.0.1:7420/',
  bytes: 5,
  at: '2026-01-02T03:04:05.000Z',
});

test('what is remembered is recalled in order, from a file for its owner only', async () => {
  const directory = await temporaryDirectory();
  expect(await recall(directory)).toEqual({ entries: [], damagedLines: [] });
  await remember(directory, { ...entry('a'), name: 'letter.pdf' });
  await remember(directory, { v: 1, deleted: 'f', at: '2026-01-03T00:00:00.000Z' });
  expect((await recall(directory)).entries).toEqual([
    { ...entry('a'), name: 'letter.pdf' },
    { v: 1, deleted: 'f', at: '2026-01-03T00:00:00.000Z' },
  ]);
  expect((await stat(join(directory, 'history'))).mode & 0o777).toBe(0o600);
});

test('S58: a line that was cut short is reported and kept, and damages no other', async () => {
  const directory = await temporaryDirectory();
  await remember(directory, entry('a'));
  await remember(directory, entry('b'));
  const path = join(directory, 'history');
  await truncate(path, (await stat(path)).size - 20);
  await remember(directory, entry('c'));
  const { entries, damagedLines } = await recall(directory);
  expect(entries).toEqual([entry('a'), entry('c')]);
  expect(damagedLines).toEqual([2]);
});

test.each([
  'null',
  '7',
  '{}',
  '{"v":2,"deleted":"f","at":""}',
  '{"v":1,"cid":"a","fileId":"f","service":"s","bytes":"5","at":"x"}',
  '{"v":1,"deleted":7,"at":"x"}',
])('S58: the line %s is damaged', async (line) => {
  const directory = await temporaryDirectory();
  await appendFile(join(directory, 'history'), `${line}\n`);
  expect(await recall(directory)).toEqual({ entries: [], damagedLines: [1] });
});

test('a history that cannot be read or written is a clear error', async () => {
  const directory = await temporaryDirectory();
  await mkdir(join(directory, 'history'));
  await expect(recall(directory)).rejects.toMatchObject({ code: 'file_unreadable' });
  await expect(remember(directory, entry('a'))).rejects.toMatchObject({ code: 'file_unwritable' });
});

test('S59: two processes at once lose no entry', async () => {
  const directory = await temporaryDirectory();
  const script = join(directory, 'writer.mjs');
  const each = 40;
  await writeFile(
    script,
    `
    import { remember } from ${JSON.stringify(new URL('../../files/history.ts', import.meta.url).href)};
    const entry = { v: 1, fileId: 'f', service: 's', bytes: 1, at: 'now' };
    for (let i = 0; i < ${each}; i += 1)
      await remember(${JSON.stringify(directory)}, { ...entry, cid: process.argv[2] + i });
  `,
  );
  const writers = ['a', 'b'].map((name) => fork(script, [name]));
  await Promise.all(writers.map((writer) => once(writer, 'exit')));
  const { entries, damagedLines } = await recall(directory);
  expect(damagedLines).toEqual([]);
  expect(new Set(entries.map((found) => (found as StoredEntry).cid)).size).toBe(2 * each);
  expect((await readFile(join(directory, 'history'), 'utf8')).endsWith('\n')).toBe(true);
});
