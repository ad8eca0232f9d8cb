import { importBytes, importByteStream } from 'ipfs-unixfs-importer';
import { describe, expect, it } from 'vitest';
import { cidBuilder, leafBytes } from '../../ipfs/index.ts';
import { deterministic, randomBytes } from './source.ts';
import vectors from './vectors/ipip-499.json' with { type: 'json' };

const nowhere = { put: async (cid: unknown) => cid, get: undefined };

async function cidOf(chunks: Iterable<Uint8Array>): Promise<string> {
  const builder = cidBuilder();
  for (const chunk of chunks) await builder.write(chunk);
  return (await builder.finish()).cid;
}

describe('the CID of a stream', () => {
  for (const { profile, cid, seed, bytes, text } of vectors.files) {
    const data = () => (text === undefined ? deterministic(seed, bytes) : [new TextEncoder().encode(text)]);
    // 1 GiB is for Node: the same tree is walked below, in both, with leaves that are all the same.
    if ((bytes ?? 0) > 64 * leafBytes) continue;
    it(`S74: IPIP-499 ${profile}: ${text ?? `${bytes} bytes`} is ${cid}`, async () => {
      // The builder knows one profile; the vectors of the other keep an eye on the library that it is compared with.
      if (profile === 'unixfs-v1-2025') expect(await cidOf(data())).toBe(cid);
      const oracle = await importByteStream(data(), nowhere as never, { profile: profile as 'unixfs-v1-2025' });
      expect(oracle.cid.toString()).toBe(cid);
    });
  }

  it.each([0, 1, 255, leafBytes - 1, leafBytes, leafBytes + 1, 3 * leafBytes, 5 * leafBytes + 7])(
    'agrees with the library on %i bytes',
    async (bytes) => {
      const data = randomBytes(bytes);
      const oracle = await importBytes(data, nowhere as never, { profile: 'unixfs-v1-2025' });
      expect(await cidOf([data])).toBe(oracle.cid.toString());
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
    expect([bytes, leaves]).toEqual([1024 * leafBytes + 1, 1025]);
    expect(nodes.map(([, below]) => below)).toEqual([1024 * leafBytes, 1, 1024 * leafBytes + 1]);
    expect(cid).toBe(vectors.zeros.cid);
  });

  it('does not depend on how the bytes are cut', async () => {
    const data = randomBytes(3 * leafBytes + 12_345);
    const whole = await cidOf([data]);
    for (const size of [997, 65_536, leafBytes - 1, leafBytes + 1, 2 * leafBytes]) {
      const chunks = Array.from({ length: Math.ceil(data.length / size) }, (_, i) =>
        data.subarray(i * size, (i + 1) * size),
      );
      expect(await cidOf(chunks)).toBe(whole);
    }
  });

  it('has taken the bytes in when write resolves', async () => {
    const data = randomBytes(2 * leafBytes + 5);
    const expected = await cidOf([data]);
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
