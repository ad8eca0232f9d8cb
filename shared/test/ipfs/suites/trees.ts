import { cidBuilder, leafBytes, sha256, treeOf } from '../../../ipfs/index.ts';
import { equal, ok, type Tool } from '../../../../testkit/assertions.ts';
import { cidOfChunks, deterministic, pieces, randomBytes } from '../source.ts';
import vectors from '../vectors/ipip-499.json' with { type: 'json' };

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

const sizes = [
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
];

/**
 * From Kubo 0.42: ipfs add --only-hash --cid-version=1 --chunker=size-1048576
 * --max-file-links=1024, of zeros. Numbers from 2^31 to 2^32 need the fifth byte of a varint, and
 * more than 31 bits.
 */
const kuboRoots = [
  [2_147_483_648, 'bafybeieyiwtflptdh35ga5rvsber2dzcbc7cikzfdwjmndjifuq42d6yhe'],
  [3_221_225_473, 'bafybeiekao4qgwiljdcy55nwzmq4ovkngty3rmkttj6nvykm55n2phrmpq'],
  [4_294_967_295, 'bafybeiepcydp4kd63yey2toie3tigrwemrdp5g24rw44ftbpdtkwhcn7ky'],
] as const;

/** The CID of a file, by its bytes and by the digests of its leaves. */
export function trees(tool: Tool): void {
  for (const { profile, cid, seed, bytes, text } of vectors.files) {
    // 1 GiB of bytes is for Node (builder.node.test.ts); here such files are known by their
    // digests.
    if (profile !== 'unixfs-v1-2025' || (bytes ?? 0) > 64 * leafBytes) continue;
    tool.test(`S74: IPIP-499 ${profile}: ${text ?? `${bytes} bytes`} is ${cid}`, async () => {
      equal(await cidOfChunks(text === undefined ? deterministic(seed, bytes) : [new TextEncoder().encode(text)]), cid);
    });
  }

  tool.test('the CID of a stream does not depend on how the bytes are cut', async () => {
    const data = randomBytes(3 * leafBytes + 12_345);
    const whole = await cidOfChunks([data]);
    for (const size of [997, 65_536, leafBytes - 1, leafBytes + 1, 2 * leafBytes])
      equal(await cidOfChunks(pieces(data, size)), whole, `in pieces of ${size} bytes`);
  });

  for (const bytes of sizes)
    tool.test(`the digests of the leaves have the root and the nodes that ${bytes} bytes have`, async () => {
      const blocks: [cid: string, block: Uint8Array][] = [];
      const root = await treeOf(await zeroDigests(bytes), bytes, {
        onNode: (cid, block) => void blocks.push([cid.text, block]),
      });
      equal({ cid: root.text, nodes: blocks.map(([cid]) => cid) }, await built(bytes));
      for (const [cid, block] of blocks) ok(block.length > 0, `the node ${cid} has bytes`);
      if (blocks.length > 0) equal(blocks.at(-1)?.[0], root.text, 'the last node');
    });

  tool.test('the root is the one of other programs above 1,024 leaves', async () => {
    const bytes = 1024 * leafBytes + 1;
    equal((await treeOf(await zeroDigests(bytes), bytes)).text, vectors.zeros.cid);
  });

  for (const [bytes, cid] of kuboRoots)
    tool.test(`the root is the one of Kubo for ${bytes} bytes, each time`, async () => {
      const digests = await zeroDigests(bytes);
      for (let time = 0; time < 5; time += 1) equal((await treeOf(digests, bytes)).text, cid);
    });

  for (const [what, leaves, bytes] of [
    ['none', 0, 0],
    ['too few', 1, leafBytes + 1],
    ['too many', 2, leafBytes],
    ['half a digest', 1.5, leafBytes],
  ] as const)
    tool.test(`a tree takes as many digests as the file has leaves, not ${what}`, async () => {
      const error: unknown = await treeOf(new Uint8Array(leaves * 32), bytes).catch((thrown: unknown) => thrown);
      ok(error instanceof TypeError, `a TypeError, not ${String(error)}`);
    });
}
