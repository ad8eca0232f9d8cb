/**
 * Starts of the node over a catalog that is missing, old, damaged or of another version, and over
 * data files that are not right.
 */
import { randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startNode } from '../../local/node/server.ts';
import { add, ask, directory, fileInParts, importBlocks, importFile, node, token } from './node-harness.ts';
import { first, flip, itemOf, present } from '../../../testkit/present.ts';

/** 3 leaves, 1 byte and nothing. */
const contents = [randomBytes(2_500_000), Buffer.from('x'), Buffer.alloc(0)];

const catalogFiles = ['node.db', 'node.db-wal', 'node.db-shm'];

async function filled(dir: string): Promise<Map<string, Buffer>> {
  const running = await node({ dir });
  const held = new Map<string, Buffer>();
  for (const bytes of contents) held.set(await add(running.url, bytes), bytes);
  await running.close();
  return held;
}

async function expectHeld(url: string, held: ReadonlyMap<string, Buffer>): Promise<void> {
  const pins = present((await ask(url, 'pin/ls?type=recursive')).json().Keys);
  for (const [cid, bytes] of held) {
    expect(Object.keys(pins)).toContain(cid);
    expect(Buffer.from((await ask(url, `cat?arg=${cid}`)).text, 'latin1').equals(bytes), cid).toBe(true);
  }
}

async function dropCatalog(dir: string): Promise<void> {
  for (const name of catalogFiles) await rm(join(dir, name), { force: true });
}

async function onlyFile(dir: string): Promise<string> {
  const names = await readdir(join(dir, 'data'));
  expect(names).toHaveLength(1);
  return join(dir, 'data', first(names));
}

test('a start without its catalog indexes every data file again, and says so', async () => {
  const dir = await directory();
  const held = await filled(dir);
  await dropCatalog(dir);
  const notes: string[] = [];
  const again = await node({ dir, note: (text) => notes.push(text) });
  expect(notes).toEqual([
    'node.db did not know 3 files in data/ (2500001 bytes): each was hashed, indexed again and pinned',
  ]);
  await expectHeld(again.url, held);
  await ask(again.url, 'repo/gc');
  await expectHeld(again.url, held);
  await again.close();
  await expectHeld((await node({ dir, note: (text) => notes.push(text) })).url, held);
  expect(notes).toHaveLength(1);
});

test('a start with an older catalog indexes what is newer, and reports what is missing', async () => {
  const dir = await directory();
  const running = await node({ dir });
  const early = randomBytes(1_200_000);
  const held = new Map<string, Buffer>([[await add(running.url, early), early]]);
  const deleted = await add(running.url, Buffer.from('deleted later'));
  await running.close();
  await copyFile(join(dir, 'node.db'), join(dir, 'old.db'));
  for (const [cid, bytes] of await filled(dir)) held.set(cid, bytes);
  const later = await node({ dir });
  await ask(later.url, `pin/rm?arg=${deleted}`);
  await later.close();
  await dropCatalog(dir);
  await rename(join(dir, 'old.db'), join(dir, 'node.db'));
  const notes: string[] = [];
  const again = await node({ dir, note: (text) => notes.push(text) });
  expect(notes).toEqual([
    'node.db did not know 3 files in data/ (2500001 bytes): each was hashed, indexed again and pinned',
    'node.db names 1 file that data/ does not have: store the same bytes again, or put data/ back',
  ]);
  await expectHeld(again.url, held);
});

test('a deleted file does not come back when its removal was interrupted', async () => {
  const dir = await directory();
  const running = await node({ dir });
  const cid = await add(running.url, Buffer.from('to be deleted'));
  const path = await onlyFile(dir);
  await ask(running.url, `pin/rm?arg=${cid}`);
  await running.close();
  await writeFile(path, 'to be deleted'); // as if the machine had lost the removal
  const notes: string[] = [];
  const again = await node({ dir, note: (text) => notes.push(text) });
  expect(await readdir(join(dir, 'data'))).toEqual([]);
  expect((await ask(again.url, `block/stat?arg=${cid}`)).status).toBe(500);
  expect(notes).toEqual([]);
});

test('an unfinished upload is removed, a published one under its unfinished name is kept', async () => {
  const dir = await directory();
  const held = await filled(dir);
  const [name] = await readdir(join(dir, 'data'));
  await rename(join(dir, 'data', present(name)), join(dir, 'data', `${name}.part`));
  await writeFile(join(dir, 'data', `${'0'.repeat(32)}.part`), 'half of someth');
  const again = await node({ dir });
  await expectHeld(again.url, held);
  expect((await readdir(join(dir, 'data'))).filter((each) => each.endsWith('.part'))).toEqual([]);
  expect(await readdir(join(dir, 'data'))).toHaveLength(held.size);
});

test('what the node did not write goes to data/lost, with its content', async () => {
  const dir = await directory();
  const held = await filled(dir);
  await writeFile(join(dir, 'data', 'notes.txt'), 'my notes');
  await mkdir(join(dir, 'data', 'folder'));
  const notes: string[] = [];
  const again = await node({ dir, note: (text) => notes.push(text) });
  expect(notes).toEqual(['1 file in data/ that this node did not write, or cannot read, went to data/lost/']);
  expect(await readFile(join(dir, 'data', 'lost', 'notes.txt'), 'utf8')).toBe('my notes');
  expect((await stat(join(dir, 'data', 'folder'))).isDirectory()).toBe(true);
  await expectHeld(again.url, held);
});

test.each([
  [
    'of a newer sealpin',
    async (path: string) => {
      const db = new DatabaseSync(path);
      db.exec('PRAGMA user_version = 3');
      db.close();
    },
    /written by a newer sealpin/,
  ],
  ['damaged', (path: string) => writeFile(path, randomBytes(8192)), /is damaged/],
])('a catalog %s is refused with a way out, and that way works', async (_, spoil, message) => {
  const dir = await directory();
  const held = await filled(dir);
  for (const name of catalogFiles.slice(1)) await rm(join(dir, name), { force: true });
  await spoil(join(dir, 'node.db'));
  const before = await readFile(join(dir, 'node.db'));
  await expect(startNode({ dir, token })).rejects.toMatchObject({
    code: 'config_invalid',
    message: expect.stringMatching(message) as string,
    hint: expect.stringContaining('away') as string,
  });
  expect((await readFile(join(dir, 'node.db'))).equals(before)).toBe(true);
  await rename(join(dir, 'node.db'), join(dir, 'node.db.bad'));
  await expectHeld((await node({ dir })).url, held);
});

test.each([
  [
    'damaged',
    async (path: string) => {
      const bytes = await readFile(path);
      flip(bytes, 2_000_000);
      await writeFile(path, bytes);
    },
  ],
  ['missing', (path: string) => rm(path)],
] as const)('storing the same bytes again replaces a %s copy', async (_, spoil) => {
  const dir = await directory();
  const running = await node({ dir });
  const bytes = randomBytes(2_500_000);
  const cid = await add(running.url, bytes);
  await spoil(await onlyFile(dir));
  expect((await ask(running.url, `cat?arg=${cid}`)).text === bytes.toString('latin1')).toBe(false);
  expect(await add(running.url, bytes)).toBe(cid);
  await expectHeld(running.url, new Map([[cid, bytes]]));
  expect(await readdir(join(dir, 'data'))).toHaveLength(1);
  await running.close();
  await expectHeld((await node({ dir })).url, new Map([[cid, bytes]]));
});

test('a block is read from its newest copy, so that one import in other bounds is enough', async () => {
  const { url, dir } = await node();
  const { leaves } = fileInParts();
  await importBlocks(url, ...leaves.map((leaf) => leaf.block));
  const path = await onlyFile(dir);
  await writeFile(path, (await readFile(path)).fill(0));
  const { cid, bytes } = itemOf(leaves, 1).block;
  await importBlocks(url, itemOf(leaves, 1).block);
  const reply = await ask(url, `block/get?arg=${cid.text}`);
  expect(reply.text === Buffer.from(bytes).toString('latin1')).toBe(true);
});

test('a missing data file is reported in the words of Kubo for a missing block', async () => {
  const { url, dir } = await node();
  const cid = await add(url, Buffer.from('soon gone'));
  await rm(await onlyFile(dir));
  for (const command of ['cat', 'block/get']) {
    const reply = await ask(url, `${command}?arg=${cid}`);
    expect(reply.status).toBe(500);
    expect(reply.json()['Message']).toBe('block was not found locally (offline): its data file is missing');
  }
});

test('a start without its catalog finds a file in parts again, with its nodes', async () => {
  const dir = await directory();
  const running = await node({ dir });
  const { root, bytes, leaves } = await importFile(running.url);
  await running.close();
  await dropCatalog(dir);
  const notes: string[] = [];
  const again = await node({ dir, note: (text) => notes.push(text) });
  expect(notes).toEqual([expect.stringContaining('did not know 3 files in data/') as string]);
  await ask(again.url, 'repo/gc');
  await expectHeld(again.url, new Map([[root.cid.text, bytes]]));
  expect((await ask(again.url, `dag/stat?arg=${root.cid.text}`)).json()).toMatchObject({ UniqueBlocks: 6 });
  expect((await ask(again.url, `block/get?arg=${itemOf(leaves, 2).block.cid.text}`)).text).toHaveLength(1_048_576);
});

test('a damaged import is indexed but for what does not fit, and storing that again completes it', async () => {
  const dir = await directory();
  const running = await node({ dir });
  const file = await importFile(running.url);
  await running.close();
  for (const name of await readdir(join(dir, 'data'))) {
    const path = join(dir, 'data', name);
    const bytes = await readFile(path);
    // The first part has three leaves; the second is cut off within its second leaf; the root is
    // whole.
    if (bytes.length > 3_000_000) await writeFile(path, bytes.with(500_000, itemOf(bytes, 500_000) ^ 1));
    else if (bytes.length > 1_000_000) await writeFile(path, bytes.subarray(0, 1_048_700));
  }
  await dropCatalog(dir);
  const notes: string[] = [];
  const again = await node({ dir, note: (text) => notes.push(text) });
  expect(notes.filter((text) => text.includes('is damaged'))).toHaveLength(2);
  const { text } = file.root.cid;
  expect((await ask(again.url, `dag/stat?arg=${text}`)).json()['Message']).toMatch(/could not find/);
  await importFile(again.url, file);
  await expectHeld(again.url, new Map([[text, file.bytes]]));
});
