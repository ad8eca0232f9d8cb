/** Pieces of one size, from bytes that come in any. */
import { expect, it } from 'vitest';
import type { Memory } from '../../streams/buffer-pool.ts';
import { concat } from '../../streams/concat.ts';
import { Pieces } from '../../streams/pieces.ts';

const pieceBytes = 10;

it.each([[[3, 4, 3]], [[1, 1, 1, 20]], [[25, 5]], [[10, 10]], [[9, 2, 18, 0, 1]], [[31]]])(
  'writes of %j bytes become pieces and a rest, in order',
  (lengths) => {
    const pieces = new Pieces(pieceBytes);
    const full: Uint8Array[] = [];
    let next = 1;
    for (const length of lengths) {
      const room = pieces.append(length);
      // Out of order, as chunks are sealed.
      for (let offset = length - 1; offset >= 0; offset -= 1) room.set(Uint8Array.of(next + offset), offset);
      next += length;
      full.push(...room.full());
    }
    for (const piece of full) expect(piece).toHaveLength(pieceBytes);
    expect(pieces.rest().length).toBeLessThan(pieceBytes);
    expect([...concat(...full, pieces.rest())]).toEqual(Array.from({ length: next - 1 }, (_, index) => index + 1));
  },
);

it('the beginning of a piece takes at most twice the memory of its bytes, and what it had before is given back', () => {
  const returned: number[] = [];
  const counting: Memory = {
    take: (bytes) => new Uint8Array(bytes),
    giveBack: ({ buffer }) => void returned.push(buffer.byteLength),
  };
  const pieces = new Pieces(1000, counting);
  const memory = (): number => pieces.rest().buffer.byteLength;
  const write = (bytes: number): number => pieces.append(bytes).full().length;
  expect(memory()).toBe(0);
  expect(write(1020)).toBe(1);
  expect(memory()).toBe(20);
  write(1);
  expect(memory()).toBe(40);
  write(10);
  expect(memory()).toBe(40);
  write(600);
  expect(memory()).toBe(631);
  write(1);
  expect(memory()).toBe(1000);
  expect(write(368)).toBe(1);
  expect(memory()).toBe(0);
  expect(returned).toEqual([20, 40, 631]);
});
