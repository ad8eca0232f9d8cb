/**
 * Statements of requests and alarms on tables that may have a million rows: each finds its rows by
 * an index, as SQLite's plan says.
 */
import { DatabaseSync } from 'node:sqlite';
import { expect, it, vi } from 'vitest';
import { AccountContext } from '../../objects/account/account-context.ts';
import { restorePage } from '../../objects/account/backup/account-backup.ts';
import { removeFile } from '../../objects/account/calls/file-calls.ts';
import { PinRows, type Reference } from '../../objects/pin/pin-rows.ts';
import { storageOf } from '../sqlite-storage.ts';

vi.mock('cloudflare:workers', () => ({ DurableObject: Object, RpcTarget: Object }));

/** A database, and the plans of the statements that were made since `plans` was last called. */
function watched(): { sql: SqlStorage; plans(): string[] } {
  const database = new DatabaseSync(':memory:');
  const { exec } = storageOf(database);
  let asked: string[] = [];
  const sql = { exec: (query: string, ...values: unknown[]) => (asked.push(query), exec(query, ...values)) };
  return {
    sql: sql as unknown as SqlStorage,
    plans() {
      const read = asked.filter((query) => !/^\s*(CREATE|DROP|INSERT)|;/.test(query));
      asked = [];
      return read.flatMap((query) =>
        database
          .prepare(`EXPLAIN QUERY PLAN ${query}`)
          .all()
          .map(({ detail }) => String(detail)),
      );
    },
  };
}

/** A scan of `event` in the order of its key ends at the first row, which its plan does not say. */
const scansLongTable = /SCAN (pin|reference|denied|file|file_\w+|outbox|receipt)\b/;

/** Calls of the operator, which are about all rows, and what runs when an object wakes up. */
const ofAllRows = ['constructor', 'exists', 'reload', 'create', 'upgrade', 'wantedAt', 'leaving', 'removingAt'];
const key = { cid: 'c', service: 's' };
const reference: Reference = { ...key, account: 'a', fileId: 'f' };
const argumentsOf: Record<string, unknown[]> = {
  find: ['c', 's'],
  ofCid: ['c'],
  add: ['c', 's', 'live', 0],
  change: [key, { due: 1 }],
  remove: [key],
  dues: [],
  firstDue: ['s', 1],
  countBefore: [key, { reason: 'r', beforeMs: 1, limit: 1 }],
  askWithin: ['s', { reason: null, nowMs: 1, ms: 1 }],
  addReference: [reference, true],
  endPinning: [key, reference],
  pinning: [key],
  removeReference: [reference],
  accountsOf: ['c', { limit: 1 }],
  isReferenced: ['c'],
  isFile: ['c'],
  deny: ['c', 1],
  allow: ['c'],
  deniedSince: ['c'],
};
const names = Object.getOwnPropertyNames(PinRows.prototype).filter((name) => !ofAllRows.includes(name));

it.each(names)('%s of the rows of pins reads no table from end to end', (name) => {
  const { sql, plans } = watched();
  const rows = new PinRows(sql);
  rows.create();
  plans();
  const call = (rows as unknown as Record<string, (...values: unknown[]) => unknown>)[name];
  expect(argumentsOf).toHaveProperty(name);
  call?.apply(rows, argumentsOf[name] ?? []);
  expect(plans().filter((plan) => scansLongTable.test(plan))).toEqual([]);
});

it('a reference is removed without a look at the others of its CID', () => {
  const { sql, plans } = watched();
  const rows = new PinRows(sql);
  rows.create();
  for (const service of ['s', 't']) rows.addReference({ ...reference, service, isPart: service === 't' }, true);
  rows.addReference({ ...reference, fileId: 'g' }, true);
  plans();
  expect(rows.removeReference({ ...reference, service: 'u' })).toEqual({ isPart: true });
  expect(plans()[0]).toMatch(/SEARCH reference .*\(cid=\? AND service=\? AND account=\? AND file_id=\?\)/);
  expect(rows.isReferenced('c')).toBe(true);
  expect(rows.removeReference({ ...reference, fileId: 'g' })).toEqual({ isPart: false });
  expect(rows.isReferenced('c')).toBe(false);
});

it('the earliest row of each service is found, and none of a service without one', () => {
  const { sql } = watched();
  const rows = new PinRows(sql);
  rows.create();
  expect(rows.dues()).toEqual([]);
  for (const [cid, service, due] of [
    ['a', 't', 5],
    ['b', 't', 3],
    ['b', 's', 7],
    ['c', 'u', 1],
  ] as const)
    rows.add(cid, service, 'live', due);
  rows.change({ cid: 'c', service: 'u' }, { due: null });
  expect(rows.dues().map((row) => ({ ...row }))).toEqual([
    { service: 's', due: 7 },
    { service: 't', due: 3 },
  ]);
});

it('files of a long account expire, are deleted, kept and restored by indexes', () => {
  const { sql, plans } = watched();
  const storage = { sql, transactionSync: (work: () => unknown) => work() } as unknown as DurableObjectStorage;
  const now = () => 1000;
  const env = {} as AccountContext['env'];
  const context = new AccountContext({ storage, env, now, erased: async () => undefined, leaseMs: () => 60_000 });
  const { files, row } = context;
  row.create({ id: 'a', label: '', spki: new Uint8Array(1), recoveryKey: null, createdAt: 0 });
  row.reload();
  // A restoration that waits for its last page.
  sql.exec('CREATE TABLE restore (one INTEGER PRIMARY KEY, next TEXT, disabled INTEGER NOT NULL)');
  sql.exec(`INSERT INTO restore VALUES (1, 'f1', 0)`);
  const lists = { keys: [], files: [], shares: [], receipts: [], events: [] };
  plans();
  expect(restorePage(context, { accountId: 'a', after: 'f1', next: null, account: null, ...lists })).toBeUndefined();
  context.nextDue();
  files.expired(500);
  files.stale(1000);
  files.provisional.keep(['f'], 'k', 'g', 0);
  files.checkNameUnused('f', 'name');
  sql.exec(`INSERT INTO file (file_id, state, mode, filename, content_type, bytes, container, cid, service, created_at,
    created_by) VALUES ('f', 'ready', 'plain', 'n', 't', 1, 0, 'c', 's', 1, 'k')`);
  expect(removeFile(context, 'f', 'expired', { by: null, requestId: 'r' })).toBeDefined();
  expect(plans().filter((plan) => scansLongTable.test(plan))).toEqual([]);
});
