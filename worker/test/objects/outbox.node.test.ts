/** The messages of an account that are not acknowledged, on rows in SQLite. */
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, it } from 'vitest';
import { Outbox, type Delivered, type Message } from '../../objects/account/outbox.ts';
import { err, type Result } from '../../objects/result.ts';
import { createTables } from '../../objects/account/tables.ts';
import { storageOf } from '../sqlite-storage.ts';

let nowMs: number;
let outbox: Outbox;
/** Messages that were sent, and their requests. */
let sent: { message: Message; requestId: string }[];
/** Files that are no longer referenced, with their outcome. */
let unreferred: unknown[];
/** Answer to the next message; undefined: it cannot be sent. */
let answer: Result<Delivered> | undefined;
/** The time that `Pin` takes for a message, in ms. */
let waitMs: number;

const delivered: Result<Delivered> = { ok: true, status: 'kept', pins: [{ service: 'a', status: 'kept' }] };
const forget = { op: 'forget', target: 'a hash' } as const;
const unrefer = { op: 'unrefer', target: 'a CID', service: 'a', fileId: 'a file' } as const;

beforeEach(() => {
  const sql = storageOf(new DatabaseSync(':memory:'));
  createTables(sql);
  [nowMs, sent, unreferred, answer, waitMs] = [1_000_000, [], [], delivered, 0];
  outbox = new Outbox(sql, {
    now: () => nowMs,
    unreferred: (...removed) => void unreferred.push(removed),
    send: async (message, requestId) => {
      sent.push({ message, requestId });
      if (message.op === 'unrefer') nowMs += waitMs;
      if (answer === undefined) throw new Error('nobody is there');
      return answer.ok && message.op !== 'unrefer' ? { ok: true, status: 'unpinned', pins: [] } : answer;
    },
  });
});

/** Flushes at the next time that something is due. @returns how long that took, in ms */
async function flushNext(): Promise<number> {
  const due = outbox.nextDue() ?? Infinity;
  const waitMs = due - nowMs;
  nowMs = due - 1;
  const before = sent.length;
  await outbox.flush();
  expect(sent).toHaveLength(before);
  nowMs = due;
  await outbox.flush();
  return waitMs;
}

it.each([
  ['a request', 'a request'],
  ['no request', undefined],
])('a message that follows from %s keeps its ID until it is acknowledged', async (_, requestId) => {
  const id = outbox.add(unrefer, { requestId });
  answer = undefined;
  expect(await outbox.deliver([id])).toBe('scheduled');
  answer = err('overloaded');
  expect(await flushNext()).toBe(5_000);
  expect(unreferred).toEqual([]);
  answer = delivered;
  expect(await flushNext()).toBe(10_000);
  expect(new Set(sent.map((each) => each.requestId)).size).toBe(1);
  expect(sent[0]).toMatchObject({ message: unrefer, requestId: requestId ?? expect.stringMatching(/^[0-9a-f-]{36}$/) });
  expect(unreferred).toEqual([['a file', [{ service: 'a', status: 'kept' }]]]);
  expect(outbox.nextDue()).toBeUndefined();
});

it('what becomes of several messages is what leaves most behind, and one that is gone leaves nothing', async () => {
  const ids = [outbox.add(unrefer), outbox.add(forget)];
  expect(await outbox.deliver(ids)).toBe('kept');
  expect(unreferred).toHaveLength(1);
  expect(await outbox.deliver(ids)).toBe('unpinned');
  expect(sent).toHaveLength(2);
});

it('a message is not sent once more while its answer is awaited, and none before it is due', async () => {
  answer = undefined;
  const laterMs = nowMs + 4_000;
  const id = outbox.add(forget);
  outbox.add(unrefer, { dueMs: laterMs });
  await Promise.all([outbox.deliver([id]), outbox.flush()]);
  expect(sent).toHaveLength(1);
  expect(outbox.nextDue()).toBe(laterMs);
});

it('an alarm delivers as much as one event can, the earliest first', async () => {
  for (let count = 0; count < 201; count += 1) outbox.add(forget, { dueMs: nowMs - count });
  outbox.add({ op: 'unshare', target: 'a share' }, { dueMs: nowMs - 500 });
  await outbox.flush();
  expect(sent.length).toBe(200);
  expect(sent[0]?.message.op).toBe('unshare');
  await outbox.flush();
  expect(sent).toHaveLength(202);
});

it('what ends a link or a key is not held up by a backend that hangs', async () => {
  const hangsMs = 8_000;
  for (let count = 0; count < 3; count += 1) outbox.add(unrefer, { dueMs: nowMs - 1 });
  outbox.add({ op: 'unshare', target: 'a share' });
  outbox.add(forget);
  const ops = () => sent.map(({ message }) => message.op);
  waitMs = hangsMs;
  await outbox.flush();
  expect(ops()).toEqual(['unshare', 'forget', 'unrefer']);
  // The rest is still due, behind what came meanwhile.
  outbox.add({ op: 'unshare', target: 'another share' });
  expect(outbox.nextDue()).toBeLessThanOrEqual(nowMs);
  await outbox.flush();
  expect(ops().slice(3)).toEqual(['unshare', 'unrefer']);
});
