import { describe, expect, it } from 'vitest';
import { cidBuilder, leafBytes, sha256, treeOf } from '../../ipfs/index.ts';
import vectors from './vectors/ipip-499.json' with { type: 'json' };

const zeros = new Uint8Array(leafBytes);

/** The digests of the leaves of a file of zeros. */
async function zeroDigests(bytes: number): Promise<Uint8Array> {
  const full = await sha256(zeros);
  const leaves = Math.max(1, Math.ceil(bytes / leafBytes));
  const digests = new Uint8Array(leaves * 32);
  for (let leaf = 0; leaf < leaves; leaf += 1) {
    const length = Math.min(leafBytes, bytes - leaf * leafBytes);
    digests.set(length === leafBytes ? full : await sha256(zeros.subarray(0, length)), leaf * 32);
  }
  return digests;
}

/** The same file by its bytes; the digest of a whole leaf is looked up. */
async function built(bytes: number): Promise<{ cid: string; nodes: string[] }> {
  const full = await sha256(zeros);
  const nodes: string[] = [];
  const builder = cidBuilder({
    digest: (block) => (block.length === leafBytes ? full : sha256(block)),
    onNode: (cid) => void nodes.push(cid),
  });
  for (let sent = 0; sent < bytes; sent += leafBytes) await builder.write(zeros.subarray(0, bytes - sent));
  return { cid: (await builder.finish()).cid, nodes };
}

describe('the tree above the digests of leaves', () => {
  it.each([
    0,
    1,
    leafBytes - 1,
    leafBytes,
    leafBytes + 1,
    174 * leafBytes,
    175 * leafBytes,
    1024 * leafBytes,
    1025 * leafBytes,
    1025 * leafBytes - 7,
  ])('has the root and the nodes that %i bytes have', async (bytes) => {
    const blocks: [cid: string, block: Uint8Array][] = [];
    const root = await treeOf(await zeroDigests(bytes), bytes, {
      onNode: (cid, block) => void blocks.push([cid.text, block]),
    });
    expect({ cid: root.text, nodes: blocks.map(([cid]) => cid) }).toEqual(await built(bytes));
    for (const [, block] of blocks) expect(block.length).toBeGreaterThan(0);
    if (blocks.length > 0) expect(blocks.at(-1)?.[0]).toBe(root.text);
  });

  it('is the one of other programs above 1,024 leaves', async () => {
    const bytes = 1024 * leafBytes + 1;
    expect((await treeOf(await zeroDigests(bytes), bytes)).text).toBe(vectors.zeros.cid);
  });

  it.each([
    ['none', 0, 0],
    ['too few', 1, leafBytes + 1],
    ['too many', 2, leafBytes],
    ['half a digest', 1.5, leafBytes],
  ])('takes as many digests as the file has leaves, not %s', async (_, leaves, bytes) => {
    await expect(treeOf(new Uint8Array(leaves * 32), bytes)).rejects.toThrow(TypeError);
  });
});
