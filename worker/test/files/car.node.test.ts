/**
 * A CAR as the body of an upload: the file is stored under the CID that it came with, or not at
 * all.
 */
import { encode } from '@ipld/dag-pb';
import { UnixFS } from 'ipfs-unixfs';
import { randomBytes } from 'node:crypto';
import { CID } from 'multiformats/cid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  carType,
  bytesOfCid,
  carHeader,
  carSection,
  cidOf,
  encodeNode,
  leafBytes,
  maxBlockBytes,
  maxLevels,
  sha256,
  treeOf,
  type Cid,
} from '../../../shared/ipfs/index.ts';
import { concat } from '../../../shared/streams/concat.ts';
import { kuboProgram, noKubo, startKubo } from '../../../testkit/programs/kubo.ts';
import { backendKind, rpcToken, startService, type Service } from '../../../testkit/service.ts';
import type { PinningService } from '../../backends/contract.ts';
import { kubo } from '../../backends/kubo/kubo.ts';
import { sendCar } from '../../upload/send-car.ts';
import { Semaphore } from '../../upload/semaphore.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { pinned } from '../stored-state.ts';
import { itemOf } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

const maxFileBytes = 32 * 2 ** 30;
type Block = { cid: Cid; bytes: Uint8Array };

async function blockOf(codec: Cid['codec'], bytes: Uint8Array): Promise<Block> {
  return { cid: cidOf(codec, await sha256(bytes)), bytes };
}

const leaf = (bytes: Uint8Array): Promise<Block> => blockOf('raw', bytes);

/** A node above blocks of so many bytes of the file. */
async function node(...below: readonly (Block & { fileBytes?: number })[]): Promise<Block & { fileBytes: number }> {
  const links = below.map(({ cid, bytes, fileBytes = bytes.length }) => ({ cid, fileBytes, dagBytes: bytes.length }));
  const fileBytes = links.reduce((sum, link) => sum + link.fileBytes, 0);
  return { ...(await blockOf('dag-pb', encodeNode(links))), fileBytes };
}

function car(blocks: readonly Block[], root?: Cid): Uint8Array<ArrayBuffer> {
  return concat(carHeader(root), ...blocks.flatMap(({ cid, bytes }) => [carSection(cid, bytes.length), bytes]));
}

/** The blocks of a file as Sealpin lays it out, each after those below it. */
async function blocksOf(file: Uint8Array): Promise<Block[]> {
  const leaves: Block[] = [];
  for (let offset = 0; offset === 0 || offset < file.length; offset += leafBytes)
    leaves.push(await leaf(file.subarray(offset, offset + leafBytes)));
  const nodes: Block[] = [];
  const digests = concat(...leaves.map(({ cid }) => cid.digest));
  await treeOf(digests, file.length, { onNode: (cid, bytes) => void nodes.push({ cid, bytes }) });
  return [...leaves, ...nodes];
}

let service: Service;
let call: Client;
beforeAll(async () => {
  service = await startService();
  call = client(service.url, (await service.account()).apiKey);
});
afterAll(() => service.close());

const store = (body: Uint8Array<ArrayBuffer>, query = ''): Promise<Response> =>
  call(`/v1/storage/plain${query}`, {
    method: 'POST',
    headers: { 'Content-Type': carType, 'Content-Disposition': 'attachment; filename="a file"' },
    body,
  });
type Stored = { fileId: string; cid: string };
const read = ({ fileId }: Stored): Promise<Buffer> => call.read(fileId);

describe('a CAR', () => {
  it.each(long ? [0, 1, leafBytes, leafBytes + 1, 65 * leafBytes + 5] : [0, leafBytes + 1])(
    'of a file of %i bytes is stored under the CID that the bytes have',
    async (size) => {
      const bytes = randomBytes(size);
      const blocks = await blocksOf(bytes);
      const root = itemOf(blocks, -1).cid;
      const file = await jsonOf<Stored>(
        store(car(blocks, size % 2 === 0 ? root : undefined), `?cid=${root.text}`),
        201,
      );
      expect(file).toMatchObject({
        cid: root.text,
        size,
        filename: 'a file',
        contentType: 'application/octet-stream',
        mode: 'plain',
      });
      expect(Buffer.compare(await read(file), bytes)).toBe(0);
      // The pins of its parts are released once the alarm has rung.
      await expect.poll(() => pinned(service)).toEqual([root.text]);
      expect((await call.ask('deleteFile', { fileId: file.fileId })).status).toBe(200);
      expect(await pinned(service)).toEqual([]);
    },
  );

  it('of a file in another layout keeps its CID, and a leaf that repeats counts each time', async () => {
    const [a, b] = [await leaf(randomBytes(100)), await leaf(randomBytes(70_000))];
    const inner = await node(a, b, a);
    const root = await node(inner, a);
    const file = await jsonOf<Stored>(store(car([a, b, a, inner, root])), 201);
    expect(file).toMatchObject({ cid: root.cid.text, size: 70_300 });
    expect(await read(file)).toEqual(Buffer.concat([a.bytes, b.bytes, a.bytes, a.bytes]));
    await call.ask('deleteFile', { fileId: file.fileId });
  });

  it('is stored with as many levels as can be read, and refused with more', async () => {
    const blocks: (Block & { fileBytes?: number })[] = [await leaf(randomBytes(10))];
    for (let levels = 0; levels < maxLevels; levels += 1) blocks.push(await node(itemOf(blocks, -1)));
    const file = await jsonOf<Stored>(store(car(blocks)), 201);
    expect(await read(file)).toEqual(itemOf(blocks, 0).bytes);
    await call.ask('deleteFile', { fileId: file.fileId });
    blocks.push(await node(itemOf(blocks, -1)));
    expect(await problemOf(store(car(blocks)))).toBe('400 invalid_request');
  });

  it('of a disk of zeros, or of a log with a leaf for each line, is stored', async () => {
    const empty = await leaf(Buffer.alloc(262_144));
    const disk = await node(...Array.from({ length: 1024 }, () => empty));
    const lines = await Promise.all(Array.from({ length: 1024 }, (_, line) => leaf(Buffer.from(`line ${line}\n`))));
    for (const [blocks, root] of [
      [[empty], disk],
      [lines, await node(...lines)],
    ] as const) {
      const file = await jsonOf<Stored>(store(car([...blocks, root])), 201);
      expect(file).toMatchObject({ cid: root.cid.text, size: root.fileBytes });
      await call.ask('deleteFile', { fileId: file.fileId });
    }
  });

  it('in encrypted mode is a file like any other', async () => {
    const body = car([await leaf(randomBytes(10))]);
    const file = await call.storeEncrypted(
      {},
      { headers: { 'Content-Type': carType, 'Content-Disposition': 'attachment; filename=x' }, body },
    );
    expect(await read(file)).toEqual(Buffer.from(body));
    await call.ask('deleteFile', { fileId: file.fileId });
  });
});

/** A section with a CID of any kind. */
const section = (cid: Uint8Array, bytes: Uint8Array): Uint8Array =>
  concat(Uint8Array.of(cid.length + bytes.length), cid, bytes);
/** A node whose links are not those that Sealpin writes. */
const pbNode = (data: UnixFS, ...below: readonly Block[]): Promise<Block> =>
  blockOf(
    'dag-pb',
    encode({
      Data: data.marshal(),
      Links: below.map(({ cid, bytes }, index) => ({
        Name: data.isDirectory() ? `file ${index}` : '',
        Tsize: bytes.length,
        Hash: CID.decode(bytesOfCid(cid)),
      })),
    }),
  );
const small = Uint8Array.of(1, 2, 3);

describe('a CAR is refused, and nothing is kept,', () => {
  it.each<[string, () => Promise<Uint8Array<ArrayBuffer>>, string?]>([
    ['that is empty', async () => new Uint8Array(0)],
    ['without a block', async () => car([])],
    ['that is none', async () => randomBytes(1000)],
    ['of version 2', async () => concat(Uint8Array.of(0x0a, 0xa1, 0x67), Buffer.from('version'), Uint8Array.of(2))],
    ['that is cut off', async () => car(await blocksOf(randomBytes(3000))).subarray(0, 2000)],
    ['with a byte at its end', async () => concat(car(await blocksOf(randomBytes(3000))), small)],
    ['with a length that does not end', async () => concat(carHeader(), new Uint8Array(40).fill(0xff))],
    ['with a block that is too large', async () => car([await leaf(new Uint8Array(maxBlockBytes + 1))])],
    [
      'with bytes that are not those of a CID',
      async () => car([{ cid: (await leaf(randomBytes(9))).cid, bytes: randomBytes(9) }]),
      '422 cid_mismatch',
    ],
    ['with two files', async () => car([await leaf(randomBytes(9)), await leaf(randomBytes(9))])],
    [
      'with a root in its header that is not its last block',
      async () => {
        const [below, other] = [await leaf(randomBytes(9)), await leaf(randomBytes(9))];
        return car([below, await node(below)], other.cid);
      },
    ],
    [
      'with a block that comes after one that links to it',
      async () => {
        const below = await leaf(randomBytes(9));
        return car([await node(below), below]);
      },
    ],
    [
      'without one of its leaves',
      async () => {
        const [first, second] = [await leaf(randomBytes(9)), await leaf(randomBytes(9))];
        return car([first, await node(first, second)]);
      },
    ],
    [
      'with a wrong size in a node',
      async () => {
        const below = await leaf(randomBytes(9));
        return car([below, await node({ ...below, fileBytes: 10 })]);
      },
    ],
    [
      'of a directory',
      async () => {
        const below = await leaf(randomBytes(9));
        return car([below, await pbNode(new UnixFS({ type: 'directory' }), below)]);
      },
    ],
    [
      'with bytes of the file in a node',
      async () => {
        const below = await leaf(randomBytes(9));
        const data = new UnixFS({ type: 'file', data: small, blockSizes: [9n] });
        return car([below, await pbNode(data, below)]);
      },
    ],
    ['with a node that is none', async () => car([await blockOf('dag-pb', randomBytes(50))])],
    [
      'with a CIDv0',
      async () => concat(carHeader(), section(concat(Uint8Array.of(0x12, 0x20), await sha256(small)), small)),
    ],
    [
      'with an identity CID',
      async () => concat(carHeader(), section(concat(Uint8Array.of(1, 0x55, 0, 40), new Uint8Array(40)), small)),
    ],
    [
      'of a file that is read one byte at a time',
      async () => {
        const blocks: (Block & { fileBytes?: number })[] = [await leaf(Uint8Array.of(1))];
        for (let depth = 0; depth < 2; depth += 1)
          blocks.push(await node(...Array.from({ length: 40 }, () => itemOf(blocks, -1))));
        return car(blocks);
      },
    ],
    [
      'of a file of more bytes than there may be',
      async () => {
        const blocks: (Block & { fileBytes?: number })[] = [await leaf(new Uint8Array(leafBytes))];
        for (let depth = 0; depth < 4; depth += 1)
          blocks.push(await node(...Array.from({ length: 16 }, () => itemOf(blocks, -1))));
        return car(blocks);
      },
      '413 too_large',
    ],
  ])('%s', async (_, make, problem = '400 invalid_request') => {
    expect(await problemOf(store(await make()))).toEqual(problem);
    expect(await call.listFiles()).toMatchObject({ files: [] });
    await expect.poll(() => pinned(service)).toEqual([]);
  });

  it('whose root is not the CID that was announced', async () => {
    const [block, other] = [await leaf(randomBytes(9)), await leaf(randomBytes(9))];
    expect(await problemOf(store(car([block]), `?cid=${other.cid.text}`))).toBe('422 cid_mismatch');
    expect(await pinned(service)).toEqual([]);
  });
});

inCi('at a real Kubo a CAR is stored under its CID, and a block with other bytes is found', async (context) => {
  if (backendKind !== 'kubo') context.skip(`not with ${backendKind}`);
  if (kuboProgram() === undefined) context.skip(noKubo);
  const real = await startKubo({ token: rpcToken });
  const beside = await startService({ node: real });
  try {
    const owner = client(beside.url, (await beside.account()).apiKey);
    const send = (body: Uint8Array<ArrayBuffer>): Promise<Response> =>
      owner.ask('storePlain', {}, { headers: { 'Content-Type': carType }, body });
    const blocks = await blocksOf(randomBytes(17 * leafBytes));
    const file = await jsonOf<Stored>(send(car(blocks)), 201);
    expect(await real.ipfs('pin', 'ls', '--type=recursive', '--quiet', file.cid)).toContain(file.cid);
    const wrong = blocks.map((block, index) => (index === 3 ? { ...block, bytes: randomBytes(leafBytes) } : block));
    expect(await problemOf(send(car(wrong)))).toBe('422 cid_mismatch');
  } finally {
    await beside.close();
    await real.close();
  }
});

it('the Worker hashes the blocks where the service does not promise to', async () => {
  const { signal } = new AbortController();
  const headers = { Authorization: `Bearer ${rpcToken}` };
  const node = kubo({ id: 'node', url: service.node, headers, fetch, pinName: 'sealpin:test' });
  let written = 0;
  const careless: PinningService = {
    ...node,
    verifiesImports: false,
    importBlocks: () => ({
      write: async () => void (written += 1),
      finish: async () => undefined,
      abort: () => undefined,
    }),
  };
  const options = { signal, keep: async () => undefined, permits: new Semaphore(1), now: Date.now, maxFileBytes };
  const send = (service: PinningService, block: Block) =>
    sendCar(new Blob([car([block])]).stream(), { ...options, service });
  const right = await leaf(randomBytes(9));
  const wrong = { ...right, bytes: randomBytes(9) };
  await expect(send(careless, wrong)).rejects.toMatchObject({ code: 'cid_mismatch' });
  expect(written).toBe(0);
  expect(await send(careless, right)).toMatchObject({ cid: right.cid.text, bytes: 9 });
  expect(written).toBe(1);
});
