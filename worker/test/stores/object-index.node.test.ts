/**
 * The index of a file in a store: its bytes are those of `docs/object-stores.md`, and it is
 * believed only where its CID proves it.
 */
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { cidOf, encodeNode, leafBytes, parseCid, treeOf } from '../../../shared/ipfs/index.ts';
import { concat } from '../../../shared/streams/concat.ts';
import { first, flip } from '../../../testkit/present.ts';
import { decodeIndex, encodeIndex, indexOf } from '../../backends/objects/object-index.ts';

const sha = (bytes: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(bytes).digest());
const leafOf = (index: number, bytes: number): Uint8Array => new Uint8Array(bytes).fill(index);
const id = '000102030405060708090a0b0c0d0e0f';

/** A file by the profile of so many bytes. */
async function profiled(size: number) {
  const count = Math.max(1, Math.ceil(size / leafBytes));
  // Of a large file all whole leaves are the same: it takes a digest less each.
  const whole = sha(leafOf(0, leafBytes));
  const digestOf = (at: number): Uint8Array =>
    count > 100 && at < count - 1 ? whole : sha(leafOf(at, Math.min(leafBytes, size - at * leafBytes)));
  const digests = concat(...Array.from({ length: count }, (_, at) => digestOf(at)));
  const cid = (await treeOf(digests, size)).text;
  const objects = [{ n: 7, bytes: size }];
  return { cid, stored: await indexOf(cid, { id, size, objects, leaves: { digests }, blocks: new Map() }) };
}

/** A file of leaves of 3 bytes, the first of which comes twice. */
async function foreign() {
  const leaves = [leafOf(1, 3), leafOf(2, 3)];
  const cids = leaves.map((leaf) => cidOf('raw', sha(leaf)));
  const links = [...cids, first(cids)].map((cid) => ({ cid, fileBytes: 3, dagBytes: 3 }));
  const node = encodeNode(links);
  const cid = cidOf('dag-pb', sha(node)).text;
  const stored = await indexOf(cid, {
    id,
    size: 9,
    objects: [
      { n: 0, bytes: 4 },
      { n: 2, bytes: 2 },
    ],
    leaves: { digests: concat(...leaves.map(sha)), lengths: [3, 3] },
    blocks: new Map([
      [cid, node],
      ['another block', node],
    ]),
  });
  return { cid, cids, node, stored };
}

describe('an index', () => {
  it('of kind 1 has the bytes that the page gives it', async () => {
    const { stored } = await profiled(leafBytes + 1);
    const leaves = [sha(leafOf(0, leafBytes)), sha(leafOf(1, 1))].map((digest) => Buffer.from(digest).toString('hex'));
    expect(Buffer.from(encodeIndex(stored)).toString('hex')).toBe(
      [
        Buffer.from('sealpin').toString('hex'),
        '01',
        id,
        '0000000000100001',
        '00000001',
        '0000000700100001',
        ...leaves,
      ].join(''),
    );
  });

  it('of kind 2 has the bytes that the page gives it, and no node that nothing links to', async () => {
    const { stored, node } = await foreign();
    const leaves = [sha(leafOf(1, 3)), sha(leafOf(2, 3))].map(
      (digest) => `${Buffer.from(digest).toString('hex')}00000003`,
    );
    const length = node.length.toString(16).padStart(8, '0');
    expect(Buffer.from(encodeIndex(stored)).toString('hex')).toBe(
      [
        Buffer.from('sealpin').toString('hex'),
        '02',
        id,
        '0000000000000009',
        '00000002',
        '0000000000000004',
        '0000000200000002',
        '00000002',
        ...leaves,
        '00000001',
        length,
        Buffer.from(node).toString('hex'),
      ].join(''),
    );
  });

  it.each([0, 1, leafBytes, leafBytes + 1, 1100 * leafBytes + 5])('of %i bytes is read again', async (size) => {
    const { cid, stored } = await profiled(size);
    const index = await decodeIndex(cid, encodeIndex(stored));
    expect(index).toMatchObject({ id, size, objects: [{ n: 7, bytes: size }] });
    expect(index.rangesOf(parseCid(cid))).toEqual([{ start: 0, length: size }]);
    if (size > 1024 * leafBytes) {
      const [high, low] = [...index.blocks.keys()].map((text) => index.rangesOf(parseCid(text)));
      expect(high).toEqual([{ start: 0, length: 1024 * leafBytes }]);
      expect(low).toEqual([{ start: 1024 * leafBytes, length: 76 * leafBytes + 5 }]);
    }
  });

  it('of another shape says where each leaf is, and has its nodes', async () => {
    const { cid, cids, node, stored } = await foreign();
    const index = await decodeIndex(cid, encodeIndex(stored));
    expect(cids.map((each) => index.rangesOf(each))).toEqual([[{ start: 0, length: 3 }], [{ start: 3, length: 3 }]]);
    expect(index.blocks.get(cid)).toEqual(new Uint8Array(node));
    // What follows in the data as in the file is asked for at once; what comes twice is there once.
    const root = parseCid(cid);
    expect(index.rangesOf(root, 1, 4)).toEqual([{ start: 1, length: 4 }]);
    expect(index.rangesOf(root, 1, 7)).toEqual([
      { start: 1, length: 5 },
      { start: 0, length: 2 },
    ]);
    expect(index.rangesOf(cidOf('raw', sha(leafOf(3, 3))))).toBeUndefined();
  });

  it.each(['profiled', 'foreign'] as const)(
    'with any byte changed, cut off or added is refused, or names the same leaves: %s',
    async (kind) => {
      const { cid, stored } = kind === 'profiled' ? await profiled(3) : await foreign();
      const bytes = encodeIndex(stored);
      const before = await decodeIndex(cid, bytes);
      const refused = { code: 'content_mismatch' };
      // Where bytes lie is proven by what is read there.
      const unproven = (at: number) => at >= 8 && at < 24;
      for (let at = 0; at < bytes.length; at += 1) {
        const changed = bytes.slice();
        flip(changed, at);
        const read = decodeIndex(cid, changed).catch((error: unknown) => error);
        const isPlace = unproven(at) || ((at - 36) % 8 < 4 && at >= 36 && at < 36 + 8 * stored.objects.length);
        if (isPlace) expect(await read).toMatchObject({ size: before.size, leaves: before.leaves });
        else expect(await read, `byte ${at}`).toMatchObject(refused);
      }
      for (let length = 0; length < bytes.length; length += 1)
        await expect(decodeIndex(cid, bytes.slice(0, length))).rejects.toMatchObject(refused);
      await expect(decodeIndex(cid, concat(bytes, Uint8Array.of(0)))).rejects.toMatchObject(refused);
    },
  );

  it('of another file is refused', async () => {
    const { stored } = await profiled(3);
    const { cid } = await profiled(4);
    await expect(decodeIndex(cid, encodeIndex(stored))).rejects.toMatchObject({ code: 'content_mismatch' });
  });

  it('with more than 4 MiB of nodes cannot be stored', async () => {
    const { stored } = await foreign();
    const nodes = Array.from({ length: 3 }, () => new Uint8Array(1_500_000));
    expect(() => encodeIndex({ ...stored, nodes })).toThrow(/too many small blocks/);
  });
});
