/** Statements and columns on SQLite. */
import { DatabaseSync } from 'node:sqlite';
import * as v from 'valibot';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  addColumns,
  bytes,
  choice,
  definitions,
  flag,
  given,
  integer,
  optional,
  parsed,
  recordOf,
  rowOf,
  shown,
  text,
  time,
  viewed,
  words,
} from '../../objects/columns.ts';
import { all, count, exists, first, hasTable, insert, least, list, update } from '../../objects/sql.ts';
import { storageOf } from '../sqlite-storage.ts';

const columns = {
  number: integer('seq', 'INTEGER PRIMARY KEY AUTOINCREMENT'),
  name: text('name'),
  note: optional(text('note')),
  isOpen: flag('open'),
  kind: choice('kind', ['first', 'second']),
  tags: words('tags'),
  key: optional(bytes('key')),
  madeAt: time('made_at'),
  endsAt: optional(time('ends_at')),
};
const thing = {
  name: 'a',
  note: null,
  isOpen: true,
  kind: 'second' as const,
  tags: ['x', 'y'],
  key: new Uint8Array([1, 2]),
  madeAt: 1000,
  endsAt: null,
};

let sql: SqlStorage;
beforeEach(() => {
  sql = storageOf(new DatabaseSync(':memory:'));
  sql.exec(`CREATE TABLE thing (${definitions(columns)});`);
});

describe('statements', () => {
  beforeEach(() => {
    for (const [name, at] of [
      ['a', 3000],
      ['b', 2000],
    ] as const)
      insert(sql, 'thing', rowOf(columns, { ...thing, name, madeAt: at }));
  });

  it('find all rows, the first one, one column, or none', () => {
    expect(all(sql, 'SELECT name FROM thing WHERE seq > ?', 1)).toEqual([{ name: 'b' }]);
    expect(first(sql, 'SELECT name FROM thing ORDER BY seq')).toEqual({ name: 'a' });
    expect(first(sql, `SELECT name FROM thing WHERE name = 'c'`)).toBeUndefined();
    expect(list(sql, 'SELECT name FROM thing ORDER BY made_at')).toEqual(['b', 'a']);
  });

  it('count, look for rows and tables, and find the least value, undefined where there is none', () => {
    expect(count(sql, 'thing WHERE made_at > ?', 2500)).toBe(1);
    expect(exists(sql, 'thing WHERE name = ?', 'b')).toBe(true);
    expect(exists(sql, 'thing WHERE name = ?', 'c')).toBe(false);
    expect(hasTable(sql, 'thing')).toBe(true);
    expect(hasTable(sql, 'other')).toBe(false);
    expect(least(sql, 'made_at', 'thing')).toBe(2000);
    expect(least(sql, 'made_at', 'thing WHERE made_at > ?', 9000)).toBeUndefined();
    expect(least(sql, 'ends_at', 'thing')).toBeUndefined();
  });

  it('write the columns that are named, and change only the rows that are meant', () => {
    update(sql, 'thing', { note: 'n', open: 0 }, 'name = ?', 'b');
    expect(all(sql, 'SELECT name, note, open FROM thing')).toEqual([
      { name: 'a', note: null, open: 1 },
      { name: 'b', note: 'n', open: 0 },
    ]);
    const again = { ...rowOf(columns, thing), seq: 1 };
    expect(insert(sql, 'thing', again, 'ON CONFLICT DO NOTHING RETURNING seq')).toBeUndefined();
    expect(insert(sql, 'thing', { ...again, seq: 7 }, 'RETURNING seq')).toEqual({ seq: 7 });
  });
});

describe('columns', () => {
  const stored = () => first(sql, 'SELECT * FROM thing') ?? {};

  it('bring back what was written', () => {
    insert(sql, 'thing', rowOf(columns, thing));
    expect(recordOf(columns, stored())).toEqual({ ...thing, number: 1 });
    expect(stored()).toMatchObject({ open: 1, kind: 1, tags: 'x y', made_at: 1000 });
  });

  it('bring back from JSON what they put into it, and nothing that was not there', () => {
    // Node has no `toBase64` yet.
    const { key: _, ...rest } = thing;
    const shape = v.object(Object.fromEntries(Object.keys(rest).map((name) => [name, v.any()])));
    const json = JSON.parse(JSON.stringify(shown(columns, shape, { ...thing, number: 1 }))) as object;
    expect(json).toMatchObject({ madeAt: '1970-01-01T00:00:01.000Z', endsAt: null, isOpen: true });
    expect(parsed(columns, json)).toEqual(rest);
    expect(parsed(columns, { name: 'a' })).toEqual({ name: 'a' });
    expect(given({ note: columns.note, endsAt: columns.endsAt }, { note: 'n' })).toEqual({ note: 'n', endsAt: null });
  });

  it('show the members of a shape alone: without null where it is optional', () => {
    const shape = v.object({ name: v.string(), note: v.optional(v.string()), endsAt: v.nullable(v.string()) });
    expect(viewed(columns, shape, thing)).toEqual({ name: 'a', endsAt: null });
    expect(viewed(columns, shape, { ...thing, note: 'n' })).toEqual({ name: 'a', note: 'n', endsAt: null });
  });

  it('are added to a table that lacks them, once, and its rows stay', () => {
    insert(sql, 'thing', rowOf(columns, thing));
    const later = { ...columns, colour: optional(text('colour')), size: integer('size', 'INTEGER NOT NULL DEFAULT 3') };
    expect(addColumns(sql, 'thing', later)).toEqual(['colour', 'size']);
    expect(addColumns(sql, 'thing', later)).toEqual([]);
    expect(recordOf(later, stored())).toMatchObject({ name: 'a', colour: null, size: 3 });
  });
});
