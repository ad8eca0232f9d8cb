/** The rules of migrations, on the rows of an object of pins in SQLite. */
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, it } from 'vitest';
import { Migrations } from '../../objects/pin/migrations.ts';
import { PinRows, type PinRow } from '../../objects/pin/pin-rows.ts';
import type { WorkContext } from '../../objects/pin/pin-steps.ts';
import type { Env } from '../../env.ts';
import { PinWork } from '../../objects/pin/pin-work.ts';
import { storageOf } from '../sqlite-storage.ts';

const cid = 'a CID';
const nowMs = 1000;
const laterMs = 2000;
let rows: PinRows;
let migrations: Migrations;
let work: PinWork;

beforeEach(() => {
  const sql = storageOf(new DatabaseSync(':memory:'));
  const now = () => nowMs;
  rows = new PinRows(sql);
  migrations = new Migrations(sql, { rows, now });
  // All that `settle` uses.
  work = new PinWork({ env: envWith('a', 'b', 'c', 'd', 'z'), rows, now } as WorkContext);
  rows.create();
});

function envWith(...ids: string[]): Env {
  const entries = ids.map((id) => ({ id, type: 'kubo', url: `https://${id}.test`, tokenSecret: 'KUBO_TOKEN' }));
  return { BACKENDS: JSON.stringify(entries), KUBO_TOKEN: 'token', SERVICE_ID: 'tested' } as unknown as Env;
}

function hold(service: string): void {
  rows.add(cid, service, 'live', laterMs);
}

/**
 * Returns the backends of the CID, and their fate: `moving`, to where it is copied; `leaving`, once
 * it is elsewhere.
 */
function backendsOf(): Record<string, string> {
  const fate = ({ state, wanted, moved_from: from }: PinRow): string => {
    if (state === 'unpinning') return wanted === 1 ? 'wanted again' : 'removed';
    if (wanted === 0) return 'leaving';
    return from === null ? state : `moving from ${from}`;
  };
  return Object.fromEntries(rows.ofCid(cid).map((row) => [row.service, fate(row)]));
}

/** A service gets the file, and every byte is read from there. */
function arrive(service: string): void {
  rows.change({ cid, service }, { state: 'live' });
  work.settle(cid);
  expect(rows.find(cid, service)).toMatchObject({ read_from: 0 });
  rows.change({ cid, service }, { read_from: null, read_to: null, verified_at: nowMs });
  work.settle(cid);
}

/** Ends removals: what is removed is gone. */
function endRemovals(): void {
  for (const row of rows.ofCid(cid)) {
    if (row.state !== 'unpinning') continue;
    if (row.wanted === 0) rows.remove(row);
    else rows.change(row, { state: 'wanted' });
  }
}

it('a file that moves to one service is sent to another one instead, which it then leaves for a third', () => {
  hold('a');
  // Another backend, whose copy was verified, takes nobody's place.
  hold('z');
  rows.change({ cid, service: 'z' }, { verified_at: nowMs });
  migrations.begin('a', 'b');
  work.settle(cid);
  expect(backendsOf()).toEqual({ a: 'leaving', b: 'moving from a', z: 'live' });
  rows.remove({ cid, service: 'z' });
  migrations.begin('a', 'c');
  expect(backendsOf()).toEqual({ a: 'leaving', b: 'removed', c: 'moving from a' });
  expect(migrations.list()).toEqual([
    { from: 'a', to: 'c', state: 'running', startedAt: nowMs, total: 1, left: 1, failed: 0 },
  ]);
  endRemovals();
  migrations.begin('c', 'd');
  expect(backendsOf()).toEqual({ a: 'leaving', c: 'leaving', d: 'moving from c' });
  arrive('d');
  expect(backendsOf()).toEqual({ a: 'removed', c: 'removed', d: 'live' });
});

it('what is uploaded to the first of a row of services moves to the last', () => {
  migrations.begin('a', 'b');
  migrations.begin('b', 'c');
  expect(['a', 'b', 'c'].map((service) => migrations.targetOf(service))).toEqual(['c', 'c', undefined]);
  // A circle has an end, which is where the last migration goes.
  migrations.begin('c', 'a');
  expect(['a', 'b', 'c'].map((service) => migrations.targetOf(service))).toEqual([undefined, 'a', 'a']);
  migrations.begin('a', 'b');
  expect(migrations.targetOf('c')).toBe('b');
});

it('a cancellation removes what was on its way, and may be taken back at once', () => {
  hold('a');
  migrations.begin('a', 'b');
  expect(migrations.cancel('b', 'a')).toBe(false);
  expect(migrations.cancel('a', 'c')).toBe(false);
  expect(migrations.cancel('a', 'b')).toBe(true);
  expect(migrations.cancel('a', 'b')).toBe(false);
  expect(backendsOf()).toEqual({ a: 'live', b: 'removed' });
  migrations.begin('a', 'b');
  expect(backendsOf()).toEqual({ a: 'leaving', b: 'wanted again' });
  endRemovals();
  expect(backendsOf()).toEqual({ a: 'leaving', b: 'moving from a' });
  rows.change({ cid, service: 'b' }, { due: laterMs });
  migrations.cancel('a', 'b');
  expect(backendsOf()).toEqual({ a: 'live', b: 'removed' });
  expect(rows.find(cid, 'b')).toMatchObject({ due: nowMs });
  // An upload of the same bytes makes it a backend of its own.
  rows.change({ cid, service: 'b' }, { state: 'live', wanted: 1 });
  migrations.begin('a', 'b');
  migrations.cancel('a', 'b');
  expect(backendsOf()).toEqual({ a: 'live', b: 'live' });
});

it('a migration can be turned round before it is done', () => {
  hold('a');
  migrations.begin('a', 'b');
  migrations.begin('b', 'a');
  expect(backendsOf()).toEqual({ a: 'live', b: 'leaving' });
  expect(rows.find(cid, 'a')).toMatchObject({ due: nowMs, read_from: 0 });
  expect(migrations.list()).toMatchObject([{ from: 'b', to: 'a', total: 1 }]);
});

it('a cancellation ends one migration, and brings back nothing that is deleted', () => {
  hold('a');
  migrations.begin('a', 'b');
  migrations.begin('c', 'b');
  rows.change({ cid, service: 'a' }, { state: 'unpinning', wanted: 0 });
  migrations.cancel('a', 'b');
  expect(rows.find(cid, 'a')).toMatchObject({ state: 'unpinning', wanted: 0 });
  expect(migrations.list().map(({ from, state }) => [from, state])).toEqual([
    ['a', 'cancelled'],
    ['c', 'running'],
  ]);
});

it('what is wanted again while it is removed moves, too', () => {
  hold('a');
  rows.change({ cid, service: 'a' }, { state: 'unpinning' });
  migrations.begin('a', 'b');
  expect(backendsOf()).toEqual({ a: 'removed', b: 'moving from a' });
});

it('a cancellation leaves a file that has moved, also where the same bytes were sent to the old service since', () => {
  hold('a');
  migrations.begin('a', 'b');
  arrive('b');
  expect(backendsOf()).toEqual({ a: 'removed', b: 'live' });
  endRemovals();
  hold('a');
  migrations.move(cid, 'a', 'b');
  expect(backendsOf()).toEqual({ a: 'leaving', b: 'live' });
  // It is read as a whole once more before it is the only copy.
  expect(rows.find(cid, 'b')).toMatchObject({ verified_at: null, read_from: 0 });
  migrations.cancel('a', 'b');
  expect(backendsOf()).toEqual({ a: 'live', b: 'live' });
});

it.for(['live', 'lost'] as const)('a cancellation leaves a whole copy until the old service, %s, was read', (state) => {
  hold('a');
  rows.change({ cid, service: 'a' }, { verified_at: nowMs });
  migrations.begin('a', 'b');
  rows.change({ cid, service: 'b' }, { state: 'live' });
  rows.change({ cid, service: 'a' }, { state });
  migrations.cancel('a', 'b');
  work.settle(cid);
  expect(backendsOf()).toEqual({ a: state, b: 'leaving' });
  arrive('a');
  expect(backendsOf()).toEqual({ a: 'live', b: 'removed' });
});

it('what is stored after a cancellation is not counted as left, and while it runs nothing is left of less', () => {
  hold('a');
  rows.add('another CID', 'a', 'live', nowMs);
  migrations.begin('a', 'b');
  rows.add('a third CID', 'a', 'live', nowMs);
  migrations.move('a third CID', 'a', 'b');
  expect(migrations.list()).toMatchObject([{ state: 'running', total: 3, left: 3 }]);
  rows.remove({ cid, service: 'a' });
  migrations.cancel('a', 'b');
  for (let count = 0; count < 5; count += 1) rows.add(`CID ${count}`, 'a', 'live', nowMs);
  expect(migrations.list()).toMatchObject([{ state: 'cancelled', total: 2, left: 2 }]);
});

it('a copy that failed is counted, and a migration that is begun again counts from its beginning', () => {
  hold('a');
  rows.add('another CID', 'a', 'live', nowMs);
  migrations.begin('a', 'b');
  rows.change({ cid, service: 'b' }, { state: 'failed' });
  migrations.begin('a', 'b');
  expect(migrations.list()).toMatchObject([{ total: 2, left: 2, failed: 1 }]);
  expect(backendsOf()).toEqual({ a: 'leaving', b: 'moving from a' });
});

it('a copy at a backend that is not configured any more lets no other one go', () => {
  hold('a');
  migrations.begin('a', 'b');
  rows.change({ cid, service: 'b' }, { state: 'live', verified_at: nowMs });
  new PinWork({ env: envWith('a'), rows, now: () => nowMs } as WorkContext).settle(cid);
  expect(rows.find(cid, 'a')?.state).toBe('live');
  work.settle(cid);
  expect(rows.find(cid, 'a')?.state).toBe('unpinning');
});
