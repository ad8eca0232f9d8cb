/** Leaves that are made of what a client sends. */
import { describe, expect, it } from 'vitest';
import { beginPayload, resumePayload } from '../../../shared/crypto/index.ts';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { encryptedLeaves, plainLeaves, type LeafSource } from '../../upload/leaf-source.ts';

async function encrypted(): Promise<LeafSource> {
  const { keys, state } = await beginPayload();
  return encryptedLeaves(await resumePayload(keys, state, { pieceBytes: leafBytes }));
}

const nothing = { offset: 0, rest: new Uint8Array(0), tail: new Uint8Array(0), beginning: 'other' } as const;

describe.each([
  ['plain', async () => plainLeaves(nothing, true), 0],
  ['encrypted', encrypted, 16_384 + 16],
])('%s', (_, open, most) => {
  it('as many bytes as fit make one leaf full, and leave little for the next one', async () => {
    const source = await open();
    for (const before of [0, 1, 16_384, 100_000, leafBytes - 17]) {
      // A read may give fewer bytes.
      expect(await source.write(new Uint8Array(Math.min(before, source.room() - 1)))).toEqual([]);
      const room = source.room();
      expect(room).toBeGreaterThan(0);
      expect(await source.write(new Uint8Array(room))).toHaveLength(1);
      const { rest, tail } = source.state();
      expect(rest.length).toBe(0);
      expect(tail.length).toBeLessThanOrEqual(most);
    }
  });
});

it('a whole leaf is passed on as it is, and any other bytes give their memory back', async () => {
  const source = plainLeaves(nothing, true);
  const leaf = new Uint8Array(leafBytes).fill(7);
  const [full] = await source.write(leaf);
  expect(full).toBe(leaf);
  expect(full).toHaveLength(leafBytes);
  const some = new Uint8Array(5).fill(8);
  expect(await source.write(some)).toEqual([]);
  expect(source.state().tail).toEqual(new Uint8Array(5).fill(8));
  const across = new Uint8Array(leafBytes).fill(9);
  expect((await source.write(across))[0]?.subarray(0, 6)).toEqual(Uint8Array.of(8, 8, 8, 8, 8, 9));
  expect(some.length).toBe(0);
  expect(across.length).toBe(0);
  expect(source.state().tail.length).toBe(5);
});

it('sealed bytes give their memory back', async () => {
  const source = await encrypted();
  const bytes = new Uint8Array(100_000);
  await source.write(bytes);
  expect(bytes.length).toBe(0);
});
