import { importBytes, importByteStream } from 'ipfs-unixfs-importer';
import { describe, expect, it } from 'vitest';
import { cidBuilder, leafBytes } from '../../ipfs/index.ts';
import { cidOfChunks, deterministic, randomBytes } from './source.ts';
import vectors from './vectors/ipip-499.json' with { type: 'json' };

const nowhere = { put: async (cid: unknown) => cid, get: undefined };

describe('the CID of a stream', () => {
  for (const { profile, cid, seed, bytes, text } of vectors.files) {
    const data = () => (text === undefined ? deterministic(seed, bytes) : [new TextEncoder().encode(text)]);
    // 1 GiB is for Node: the same tree is walked below, in both, with leaves that are all the same.
    if ((bytes ?? 0) > 64 * leafBytes) continue;
    // What the builder is compared with below; the builder itself, which knows one profile, is
    // tried by the suite `trees`.
    it(`S74: the library gives ${text ?? `${bytes} bytes`} of ${profile} the CID ${cid}`, async () => {
      const oracle = await importByteStream(data(), nowhere as never, { profile: profile as 'unixfs-v1-2025' });
      expect(oracle.cid.toString()).toBe(cid);
    });
  }

  it.each([0, 1, 255, leafBytes - 1, leafBytes, leafBytes + 1, 3 * leafBytes, 5 * leafBytes + 7])(
    'agrees with the library on %i bytes',
    async (bytes) => {
      const data = randomBytes(bytes);
      const oracle = await importBytes(data, nowhere as never, { profile: 'unixfs-v1-2025' });
      expect(await cidOfChunks([data])).toBe(oracle.cid.toString());
    },
  );

  it('agrees with the library above 1,024 leaves, the last of them short', async () => {
    // The digest of a leaf that was seen before is looked up: what counts here is the tree.
    const zeros = new Uint8Array(leafBytes);
    const zeroDigest = new Uint8Array(await crypto.subtle.digest('SHA-256', zeros));
    const digest = async (block: Uint8Array) =>
      block === zeros
        ? zeroDigest
        : new Uint8Array(await crypto.subtle.digest('SHA-256', block as Uint8Array<ArrayBuffer>));
    const nodes: [bytes: number, below: number][] = [];
    let leaves = 0;
    const builder = cidBuilder({
      digest: (block) => digest(block.length === leafBytes ? zeros : block),
      onNode: (_, block, fileBytes) => void nodes.push([block.length, fileBytes]),
      onLeaf: () => void (leaves += 1),
    });
    for (let i = 0; i < 1024; i += 1) await builder.write(zeros);
    await builder.write(new Uint8Array(1));
    const { cid, bytes } = await builder.finish();
    expect({ bytes, leaves }).toEqual({ bytes: 1024 * leafBytes + 1, leaves: 1025 });
    expect(nodes.map(([, below]) => below)).toEqual([1024 * leafBytes, 1, 1024 * leafBytes + 1]);
    expect(cid).toBe(vectors.zeros.cid);
  });

  it('has taken the bytes in when write resolves', async () => {
    const data = randomBytes(2 * leafBytes + 5);
    const expected = await cidOfChunks([data]);
    const builder = cidBuilder();
    await builder.write(data);
    data.fill(0);
    expect((await builder.finish()).cid).toBe(expected);
  });

  it('fails with what a callback throws', async () => {
    const builder = cidBuilder({
      onLeaf() {
        throw new Error('no room');
      },
    });
    await builder.write(new Uint8Array(1));
    await expect(builder.finish()).rejects.toThrow('no room');
  });
});
