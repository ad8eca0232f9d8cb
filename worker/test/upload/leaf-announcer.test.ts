/** Digests of leaves on their way to where they are recorded. */
import { expect, it } from 'vitest';
import { leafAnnouncer } from '../../upload/leaf-announcer.ts';

type Call = { first: number; bytes: number[]; end(error?: Error): void };

/**
 * An announcer whose calls end when the test says so, and the numbers of the leaves that it says
 * are recorded.
 */
function announcer() {
  const calls: Call[] = [];
  const recorded: number[] = [];
  const { add, flush, abort } = leafAnnouncer((first, digests) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const bytes = Array.from({ length: digests.length / 32 }, (_, index) => digests[index * 32] ?? -1);
    calls.push({ first, bytes, end: (error) => (error === undefined ? resolve() : reject(error)) });
    return promise;
  });
  const announce = async (index: number): Promise<void> => {
    await add(index, new Uint8Array(32).fill(index));
    recorded.push(index);
  };
  return { calls, recorded, announce, flush, abort };
}

const seen = (calls: readonly Call[]) => calls.map(({ first, bytes }) => [first, bytes]);

it('leaves wait until they are flushed, and are recorded in one call', async () => {
  const { calls, recorded, announce, flush } = announcer();
  const announced = [5, 6, 7].map(announce);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(calls).toEqual([]);
  flush();
  await expect.poll(() => seen(calls)).toEqual([[5, [5, 6, 7]]]);
  expect(recorded).toEqual([]);
  calls[0]?.end();
  await Promise.all(announced);
  expect(recorded).toEqual([5, 6, 7]);
});

it('leaves that come while a call is under way go into the next one together', async () => {
  const { calls, recorded, announce, flush } = announcer();
  const announced = [announce(5)];
  flush();
  await expect.poll(() => calls.length).toBe(1);
  announced.push(announce(6));
  flush();
  announced.push(announce(7));
  calls[0]?.end();
  await expect.poll(() => calls.length).toBe(2);
  expect(recorded).toEqual([5]);
  calls[1]?.end();
  await Promise.all(announced);
  expect(seen(calls)).toEqual([
    [5, [5]],
    [6, [6, 7]],
  ]);
});

it('after a call that failed no other is made', async () => {
  const { calls, announce, flush } = announcer();
  const first = announce(0);
  flush();
  await expect.poll(() => calls.length).toBe(1);
  const second = announce(1);
  flush();
  calls[0]?.end(new Error('the file has changed'));
  await expect(first).rejects.toThrow('the file has changed');
  await expect(second).rejects.toThrow('the file has changed');
  const third = announce(2);
  flush();
  await expect(third).rejects.toThrow('the file has changed');
  expect(calls).toHaveLength(1);
});

it('leaves that wait when the upload ends are not recorded', async () => {
  const { calls, announce, flush, abort } = announcer();
  const waiting = announce(0);
  abort(new Error('given up'));
  await expect(waiting).rejects.toThrow('given up');
  flush();
  await expect(announce(1)).rejects.toThrow('given up');
  expect(calls).toEqual([]);
});
