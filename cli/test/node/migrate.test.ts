/** A catalog of version 1, as the node of sealpin 0.1 wrote it, is changed at the start. */
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { add, ask, directory, importBlocks, leafOf, node, nodeOver, pin } from './node-harness.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const version1 = `
  CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cid TEXT UNIQUE,
    keep_until INTEGER NOT NULL) STRICT;
  CREATE TABLE block (cid TEXT NOT NULL, file INTEGER NOT NULL REFERENCES file (id) ON DELETE CASCADE,
    start INTEGER NOT NULL, bytes INTEGER NOT NULL, node BLOB) STRICT;
  CREATE UNIQUE INDEX block_cid ON block (cid, file);
  CREATE INDEX block_file ON block (file);
  CREATE TABLE pin (cid TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT, WITHOUT ROWID;
  PRAGMA user_version = 1;
`;

/**
 * Turns the catalog of added files into one of version 1: a node covers the bytes of the file below
 * it.
 */
function toVersion1(dir: string): void {
  const db = new DatabaseSync(join(dir, 'node.db'));
  const tables = ['file', 'block', 'pin'].map((name) => ({ name, rows: db.prepare(`SELECT * FROM ${name}`).all() }));
  db.exec(
    'PRAGMA foreign_keys = OFF; DROP TABLE link; DROP TABLE block; DROP TABLE pin; DROP TABLE file; DROP TABLE removed',
  );
  db.exec(version1);
  for (const { name, rows } of tables) {
    for (const row of rows) {
      const values = Object.values(row);
      db.prepare(`INSERT INTO ${name} VALUES (${values.map(() => '?').join()})`).run(...values);
    }
  }
  db.exec('UPDATE file SET keep_until = 0');
  db.exec(
    `UPDATE block SET bytes = (SELECT sum(bytes) FROM block AS leaf WHERE node IS NULL AND leaf.file = block.file)
     WHERE node IS NOT NULL`,
  );
  db.close();
}

test('a catalog of version 1 keeps its files, whose leaves a new DAG can use', async () => {
  const dir = await directory();
  const first = await node({ dir });
  const bytes = randomBytes(2 * leafBytes + 7);
  const files = new Map<string, Buffer>();
  for (const content of [bytes, randomBytes(10), Buffer.alloc(0)]) files.set(await add(first.url, content), content);
  const cid = itemOf([...files.keys()], 0);
  await first.close();
  toVersion1(dir);

  const second = await node({ dir });
  for (const [one, content] of files)
    expect((await ask(second.url, `cat?arg=${one}`)).text === content.toString('latin1'), one).toBe(true);
  const root = await ask(second.url, `block/get?arg=${cid}`);
  expect((await ask(second.url, `block/stat?arg=${cid}`)).json()).toEqual({ Key: cid, Size: root.text.length });
  expect((await ask(second.url, `dag/stat?arg=${cid}`)).json()).toMatchObject({
    UniqueBlocks: 4,
    TotalSize: bytes.length + root.text.length,
  });
  expect(Object.keys(present((await ask(second.url, 'pin/ls?type=recursive')).json().Keys))).toHaveLength(3);
  expect(Object.keys(present((await ask(second.url, 'pin/ls?type=indirect')).json().Keys))).toHaveLength(3);

  // A root of its own above one leaf of the old file keeps the data when the old pin is removed.
  const leaf = leafOf(bytes.subarray(leafBytes, 2 * leafBytes));
  const above = nodeOver([leaf, leaf]).block;
  await importBlocks(second.url, above);
  await pin(second.url, above);
  for (const one of files.keys()) await ask(second.url, `pin/rm?arg=${one}`);
  await ask(second.url, 'repo/gc');
  const twice = Buffer.concat([leaf.block.bytes, leaf.block.bytes]).toString('latin1');
  expect((await ask(second.url, `cat?arg=${above.cid.text}`)).text === twice).toBe(true);
  expect(await readdir(join(dir, 'data'))).toHaveLength(2);
  await ask(second.url, `pin/rm?arg=${above.cid.text}`);
  expect(await readdir(join(dir, 'data'))).toEqual([]);
  await second.close();
  expect((await ask((await node({ dir })).url, 'pin/ls')).json()).toEqual({ Keys: {} });
});
