/** The blocks of a copy, whose failures have to be told apart. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { cidOfBytes } from '../../../testkit/cid.ts';
import type { PinningService } from '../../backends/contract.ts';
import { copyBlocks } from '../../objects/pin/copy-blocks.ts';

test.each([0, 10])('a target that refuses a file of %i bytes is not taken for a source', async (size) => {
  const bytes = randomBytes(size);
  const cid = await cidOfBytes(bytes);
  const refusal = new Error('the disk is full');
  const refuse = async () => Promise.reject(refusal);
  const target = { importBlocks: () => ({ write: refuse, finish: refuse, abort: () => undefined }) };
  const copied = copyBlocks(cid, [{ id: 'a', block: async () => bytes }], target as unknown as PinningService, {
    start: 0,
    bytes: 100,
    signal: new AbortController().signal,
    onMismatch: () => undefined,
  });
  await expect(copied).rejects.toBe(refusal);
});
