/**
 * The cases of gateway-conformance (https://github.com/ipfs/gateway-conformance, 0.13.2) that are
 * about roots of files and blocks, with files of our own. worker/README.md lists those that are
 * about something else.
 */
import { CarBlockIterator } from '@ipld/car/iterator';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  carHeader,
  carSection,
  carType,
  cidOf,
  encodeNode,
  fileFromCar,
  sha256,
} from '../../../../shared/ipfs/index.ts';
import { concat } from '../../../../shared/streams/concat.ts';
import { sharedService, withSettings, type Service } from '../../../../testkit/service.ts';
import { bytesOf, client, problemOf } from '../../../../testkit/api-client.ts';
import { newOwner } from '../../stored-state.ts';
import { present } from '../../../../testkit/present.ts';

const text = 'one block\n';
/**
 * A file whose blocks are smaller than ours, as another program made it: four of 256 bytes and one
 * of 2.
 */
const chunked = new TextEncoder().encode('abcdefgh'.repeat(129).slice(0, 1026)).map((byte, at) => byte ^ (at >> 8));
const chunkBytes = 256;

let service: Service;
let small: string;
let file: string;
let leaves: string[];

beforeAll(async () => {
  service = await sharedService();
  const { call } = await newOwner(service);
  ({ cid: small } = await call.store('plain', text));
  const chunks = Array.from({ length: 5 }, (_, index) => chunked.slice(index * chunkBytes, (index + 1) * chunkBytes));
  const cids = await Promise.all(chunks.map(async (chunk) => cidOf('raw', await sha256(chunk))));
  const links = cids.map((cid, index) => ({
    cid,
    fileBytes: present(chunks[index]).length,
    dagBytes: present(chunks[index]).length,
  }));
  const node = encodeNode(links);
  const root = cidOf('dag-pb', await sha256(node));
  const sections = [...cids.map((cid, index) => [cid, present(chunks[index])] as const), [root, node] as const];
  const car = concat(carHeader(root), ...sections.flatMap(([cid, bytes]) => [carSection(cid, bytes.length), bytes]));
  const stored = await call.storePlain(
    {},
    { headers: { 'Content-Type': carType, 'Content-Disposition': 'attachment; filename="chunked"' }, body: car },
  );
  file = stored.cid;
  leaves = cids.map((cid) => cid.text);
});

const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${service.url}/ipfs/${path}`, { headers });
const car = (parameters: string) => `application/vnd.ipld.car; version=1; ${parameters}`;

describe('a raw block', () => {
  const raw = { Accept: 'application/vnd.ipld.raw' };

  test('has its type, its length and its bytes, and is not a page', async () => {
    const answer = await get(small, raw);
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'application/vnd.ipld.raw',
      'content-length': String(text.length),
      'content-disposition': expect.stringMatching(/^attachment;/),
      'x-content-type-options': 'nosniff',
      'x-ipfs-path': `/ipfs/${small}`,
      'x-ipfs-roots': small,
      etag: expect.stringMatching(/^".+"$/),
    });
    expect(await answer.text()).toBe(text);
  });

  test('is downloaded under the name that is asked for', async () => {
    const answer = await get(`${small}?filename=foobar.bin`, raw);
    expect(answer.headers.get('content-disposition')).toMatch(/^attachment;.*filename="foobar\.bin"/);
    await answer.body?.cancel();
  });

  test('may be kept for ever by who has read it', async () => {
    const answer = await get(small, raw);
    const directives = new Map(
      (answer.headers.get('cache-control') ?? '').split(',').map((each) => {
        const [name = '', value = ''] = each.trim().split('=');
        return [name, value];
      }),
    );
    expect(directives.has('public')).toBe(true);
    expect(directives.has('immutable')).toBe(true);
    // 336 days, which the specification of gateways names.
    expect(Number(directives.get('max-age'))).toBeGreaterThanOrEqual(29_030_400);
    await answer.body?.cancel();
  });

  test('is in part where a range is asked for, and whole where several are, as HTTP allows', async () => {
    for (const [range, status, contentRange, text] of [
      ['bytes=2-4', 206, 'bytes 2-4/10', 'e b'],
      ['bytes=2-4, 6-7', 200, null, 'one block\n'],
    ] as const) {
      const answer = await get(small, { ...raw, Range: range });
      expect(answer.status).toBe(status);
      expect(answer.headers.get('content-range')).toBe(contentRange);
      expect(await answer.text()).toBe(text);
    }
  });
});

test('the identity CID with which clients look for gateways is answered as a raw block only', async () => {
  const block = await get('bafkqaaa?format=raw');
  expect({ status: block.status, text: await block.text() }).toEqual({ status: 200, text: '' });
  for (const path of ['bafkqaaa', 'bafkqaaa?format=car']) expect(await problemOf(get(path))).toBe('400 invalid_cid');
});

describe('a CAR', () => {
  test.each([
    ['the middle to the end', '512:*', [2, 3, 4]],
    ['a middle', '512:1023', [2, 3]],
    ['a middle with a negative end', '512:-256', [2, 3]],
    ['an end', '-5:*', [3, 4]],
    ['more than all, from the end', '-9999:*', [0, 1, 2, 3, 4]],
    ['more than all before an end', '-9999:-3', [0, 1, 2, 3]],
    ['the first byte', '0:0', [0]],
  ])('of %s has the blocks for it and no others, in order', async (_, bytes, wanted) => {
    const query = `dag-scope=entity&entity-bytes=${bytes}`;
    for (const asked of [get(`${file}?format=car&${query}`), get(`${file}?${query}`, { Accept: carType })]) {
      const answer = await asked;
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toContain(carType);
      expect(answer.headers.get('content-disposition')).toMatch(/^attachment;.*filename="[^"]+\.car"/);
      // It is streamed, so no range of it can be given.
      expect(answer.headers.get('content-length')).toBe(null);
      expect(answer.headers.get('accept-ranges')).toBe('none');
      const blocks: string[] = [];
      for await (const { cid } of await CarBlockIterator.fromBytes(await bytesOf(answer))) blocks.push(cid.toString());
      expect(blocks).toEqual([file, ...wanted.map((index) => leaves[index])]);
    }
  });
});

describe('the form of a response', () => {
  test.each([
    ['raw by Accept', '', 'application/vnd.ipld.raw', 'application/vnd.ipld.raw'],
    ['format=raw over Accept', '?format=raw', car('order=dfs; dups=n'), 'application/vnd.ipld.raw'],
    ['format=car over Accept', '?format=car', 'application/vnd.ipld.raw', car('order=dfs; dups=y')],
    ['format=car with order and dups of Accept', '?format=car', car('order=dfs; dups=n'), car('order=dfs; dups=n')],
    ['car-order=dfs over Accept', '?format=car&car-order=dfs', car('order=unk; dups=n'), car('order=dfs; dups=n')],
    ['car-dups=y over Accept', '?format=car&car-dups=y', car('order=dfs; dups=n'), car('order=dfs; dups=y')],
    ['order=unk', '', car('order=unk'), car('order=dfs; dups=y')],
  ])('%s', async (_, query, accept, type) => {
    const answer = await get(`${small}${query}`, { Accept: accept });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toEqual(type);
    const body = type.endsWith('raw')
      ? await answer.text()
      : await new Response(fileFromCar(small, answer.body as never) as never).text();
    expect(body).toBe(text);
  });

  test.each([
    ['?format=dag-json', '*/*'],
    ['?format=dag-cbor', '*/*'],
    ['', 'application/vnd.ipld.dag-json'],
    ['', 'application/vnd.ipld.dag-cbor'],
  ])('%s%s would be a conversion, and is refused', async (query, accept) => {
    expect(await problemOf(get(`${file}${query}`, { Accept: accept }))).toBe('406 not_acceptable');
  });
});

test('a service whose operator turned the gateway off serves its files to their owners alone', async () => {
  const { url, account } = await sharedService();
  const headers = withSettings({ PUBLIC_GATEWAY: 'off' });
  const call = client(url, (await account()).apiKey, headers);
  const stored = await call.store('plain', text);
  for (const path of [stored.cid, `${stored.cid}?format=raw`, 'bafkqaaa?format=raw'])
    expect(await problemOf(fetch(`${url}/ipfs/${path}`, { headers }))).toBe('404 not_found');
  const own = await call.ask('getFile', { fileId: stored.fileId }, { headers: { Accept: 'application/octet-stream' } });
  expect({ status: own.status, text: await own.text() }).toEqual({ status: 200, text });
});
