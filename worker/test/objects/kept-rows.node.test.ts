/** Retention of an account's temporary rows, in SQLite. */
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it } from 'vitest';
import { receiptDays, type EventAction, type Scope } from '../../../shared/api.ts';
import { EventRows, eventRetentionMs } from '../../objects/account/event-rows.ts';
import type { FileRecord } from '../../objects/account/files/file-rows.ts';
import { KeyUsage } from '../../objects/account/keys/key-usage.ts';
import { ReceiptRows } from '../../objects/account/files/receipt-rows.ts';
import { reservedBy } from '../../objects/account/keys/reserved.ts';
import { createTables } from '../../objects/account/tables.ts';
import { storageOf } from '../sqlite-storage.ts';

const dayMs = 86_400_000;
let sql: SqlStorage;
beforeEach(() => {
  sql = storageOf(new DatabaseSync(':memory:'));
  createTables(sql);
});

/** The storage, of which each query is told before it is asked. */
const watched = (tell: (query: string) => void): SqlStorage =>
  ({ exec: (query: string, ...values: unknown[]) => (tell(query), sql.exec(query, ...values)) }) as SqlStorage;

function addReceipt(receipts: ReceiptRows, fileId: string, nowMs: number, shares: string[] = []): void {
  const file: Partial<FileRecord> = { fileId, mode: 'plain', beginning: 'other', service: 'a' };
  receipts.add(file as FileRecord, 'deleted', shares, nowMs);
}

it('a day of use is kept for 90 more, until the alarm is due', () => {
  let nowMs = 0;
  const usage = new KeyUsage(sql, { now: () => nowMs });
  expect(usage.nextDue()).toBeUndefined();
  for (const day of [20_000, 20_001])
    sql.exec(`INSERT INTO key_usage (day, api_key, requests, bytes_in, bytes_out) VALUES (?, 'k', 1, 0, 0)`, day);
  const days = () => {
    usage.prune();
    return usage.page({ before: undefined, limit: 9 }).usage.map(({ day }) => day);
  };
  const due = usage.nextDue() ?? 0;
  expect(due).toBe((20_000 + 91) * dayMs);
  nowMs = due - 1;
  expect(days()).toEqual(['2024-10-05', '2024-10-04']);
  nowMs = due;
  expect(days()).toEqual(['2024-10-05']);
  expect(usage.nextDue()).toBe(due + dayMs);
});

describe('events', () => {
  let nowMs: number;
  let read: string[];
  let events: EventRows;
  beforeEach(() => {
    nowMs = 0;
    read = [];
    events = new EventRows(
      watched((query) => read.push(query)),
      { now: () => nowMs },
    );
  });
  const add = (action: EventAction, by: string | null = null): void => events.add({ action, by, subject: 's' });
  const page = (scopes: Scope[], after?: number): unknown => {
    const found = events.page({ id: 'k', scopes }, { after, limit: 2 });
    return found.ok ? found.events.map(({ number }) => number) : found.code;
  };

  it('are read without a look at those that a key does not see', () => {
    sql.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
      INSERT INTO event (time, action, api_key, subject) SELECT 0, 'file.stored', 'other', 's' FROM n`);
    add('file.deleted', 'k');
    add('share.opened');
    add('key.created', 'other');
    add('share.revoked', 'k');
    read = [];
    expect(events.page({ id: 'k', scopes: ['share'] }, { after: undefined, limit: 2 })).toMatchObject({
      events: [{ number: 10_002 }, { number: 10_003 }],
      next: 10_003,
      more: true,
    });
    expect(page(['share'], 10_003)).toEqual([10_005]);
    expect(page(['keys'], 10_001)).toEqual([10_002, 10_004]);
    const plans = read
      .filter((query) => query.includes('* FROM event'))
      .map((query) => sql.exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, '', 0, 1).toArray());
    for (const plan of plans)
      expect(plan).toEqual([
        expect.objectContaining({ detail: expect.stringMatching(/INDEX event_(?:kind|key) .*=\? AND rowid>\?/) }),
      ]);
    expect(plans).toHaveLength(2 + 2 + 4);
  });

  it.each<[Scope, EventAction[], EventAction[]]>([
    ['read', ['file.stored'], ['share.opened', 'key.created', 'account.rotated']],
    ['share', ['share.opened'], ['file.stored', 'key.created', 'account.rotated']],
    ['keys', ['file.stored', 'key.created', 'account.rotated'], ['share.opened']],
  ])('that are removed are missed by a key with %s where it might see them, and by no other', (scope, seen, unseen) => {
    add('key.created', 'k');
    for (const action of unseen) add(action, 'other');
    nowMs += eventRetentionMs;
    events.prune();
    expect(sql.exec('SELECT * FROM event').toArray()).toEqual([]);
    expect(page([scope], 1)).toEqual([]);
    for (const [action, by] of [...seen.map((each) => [each, 'other'] as const), ['share.opened', 'k'] as const]) {
      const before = events.last();
      add(action, by);
      const number = events.last();
      expect(page([scope], before)).toEqual([number]);
      nowMs += eventRetentionMs;
      events.prune();
      expect(page([scope], before)).toBe('gone');
      expect(page([scope], number)).toEqual([]);
      expect(page([scope])).toEqual([]);
    }
  });

  it('that an older version removed may be of any kind', () => {
    for (let each = 0; each < 3; each += 1) add('file.stored');
    sql.exec('DELETE FROM event WHERE seq <= 2');
    const found = (): unknown[] => [0, 1, 2, 3].map((after) => page(['share'], after || undefined));
    expect(found()).toEqual([[], 'gone', [], []]);
    nowMs += eventRetentionMs;
    events.prune();
    expect(found()).toEqual([[], 'gone', [], []]);
    events.numberFrom(5);
    expect([3, 4, 5].map((after) => page(['share'], after))).toEqual(['gone', 'gone', []]);
  });
});

it('what unfinished uploads take is found without a look at the rows of those that have ended', () => {
  const asked: string[] = [];
  expect(reservedBy(watched((query) => asked.push(query)))).toEqual([]);
  const plan = sql.exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${asked[0]}`).toArray();
  expect(plan.map(({ detail }) => detail).join()).toContain('upload_unfinished');
});

it('a receipt is kept until the alarm is due, the earliest first', () => {
  const receipts = new ReceiptRows(sql);
  addReceipt(receipts, 'first', 1000);
  addReceipt(receipts, 'second', 2000);
  const due = receipts.nextDue() ?? 0;
  expect(due).toBe(1000 + receiptDays * dayMs);
  receipts.sweep(due - 1);
  expect(receipts.find('first', due - 1)).toMatchObject({ deletedAt: 1000, key: 'none' });
  expect(receipts.find('first', due)).toBeUndefined();
  receipts.sweep(due);
  expect(receipts.find('first', due - 1)).toBeUndefined();
  expect(receipts.nextDue()).toBe(due + 1000);
});

it('the record of a share is destroyed unless a message waits that is due or was sent', () => {
  const receipts = new ReceiptRows(sql);
  addReceipt(receipts, 'a file', 1000, ['gone', 'due', 'sent', 'later']);
  for (const [share, due, attempts] of [
    ['due', 2000, 0],
    ['sent', 9000, 1],
    ['later', 9000, 0],
  ] as const)
    sql.exec(
      `INSERT INTO outbox (op, target, service, file_id, due, attempts) VALUES ('unshare', ?, '', '', ?, ?)`,
      share,
      due,
      attempts,
    );
  const records = receipts.find('a file', 2000)?.shares.map(({ id, record }) => [id, record]) ?? [];
  expect(Object.fromEntries(records)).toEqual({
    gone: 'destroyed',
    due: 'scheduled',
    sent: 'scheduled',
    later: 'destroyed',
  });
});
