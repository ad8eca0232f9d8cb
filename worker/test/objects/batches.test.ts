/**
 * Requests to many objects: how many at once, in which order the answers are, and when they end.
 */
import { expect, test, vi } from 'vitest';
import { askInBatches } from '../../objects/batches.ts';

const items = Array.from({ length: 1_005 }, (_, n) => n);

test('asks for each of a thousand, 32 at once, and answers in their order', async () => {
  let running = 0;
  let most = 0;
  const answers = await askInBatches(items, async (item) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise(setImmediate);
    running -= 1;
    return item * 2;
  });
  expect(answers).toEqual(items.map((item) => item * 2));
  expect(most).toBe(32);
});

test('leaves out the batches after enough', async () => {
  const answers = await askInBatches(
    items,
    async (item) => await Promise.resolve(item),
    (each) => each.includes(40),
  );
  expect(answers).toEqual(items.slice(0, 64));
});

test('begins no batch after a failure', async () => {
  const ask = vi.fn(async (item: number) => await (item === 40 ? Promise.reject(new Error('gone')) : item));
  await expect(askInBatches(items, ask)).rejects.toThrow('gone');
  expect(ask).toHaveBeenCalledTimes(64);
});
