/** Digests of leaves on their way to where they are recorded. */
import { expect, it } from 'vitest';
import { leafAnnouncer } from '../../upload/leaf-announcer.ts';

const digest = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);

type Call = { first: number; bytes: number[]; end(error?: Error): void };

/** An announcer whose calls end when the test says so. */
function announcer() {
  const calls: Call[] = [];
  const announce = leafAnnouncer((first, digests) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const bytes = Array.from({ length: digests.length / 32 }, (_, index) => digests[index * 32] ?? -1);
    calls.push({ first, bytes, end: (error) => (error === undefined ? resolve() : reject(error)) });
    return promise;
  });
  return { calls, announce };
}

it('leaves that come while a call is under way go into the next one together', async () => {
  const { calls, announce } = announcer();
  const done: number[] = [];
  const announced = [5, 6, 7].map(async (index) => {
    await announce(index, digest(index));
    done.push(index);
  });
  const later = async (index: number): Promise<void> => {
    await announce(index, digest(index));
    done.push(index);
  };
  await expect.poll(() => calls.length).toBe(1);
  announced.push(later(8), later(9));
  calls[0]?.end();
  await expect.poll(() => calls.length).toBe(2);
  expect(done).toEqual([5, 6, 7]);
  announced.push(later(10));
  calls[1]?.end();
  await expect.poll(() => calls.length).toBe(3);
  calls[2]?.end();
  await Promise.all(announced);
  expect(calls.map(({ first, bytes }) => [first, bytes])).toEqual([
    [5, [5, 6, 7]],
    [8, [8, 9]],
    [10, [10]],
  ]);
  expect(done).toEqual([5, 6, 7, 8, 9, 10]);
});

it('after a call that failed no other is made', async () => {
  const { calls, announce } = announcer();
  const first = announce(0, digest(0));
  await expect.poll(() => calls.length).toBe(1);
  const second = announce(1, digest(1));
  calls[0]?.end(new Error('the file has changed'));
  await expect(first).rejects.toThrow('the file has changed');
  await expect(second).rejects.toThrow('the file has changed');
  await expect(announce(2, digest(2))).rejects.toThrow('the file has changed');
  expect(calls).toHaveLength(1);
});
