/** The tables of an object of pins, in SQLite. */
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { Breakers } from '../../objects/pin/breakers.ts';
import { PinRows, wholeFile } from '../../objects/pin/pin-rows.ts';
import { pinningNow, type WorkContext } from '../../objects/pin/pin-steps.ts';
import { verifyPins } from '../../objects/pin/pin-verification.ts';
import { present } from '../../../testkit/present.ts';
import { storageOf } from '../sqlite-storage.ts';

/** The columns of a table, with their types and defaults, in the order of their names. */
function columnsOf(database: DatabaseSync, table: string): unknown[] {
  return database
    .prepare('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?) ORDER BY name')
    .all(table);
}

it('a new object has the tables that one of the first version has after its upgrade', () => {
  const [fresh, old] = [new DatabaseSync(':memory:'), new DatabaseSync(':memory:')];
  new PinRows(storageOf(fresh)).create();
  // As version 0.1.0 made them.
  old.exec(`
    CREATE TABLE pin (cid TEXT NOT NULL, service TEXT NOT NULL, state TEXT NOT NULL, was_there INTEGER NOT NULL,
      due INTEGER, attempts INTEGER NOT NULL, PRIMARY KEY (cid, service)) WITHOUT ROWID;
    CREATE TABLE reference (cid TEXT NOT NULL, service TEXT NOT NULL, account TEXT NOT NULL, file_id TEXT NOT NULL,
      PRIMARY KEY (cid, service, account, file_id)) WITHOUT ROWID;
    CREATE INDEX pin_due ON pin (due);
  `);
  new PinRows(storageOf(old)).upgrade(0);
  const names = (database: DatabaseSync): unknown[] =>
    database.prepare('SELECT type, name FROM sqlite_master ORDER BY name').all();
  expect(names(fresh)).toEqual(names(old));
  for (const table of ['pin', 'reference', 'breaker', 'migration']) {
    expect(columnsOf(fresh, table).length).toBeGreaterThan(2);
    expect(columnsOf(fresh, table)).toEqual(columnsOf(old, table));
  }
});

it.each([8 * 86_400_000, 1764421200_000, Number.MAX_SAFE_INTEGER / 2])(
  'a service that asked an earlier version to wait for %i ms is asked within two hours, and no other sooner',
  (longMs) => {
    const sql = storageOf(new DatabaseSync(':memory:'));
    const [rows, breakers, nowMs] = [new PinRows(sql), new Breakers(sql), Date.now()];
    rows.create();
    const [hourMs, dayMs] = [3_600_000, 86_400_000];
    // One has answered since, for another row.
    const late = { away: [longMs, longMs], back: [0, longMs], slow: [dayMs, 5000] };
    const others = { failed: [hourMs, 5000], live: [0, 6 * dayMs] };
    for (const [service, [breakerMs = 0, dueMs = 0]] of Object.entries({ ...late, ...others })) {
      rows.add('a CID', service, 'wanted', nowMs + dueMs);
      if (breakerMs > 0) breakers.failed(service, nowMs, breakerMs / 1000);
    }
    rows.upgrade(nowMs);
    const nextMs = (service: string): number =>
      Math.max(present(rows.find('a CID', service)?.due), breakers.openUntil(service)) - nowMs;
    for (const service of Object.keys(late)) expect(nextMs(service)).toBeLessThanOrEqual(2 * hourMs);
    expect(nextMs('failed')).toBe(hourMs);
    expect(nextMs('live')).toBe(6 * dayMs);
  },
);

describe('a pin', () => {
  const rows = new PinRows(storageOf(new DatabaseSync(':memory:')));
  rows.create();
  rows.add('a CID', 'a service', 'copying', 0);
  const row = () => present(rows.find('a CID', 'a service'));
  let nowMs = 1000;
  const context = { rows, now: () => nowMs } as unknown as WorkContext;
  /** Asks for a pin that takes an hour. */
  const pinned = (end: () => Promise<string>) =>
    pinningNow(context, row(), async () => {
      const begunAt = nowMs;
      for (; nowMs < begunAt + 3_600_000; nowMs += 60_000) expect(row().late_until).toBeGreaterThan(nowMs);
      return await end();
    });

  it('that was requested, given up or failed may still come afterwards, and one that is held does not', async () => {
    await pinned(async () => 'held');
    expect(row().late_until).toBeNull();
    await pinned(async () => 'requested');
    expect(row().late_until).toBe(nowMs + 60_000);
    await expect(pinned(async () => Promise.reject(new DOMException('deleted', 'AbortError')))).rejects.toThrow();
    expect(row().late_until).toBe(nowMs + 60_000);
  });

  it('whose object has died may come for a while after somebody else has begun', async () => {
    // The process ends here: nobody writes what became of it.
    void pinned(async () => new Promise<never>(() => undefined));
    await Promise.resolve();
    await pinned(async () => 'held');
    expect(row().late_until).toBeLessThanOrEqual(nowMs + 60_000);
  });
});

it('a verification that is asked for again goes on with what is being read', async () => {
  const rows = new PinRows(storageOf(new DatabaseSync(':memory:')));
  rows.create();
  rows.add('a CID', 'a service', 'live', 0);
  const row = () => present(rows.find('a CID', 'a service'));
  const nowMs = 1000;
  const verified = (parts: number) =>
    verifyPins('a CID', {
      rows,
      work: { readAll: (each) => rows.change(each, { ...wholeFile, due: nowMs }) },
      mayAsk: () => true,
      begun: async () => undefined,
      ended: async () => false,
      now: () => nowMs,
      async step({ read_from: from }) {
        const next = (from ?? 0) + 1;
        rows.change(row(), next === parts ? { read_from: null, read_to: null } : { read_from: next, due: nowMs + 1 });
      },
    });
  expect(await verified(3)).toBe(false);
  expect(await verified(3)).toBe(false);
  expect(await verified(3)).toBe(true);
  // All of it is read again for who asks afterwards.
  expect(await verified(2)).toBe(false);
  expect(row().read_from).toBe(1);
});
