import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { CidQueue, waitMs } from '../../objects/pin/cid-queue.ts';

let queue: CidQueue;
let end: () => void;
let work: Promise<unknown>;

beforeEach(() => {
  queue = new CidQueue();
  const { promise, resolve } = Promise.withResolvers<void>();
  end = resolve;
  work = queue.interrupt('a CID', async () => {
    await promise;
    return { ok: true };
  });
});
afterEach(() => void vi.useRealTimers());

test('two who wait for what is at work on a CID do not wait for each other', async () => {
  const rounds = [0, 0];
  // Each asks again for as long as there was something, as a verification does.
  const waiting = rounds.map(async (_, who) => {
    while ((rounds[who] ?? 0) < 10 && (await queue.ended('a CID'))) rounds[who] = (rounds[who] ?? 0) + 1;
  });
  end();
  await Promise.all([work, ...waiting]);
  expect(rounds).toEqual([1, 1]);
  expect(await queue.ended('a CID')).toBe(false);
});

test('who comes after somebody who gave up waits for what is still at work', async () => {
  vi.useFakeTimers();
  const events: string[] = [];
  const ask = async (name: string): Promise<unknown> => {
    const result = await queue.interrupt('a CID', async () => (events.push(name), { ok: true }));
    return result.ok || result.code;
  };
  const first = ask('first');
  await vi.advanceTimersByTimeAsync(waitMs);
  expect(await first).toBe('overloaded');
  const second = ask('second');
  await vi.advanceTimersByTimeAsync(1);
  events.push('the work ends');
  end();
  expect(await second).toBe(true);
  expect(events).toEqual(['the work ends', 'second']);
  expect(await queue.ended('a CID')).toBe(false);
});
