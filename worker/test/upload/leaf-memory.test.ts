/** The memory of leaves, which all uploads of an isolate share. */
import { expect, it } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { leafMemory } from '../../leaf-memory.ts';
import { first } from '../../../testkit/present.ts';

/** Takes a leaf with a mark in it, if it is memory that was used before. */
const isUsed = (leaf: Uint8Array): boolean => leaf[0] === 77;

function used(): Uint8Array<ArrayBuffer> {
  const leaf = leafMemory.take(leafBytes);
  leaf[0] = 77;
  return leaf;
}

it('memory that was given back is taken again, two leaves of it, and nobody else sees it any more', () => {
  const leaves = [used(), used(), used()];
  const part = first(leaves).subarray(5, 10);
  for (const leaf of leaves) leafMemory.giveBack(leaf);
  expect([part, ...leaves].map(({ length }) => length)).toEqual([0, 0, 0, 0]);
  const taken = leaves.map(() => leafMemory.take(leafBytes));
  expect(taken.map(isUsed)).toEqual([true, true, false]);
  expect(new Set(taken.map(({ buffer }) => buffer)).size).toBe(3);
});

it('a leaf that is given back twice is kept once, and an array of a different size is freed', () => {
  const leaf = used();
  leafMemory.giveBack(leaf);
  leafMemory.giveBack(leaf);
  const small = new Uint8Array(10);
  leafMemory.giveBack(small);
  expect(small).toHaveLength(0);
  expect(leafMemory.take(10)).toEqual(new Uint8Array(10));
  expect([leafMemory.take(leafBytes), leafMemory.take(leafBytes)].map(isUsed)).toEqual([true, false]);
});
