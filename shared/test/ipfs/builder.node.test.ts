import { createCipheriv, createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { cidBuilder, leafBytes } from '../../ipfs/index.ts';
import vectors from './vectors/ipip-499.json' with { type: 'json' };

describe('the CID of a long stream', () => {
  it('S74: IPIP-499 unixfs-v1-2025: 1 GiB fills one node, one byte more begins another', async () => {
    const [full, over] = vectors.files.filter((vector) => vector.seed === 'v1-2025-seed').map((vector) => ({ ...vector, builder: cidBuilder() }));
    const cipher = createCipheriv('chacha20', createHash('sha256').update('v1-2025-seed').digest(), Buffer.alloc(16));
    const zeros = Buffer.alloc(leafBytes);
    for (let i = 0; i < 1024; i += 1) {
      const piece = cipher.update(zeros);
      await Promise.all([full!.builder.write(piece), over!.builder.write(piece)]);
    }
    await over!.builder.write(cipher.update(zeros.subarray(0, 1)));
    expect(await full!.builder.finish()).toEqual({ cid: full!.cid, bytes: full!.bytes });
    expect(await over!.builder.finish()).toEqual({ cid: over!.cid, bytes: over!.bytes });
  });
});
