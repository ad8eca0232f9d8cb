/**
 * Files that the adapter stores, read by us in few requests, and by an independent reader that
 * hashes each block itself.
 */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exporter } from 'ipfs-unixfs-exporter';
import { CID } from 'multiformats/cid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startNode, type RunningNode } from '../../../../testkit/node.ts';
import { cidBuilder, leafBytes, openFile, parseCid, type SizedCid } from '../../../../shared/ipfs/index.ts';
import type { PinningService } from '../../../backends/contract.ts';
import { kubo } from '../../../backends/kubo/kubo.ts';

const token = 't';
const long = process.env['SEALPIN_LONG'] === '1';
const { signal } = new AbortController();

let dir: string;
let node: RunningNode;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sealpin-reader-'));
  node = await startNode({ dir, token });
});
afterAll(async () => {
  await node.close();
  await rm(dir, { recursive: true, force: true });
});

/** Pieces that are never alike: the file's number, the piece's number, then the same bytes. */
function* pieces(size: number): Generator<Buffer> {
  for (let at = 0; at < size; at += leafBytes) {
    const piece = Buffer.alloc(Math.min(leafBytes, size - at), size & 0xff);
    piece.subarray(0, 16).fill(`${size}:${at}:`);
    yield piece;
  }
}

/** Imports a file while its leaves are read, and pins it. */
async function store(service: PinningService, file: Iterable<Buffer>): Promise<SizedCid> {
  const blocks = service.importBlocks(signal);
  const leaves: Buffer[] = [];
  const builder = cidBuilder({
    onLeaf: (cid) => blocks.write(parseCid(cid), leaves.shift() ?? new Uint8Array()),
    onNode: (cid, block) => blocks.write(parseCid(cid), block),
  });
  for (const leaf of file) {
    leaves.push(leaf);
    await builder.write(leaf);
  }
  const stored = await builder.finish();
  await blocks.finish();
  await service.pin(stored.cid, { bytes: stored.bytes, beside: false, signal });
  return stored;
}

function hasher() {
  const hash = createHash('sha256');
  return { add: (bytes: Uint8Array) => void hash.update(bytes), hex: () => hash.digest('hex') };
}

/** Blocks over HTTP, each hashed by the hash of its CID. */
const blockstore = {
  async *get(cid: CID) {
    const reply = await fetch(`${node.url}/api/v0/block/get?arg=${cid.toString()}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    });
    const block = new Uint8Array(await reply.arrayBuffer());
    if (!createHash('sha256').update(block).digest().equals(cid.multihash.digest))
      throw new Error(`a wrong block for ${cid.toString()}`);
    yield block;
  },
};

describe('a stored file', () => {
  const sizes = [0, 1, leafBytes - 1, leafBytes, leafBytes + 1, 40 * leafBytes, ...(long ? [1_181_116_007] : [])];
  test.each(sizes)(
    'S74: of %i bytes has our CID, and is read by ipfs-unixfs-exporter, and by us in at most 3 requests a GiB',
    async (size) => {
      let fetches = 0;
      const counted = ((...args: Parameters<typeof fetch>) => {
        fetches += 1;
        return fetch(...args);
      }) as typeof fetch;
      const service = kubo({
        id: 'kubo',
        pinName: 'sealpin:tested',
        url: node.url,
        headers: { authorization: `Bearer ${token}` },
        fetch: counted,
      });
      const expected = hasher();
      for (const piece of pieces(size)) expected.add(piece);
      const { cid, bytes } = await store(service, pieces(size));
      expect(bytes).toBe(size);
      const digest = expected.hex();

      fetches = 0;
      const file = await openFile(cid, [service]);
      expect(file.size).toBe(size);
      const ours = hasher();
      for await (const piece of file.read()) ours.add(piece);
      expect(ours.hex()).toBe(digest);
      expect(fetches).toBeLessThanOrEqual(size > 1024 * leafBytes ? 5 : 3);

      const theirs = hasher();
      const entry = await exporter(CID.parse(cid), blockstore);
      if (entry.type !== 'file' && entry.type !== 'raw') throw new Error(`it is a ${entry.type}`);
      for await (const piece of entry.content()) theirs.add(piece);
      expect(theirs.hex()).toBe(digest);
      expect(await service.unpin(cid, signal)).toBe('removed');
    },
  );

  test('a range of it takes one request for the root and one for its leaves', async () => {
    let fetches: string[] = [];
    const counted = ((url: string, init: RequestInit) => {
      fetches.push(new URL(url).searchParams.get('length') ?? 'block');
      return fetch(url, init);
    }) as unknown as typeof fetch;
    const service = kubo({
      pinName: 'sealpin:tested',
      id: 'kubo',
      url: node.url,
      headers: { authorization: `Bearer ${token}` },
      fetch: counted,
    });
    const { cid } = await store(service, pieces(10 * leafBytes));
    fetches = [];
    const file = await openFile(cid, [service]);
    const bytes = Buffer.from(await new Response(file.read(3 * leafBytes - 1, 4 * leafBytes + 5)).arrayBuffer());
    expect(
      bytes.equals(Buffer.concat([...pieces(10 * leafBytes)]).subarray(3 * leafBytes - 1, 4 * leafBytes + 5)),
    ).toBe(true);
    expect(fetches).toEqual(['block', String(3 * leafBytes)]);
  });
});
