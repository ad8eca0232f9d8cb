/** Retention of an account's temporary rows, in SQLite. */
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, it } from 'vitest';
import { receiptDays } from '../../../shared/api.ts';
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

it('what unfinished uploads take is found without a look at the rows of those that have ended', () => {
  const asked: string[] = [];
  const watched = { exec: (query: string, ...values: unknown[]) => (asked.push(query), sql.exec(query, ...values)) };
  expect(reservedBy(watched as unknown as SqlStorage)).toEqual([]);
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
