/** Rows of objects that earlier versions have written. */
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { ObjectRows } from '../../objects/pin/stores/object-rows.ts';
import { storageOf } from '../sqlite-storage.ts';

const objects = `CREATE TABLE object (
  id TEXT PRIMARY KEY, service TEXT NOT NULL, state TEXT NOT NULL, account TEXT NOT NULL, upload TEXT NOT NULL,
  cid TEXT, parts INTEGER NOT NULL, due INTEGER NOT NULL, attempts INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX object_due ON object (due);
  INSERT INTO object VALUES ('${'ab'.repeat(16)}', 'store', 'stored', 'a', 'u', 'c', 3, 5, 0);`;
const sweep = `service TEXT PRIMARY KEY, place TEXT NOT NULL, digits TEXT NOT NULL, due INTEGER NOT NULL, after TEXT`;

test.each([
  ['before strays were counted', `CREATE TABLE object_sweep (${sweep}) WITHOUT ROWID`, `NULL`],
  [
    'before it was known whose objects were there',
    `CREATE TABLE object_sweep (${sweep}, waiting INTEGER NOT NULL DEFAULT 0, allowed INTEGER NOT NULL DEFAULT 0)
      WITHOUT ROWID`,
    `NULL, 0, 0`,
  ],
])('of a version %s are read and changed, also by the next one', (_, table, rest) => {
  const database = new DatabaseSync(':memory:');
  database.exec(`${objects}${table}; INSERT INTO object_sweep VALUES ('store', 's3 here', 'ab', 7, ${rest})`);
  for (let start = 0; start < 2; start += 1) {
    const rows = new ObjectRows(storageOf(database));
    expect(rows.find('ab'.repeat(16))).toMatchObject({ state: 'stored', parts: 3 });
    expect(rows.sweepOf('store')?.place).toBe('s3 here');
    expect(rows.nextTime()).toBe(5);
    expect(rows.dueSweeps(7)).toEqual([
      {
        service: 'store',
        place: 's3 here',
        digits: 'ab',
        due: 7,
        after: null,
        waiting: start,
        allowed: 0,
        inherited: 0,
        listed: 0,
        unchanged: 0,
      },
    ]);
    rows.changeSweep('store', { waiting: 1 });
    expect(rows.waiting()).toEqual([{ service: 'store', objects: 1 }]);
  }
});
