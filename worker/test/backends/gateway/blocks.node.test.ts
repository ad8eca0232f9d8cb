/** `/ipfs/:cid` for clients that read a file block by block, each by its own CID. */
import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  carHeader,
  carSection,
  carType,
  cidOf,
  decodeNode,
  encodeNode,
  leafBytes,
  openFile,
  readBlock,
  sha256,
  type BlockSource,
  type Cid,
  type Link,
} from '../../../../shared/ipfs/index.ts';
import { concat } from '../../../../shared/streams/concat.ts';
import { blockShardName, blockShardNames } from '../../../objects/pin/block-roots.ts';
import { shardName } from '../../../objects/pin/shard-names.ts';
import { bytesOf, problemOf, client } from '../../../../testkit/api-client.ts';
import { adminToken, sharedService, type Service } from '../../../../testkit/service.ts';
import { newOwner, pinObject, settle, shardObject, sweep, type Owner } from '../../stored-state.ts';

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await sharedService();
  owner = await newOwner(service);
});

const get = (cid: string, query = 'format=raw', headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${service.url}/ipfs/${cid}?${query}`, { headers });

/** The service as a client sees it that asks for single blocks and nothing else. */
const blocks = (): BlockSource => ({ id: 'blocks', block: (cid) => bytesOf(get(cid)) });
const read = async (cid: string): Promise<Buffer> =>
  Buffer.from(await new Response((await openFile(cid, [blocks()])).read()).arrayBuffer());
const leavesOf = async (cid: string): Promise<string[]> =>
  decodeNode(await readBlock(cid, [blocks()]), cid).map((link) => link.cid.text);

/** Counts the rows of all objects for blocks below a root. */
async function rowsBelow(root: string): Promise<number> {
  const rows = await Promise.all(blockShardNames.map((name) => shardObject(service, name).rows('block_below')));
  return rows.flat().filter((row) => row['root'] === root).length;
}

/** A CAR with two levels of nodes, whose root and one of its blocks are kept by the same object. */
async function deepCar(): Promise<{ root: Cid; nodes: Cid[]; leaves: Cid[]; body: Uint8Array<ArrayBuffer> }> {
  for (;;) {
    const blocks: { cid: Cid; bytes: Uint8Array }[] = [];
    const add = async (codec: Cid['codec'], bytes: Uint8Array, fileBytes: number): Promise<Link> => {
      const cid = cidOf(codec, await sha256(bytes));
      blocks.push({ cid, bytes });
      return { cid, fileBytes, dagBytes: bytes.length };
    };
    const leaf = () => add('raw', randomBytes(5), 5);
    const node = (...links: Link[]) => add('dag-pb', encodeNode(links), 5 * links.length);
    const nodes = [await node(await leaf(), await leaf()), await node(await leaf(), await leaf())];
    const links = nodes.map((link) => ({ ...link, fileBytes: 10 }));
    const { cid: root } = await add('dag-pb', encodeNode(links), 20);
    const leaves = blocks.map(({ cid }) => cid).filter(({ codec }) => codec === 'raw');
    const shards = await Promise.all(
      [...nodes.map(({ cid }) => cid), ...leaves].map(({ text }) => blockShardName(text)),
    );
    if (!shards.includes(await shardName(root.text))) continue;
    const sections = blocks.flatMap(({ cid, bytes }) => [carSection(cid, bytes.length), bytes]);
    return { root, nodes: nodes.map(({ cid }) => cid), leaves, body: concat(carHeader(root), ...sections) };
  }
}

describe('a file of several blocks', () => {
  test('has its rows soon after the upload, without a request', async () => {
    const { cid } = await owner.call.store('plain', randomBytes(2 * leafBytes));
    await expect.poll(() => rowsBelow(cid)).toBe(2);
  });

  test.each(['plain', 'encrypted'] as const)('is read block by block in mode %s', async (mode) => {
    const bytes = randomBytes(2 * leafBytes + 500);
    const { cid } = await owner.call.store(mode, bytes);
    const whole = Buffer.from(await bytesOf(get(cid, '')));
    expect(await read(cid)).toEqual(whole);
    const [, second = ''] = await leavesOf(cid);
    // A leaf is a file of its own, with every form and header of one.
    const range = await bytesOf(get(second, '', { Range: 'bytes=1-2' }));
    expect(range).toEqual(whole.subarray(leafBytes + 1, leafBytes + 3));
    const answer = await get(second, 'format=car', { Origin: 'https://page.example' });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('access-control-allow-origin')).toBe('*');
    await answer.body?.cancel();
  });

  test('has blocks that are served though nobody asked for the node above them', async () => {
    const bytes = randomBytes(leafBytes + 1);
    const { cid } = await owner.call.store('plain', bytes);
    const leaf = cidOf('raw', await sha256(bytes.subarray(leafBytes))).text;
    await settle(service, cid);
    expect(await bytesOf(get(leaf))).toEqual(bytes.subarray(leafBytes));
  });

  test('has blocks below nodes of any depth, also those whose object is that of the root', async () => {
    const { root, nodes, leaves, body } = await deepCar();
    const headers = { 'Content-Type': carType };
    const { cid } = await owner.call.storePlain({}, { headers, body });
    expect(cid).toBe(root.text);
    await settle(service, cid);
    // A node that is read makes what is below it known.
    for (const below of [...leaves, ...nodes]) expect((await get(below.text)).status, below.text).toBe(200);
  });

  test('has no row left of its blocks when it is deleted', async () => {
    const file = await owner.call.store('plain', randomBytes(leafBytes + 7));
    await settle(service, file.cid);
    expect(await rowsBelow(file.cid)).toBe(2);
    expect((await owner.call.ask('deleteFile', { fileId: file.fileId })).status).toBe(200);
    await sweep(service, [owner], [file.cid]);
    expect(await rowsBelow(file.cid)).toBe(0);
    const roots = await (await pinObject(service, file.cid)).rows('block_index');
    expect(roots.filter(({ root }) => root === file.cid)).toEqual([]);
  });

  test('keeps the rows of its blocks while somebody else has stored the same', async () => {
    const bytes = randomBytes(leafBytes + 7);
    const file = await owner.call.store('plain', bytes);
    await owner.call.store('plain', bytes);
    await settle(service, file.cid);
    expect((await owner.call.ask('deleteFile', { fileId: file.fileId })).status).toBe(200);
    await sweep(service, [owner], [file.cid]);
    expect(await rowsBelow(file.cid)).toBe(2);
  });

  test('takes its blocks with it when it is deleted, but those that another file needs', async () => {
    const [common, own, others] = [randomBytes(leafBytes), randomBytes(9), randomBytes(9)];
    const file = await owner.call.store('plain', Buffer.concat([common, own]));
    const other = await owner.call.store('plain', Buffer.concat([common, others]));
    const [shared = '', alone = ''] = await leavesOf(file.cid);
    await leavesOf(other.cid);
    expect((await owner.call.ask('deleteFile', { fileId: file.fileId })).status).toBe(200);
    await sweep(service, [owner], [file.cid]);
    expect(await problemOf(get(alone))).toBe('404 not_found');
    expect((await get(shared)).status).toBe(200);
    expect(await read(other.cid)).toEqual(Buffer.concat([common, others]));
  });

  test('has blocks that are denied with it', async () => {
    const bytes = randomBytes(leafBytes + 9);
    const { cid } = await owner.call.store('plain', bytes);
    const [, last = ''] = await leavesOf(cid);
    await client(service.url, adminToken).denyCid({ cid });
    expect(await problemOf(get(last))).toBe('410 content_denied');
  });
});
