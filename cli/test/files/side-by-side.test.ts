/** Transfers of several files at once. */
import { expect, test } from 'vitest';
import { sideBySide } from '../../files/side-by-side.ts';
import { contextIn } from '../environment.ts';

const large = 17 * 1024 * 1024;

/** Transfers items of these sizes, each of which ends when nothing else begins any more. */
async function transferred(sizes: readonly number[], failing?: number): Promise<{ most: number; begun: number[] }> {
  const begun: number[] = [];
  let running = 0;
  let most = 0;
  const transfer = async (_: number, index: number): Promise<void> => {
    begun.push(index);
    running += 1;
    await new Promise(setImmediate);
    most = Math.max(most, running);
    running -= 1;
    if (index === failing) throw new Error(`of ${index}`);
  };
  const done = sideBySide(sizes, { bytesOf: (size) => size, label: 'sent', transfer }, contextIn('/'));
  await done.catch((error: unknown) => begun.push(Number(String(error).slice(-1))));
  return { most, begun };
}

test('small files are transferred four at a time, and large ones one by one after them', async () => {
  expect(await transferred([1, large, 1, 1, 1, 1, large])).toEqual({ most: 4, begun: [0, 2, 3, 4, 5, 1, 6] });
  expect(await transferred([large, large])).toEqual({ most: 1, begun: [0, 1] });
});

test('after a failure no other begins, and it is told', async () => {
  expect((await transferred([1, 1, 1, 1, 1, 1, 1, large], 1)).begun).toEqual([0, 1, 2, 3, 4, 1]);
});
