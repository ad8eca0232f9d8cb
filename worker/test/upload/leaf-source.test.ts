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
  it('as many bytes as there is room for make one leaf full, and leave little for the next one', async () => {
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
