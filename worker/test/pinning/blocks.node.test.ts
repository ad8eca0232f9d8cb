/** `/ipfs/:cid` for clients that read a file block by block, each by its own CID. */
import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  cidOf,
  decodeNode,
  leafBytes,
  openFile,
  readBlock,
  sha256,
  type BlockSource,
} from '../../../shared/ipfs/index.ts';
import { bytesOf, problemOf } from '../client.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { newOwner, sweep, type Owner } from '../stored-state.ts';

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

describe('a file of several blocks', () => {
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
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, '*']);
    await answer.body?.cancel();
  });

  test('has blocks that are not known before the node above them was asked for', async () => {
    const bytes = randomBytes(leafBytes + 1);
    const { cid } = await owner.call.store('plain', bytes);
    const leaf = cidOf('raw', await sha256(bytes.subarray(leafBytes))).text;
    expect(await problemOf(get(leaf))).toEqual([404, 'not_found']);
    await (await get(cid)).arrayBuffer();
    expect((await get(leaf)).status).toBe(200);
  });

  test('takes its blocks with it when it is deleted, but those that another file needs', async () => {
    const [common, own, others] = [randomBytes(leafBytes), randomBytes(9), randomBytes(9)];
    const file = await owner.call.store('plain', Buffer.concat([common, own]));
    const other = await owner.call.store('plain', Buffer.concat([common, others]));
    const [shared = '', alone = ''] = await leavesOf(file.cid);
    await leavesOf(other.cid);
    expect((await owner.call(`/v1/storage/${file.fileId}`, { method: 'DELETE' })).status).toBe(200);
    await sweep(service, [owner], [file.cid]);
    expect(await problemOf(get(alone))).toEqual([404, 'not_found']);
    expect((await get(shared)).status).toBe(200);
    expect(await read(other.cid)).toEqual(Buffer.concat([common, others]));
  });

  test('has blocks that are denied with it', async () => {
    const bytes = randomBytes(leafBytes + 9);
    const { cid } = await owner.call.store('plain', bytes);
    const [, last = ''] = await leavesOf(cid);
    const deny = { method: 'PUT', headers: { Authorization: `Bearer ${adminToken}` } };
    expect((await fetch(`${service.url}/v1/denylist/${cid}`, deny)).status).toBe(200);
    expect(await problemOf(get(last))).toEqual([410, 'content_denied']);
  });
});
