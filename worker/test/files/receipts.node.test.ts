/** ReceiptRows of removals, on rows in SQLite. */
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, it } from 'vitest';
import { receiptDays } from '../../../shared/api.ts';
import { dayMs } from '../../../shared/time.ts';
import type { FileRecord } from '../../objects/account/files/file-rows.ts';
import { Outbox, referenceRemoval } from '../../objects/account/outbox.ts';
import { PinRemovals } from '../../objects/pin/pin-removals.ts';
import { PinRows } from '../../objects/pin/pin-rows.ts';
import type { Removal } from '../../objects/pin/pin-steps.ts';
import { ReceiptRows } from '../../objects/account/files/receipt-rows.ts';
import type { RemovedPin } from '../../../shared/api.ts';
import { err, type Result } from '../../objects/result.ts';
import { createTables } from '../../objects/account/tables.ts';
import { storageOf } from '../sqlite-storage.ts';
import { present } from '../../../testkit/present.ts';

const reference = { cid: 'a CID', service: 'a', account: 'an account', fileId: 'a file' };
const file = { ...reference, mode: 'encrypted', beginning: 'other' } as unknown as FileRecord;
const pin = (service: string, status: Removal): RemovedPin => ({ service, status });

let sql: SqlStorage;
let nowMs: number;
let receipts: ReceiptRows;
let outbox: Outbox;
let rows: PinRows;
let removals: PinRemovals;
/** Removals that the account learns of, and its answer; undefined: it does not respond. */
let told: RemovedPin[][];
let answer: Result | undefined;

const pins = () => receipts.find('a file', nowMs)?.pins;

beforeEach(() => {
  sql = storageOf(new DatabaseSync(':memory:'));
  createTables(sql);
  [nowMs, told, answer] = [1_000, [], { ok: true }];
  receipts = new ReceiptRows(sql);
  outbox = new Outbox(sql, { now: () => nowMs, unreferred: () => undefined, send: async () => err('overloaded') });
  receipts.add(file, 'deleted', [], nowMs);
  const ofPin = storageOf(new DatabaseSync(':memory:'));
  rows = new PinRows(ofPin);
  rows.create();
  removals = new PinRemovals(ofPin, {
    now: () => nowMs,
    report: async (_account, fileId, reported) => {
      told.push([...reported]);
      if (answer === undefined) throw new Error('nobody is there');
      if (answer.ok) receipts.setPins(fileId, reported);
      return answer;
    },
  });
  for (const service of ['a', 'b']) rows.add('a CID', service, 'unpinning', nowMs);
  removals.begin(reference, rows.ofCid('a CID'));
});

it('what is done in any order is what a receipt says, also where an answer comes late', () => {
  receipts.setPins('a file', [pin('a', 'kept'), pin('b', 'unpinned')]);
  // The answer to the removal, from before.
  receipts.setPins('a file', [pin('a', 'unpinned'), pin('b', 'scheduled')]);
  expect(pins()).toEqual([pin('a', 'kept'), pin('b', 'unpinned')]);
});

it('a removal is reported when it is made, until the account has heard of it, and once', async () => {
  removals.note('a CID', 'a', 'kept');
  rows.remove({ cid: 'a CID', service: 'a' });
  expect(removals.answer(reference, false)).toEqual([pin('a', 'kept'), pin('b', 'scheduled')]);
  // The answer may be lost.
  await removals.flush();
  expect(told).toEqual([[pin('a', 'kept'), pin('b', 'scheduled')]]);
  expect(removals.nextTime()).toBeUndefined();
  nowMs += 60_000;
  removals.note('a CID', 'b', 'unpinned');
  rows.remove({ cid: 'a CID', service: 'b' });
  for (const failing of [undefined, err('overloaded')]) {
    answer = failing;
    nowMs = present(removals.nextTime());
    await removals.flush();
    expect(removals.nextTime()).toBeGreaterThan(nowMs);
  }
  answer = { ok: true };
  nowMs = present(removals.nextTime());
  await removals.flush();
  expect(pins()).toEqual([pin('a', 'kept'), pin('b', 'unpinned')]);
  expect(told.length).toBe(4);
  expect(removals.nextTime()).toBe(undefined);
  expect(removals.answer(reference, false)).toBe(undefined);
});

it('an account that asks twice at once is told in the end, whichever of the answers comes', async () => {
  // The first request is answered, and acknowledged, while the second one removes what is left.
  expect(removals.answer(reference, true)).toEqual([pin('a', 'scheduled'), pin('b', 'scheduled')]);
  const isFirst = removals.begin(reference, rows.ofCid('a CID'));
  for (const service of ['a', 'b']) removals.note('a CID', service, 'unpinned');
  expect(removals.answer(reference, isFirst)).toEqual([pin('a', 'unpinned'), pin('b', 'unpinned')]);
  await removals.flush();
  expect(pins()).toEqual([pin('a', 'unpinned'), pin('b', 'unpinned')]);
  expect(removals.nextTime()).toBeUndefined();
});

it('what is gone when it is first asked for is told by the answer alone', () => {
  const other = { ...reference, fileId: 'another file' };
  const isFirst = removals.begin(other, rows.ofCid('a CID'));
  for (const service of ['a', 'b']) removals.note('a CID', service, 'unpinned');
  removals.answer(other, isFirst);
  expect(removals.answer(other, false)).toBeUndefined();
});

it('a removal that begins while another one is reported is reported, too', async () => {
  rows.add('a CID', 'c', 'unpinning', nowMs);
  for (const service of ['a', 'b']) removals.note('a CID', service, 'unpinned');
  const flushed = removals.flush();
  removals.begin(reference, rows.ofCid('a CID'));
  await flushed;
  removals.note('a CID', 'c', 'unpinned');
  await removals.flush();
  expect(pins()).toEqual(['c', 'a', 'b'].map((service) => pin(service, 'unpinned')));
});

it('bytes that somebody needs again before they were removed are gone for the file that was deleted', async () => {
  rows.change({ cid: 'a CID', service: 'a' }, { state: 'live' });
  rows.remove({ cid: 'a CID', service: 'b' });
  await removals.flush();
  expect(pins()).toEqual([pin('a', 'unpinned'), pin('b', 'unpinned')]);
});

it('what cannot be removed for as long as receipts are kept is forgotten, and not reported', async () => {
  nowMs += receiptDays * dayMs;
  await removals.flush();
  expect(removals.answer(reference, false)).toBe(undefined);
  expect(removals.nextTime()).toBe(undefined);
  expect(told).toEqual([]);
});

it('a receipt of an earlier version is completed where nothing is being removed any more', () => {
  sql.exec('UPDATE receipt SET pins = ?', JSON.stringify([pin('a', 'scheduled'), pin('b', 'scheduled')]));
  const message = outbox.add(referenceRemoval(file));
  expect(receipts.isForgotten('a file')).toBe(false);
  sql.exec('DELETE FROM outbox WHERE id = ?', message);
  expect(receipts.isForgotten('a file')).toBe(true);
  receipts.complete(new Set(['b']));
  expect(pins()).toEqual([pin('a', 'unpinned'), pin('b', 'scheduled')]);
  expect(receipts.isForgotten('a file')).toBe(true);
  receipts.complete(new Set());
  expect(pins()).toEqual([pin('a', 'unpinned'), pin('b', 'unpinned')]);
  expect(receipts.isForgotten('a file')).toBe(false);
});

it('a receipt of this version waits for what the pin says', () => {
  receipts.setPins('a file', [pin('a', 'scheduled')]);
  expect(receipts.isForgotten('a file')).toBe(false);
});
