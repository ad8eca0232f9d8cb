/**
 * `/ipfs/:cid` clause by clause against the trustless gateway specification
 * (https://specs.ipfs.tech/http-gateways/trustless-gateway/).
 */
import { createHash, randomBytes } from 'node:crypto';
import { CarBlockIterator } from '@ipld/car/iterator';
import { CID } from 'multiformats/cid';
import { create as createDigest } from 'multiformats/hashes/digest';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fileFromCar, gateway, openFile, leafBytes } from '../../../../shared/ipfs/index.ts';
import { bytesOf, problemOf } from '../../../../testkit/api-client.ts';
import { startBehindPeer, type Peer } from '../../peer.ts';
import { type Service } from '../../../../testkit/service.ts';
import { newOwner, pinObject, pinsParts, settle, sweep, type Owner } from '../../stored-state.ts';
import { itemOf, present } from '../../../../testkit/present.ts';

const bytes = randomBytes(2 * leafBytes + 500);
let service: Service;
let peer: Peer;
let owner: Owner;
let cid: string;
let small: string;

beforeAll(async () => {
  ({ service, peer } = await startBehindPeer());
  owner = await newOwner(service);
  ({ cid } = await owner.call.store('plain', bytes));
  await settle(service, cid);
  ({ cid: small } = await owner.call.store('plain', 'hello world'));
  await settle(service, small);
});
afterAll(() => service.close());

const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${service.url}/ipfs/${path}`, { headers, method, redirect: 'manual' });

async function blocksOf(answer: Promise<Response>): Promise<string[]> {
  const iterator = await CarBlockIterator.fromBytes(await bytesOf(answer));
  expect((await iterator.getRoots()).map(String)).toEqual([cid]);
  const cids: string[] = [];
  for await (const block of iterator) {
    expect(createHash('sha256').update(block.bytes).digest().equals(block.cid.multihash.digest)).toBe(true);
    cids.push(block.cid.toString());
  }
  return cids;
}

function leaf(index: number): string {
  const block = bytes.subarray(index * leafBytes, (index + 1) * leafBytes);
  return CID.createV1(0x55, createDigest(0x12, createHash('sha256').update(block).digest())).toString();
}

describe('a request', () => {
  test.each([
    ['format=raw', '?format=raw', {}, 'application/vnd.ipld.raw', 'bin'],
    ['Accept raw', '', { Accept: 'application/vnd.ipld.raw' }, 'application/vnd.ipld.raw', 'bin'],
    ['format=car', '?format=car', {}, 'application/vnd.ipld.car; version=1; order=dfs; dups=y', 'car'],
    [
      'Accept car',
      '',
      { Accept: 'application/vnd.ipld.car' },
      'application/vnd.ipld.car; version=1; order=dfs; dups=y',
      'car',
    ],
    [
      'Accept car with parameters',
      '',
      { Accept: 'application/vnd.ipld.car; version=1; order=unk; dups=n' },
      'application/vnd.ipld.car; version=1; order=dfs; dups=n',
      'car',
    ],
    [
      'format before Accept (IPIP-523)',
      '?format=raw',
      { Accept: 'application/vnd.ipld.car' },
      'application/vnd.ipld.raw',
      'bin',
    ],
    [
      'the heavier wish of Accept',
      '',
      { Accept: 'application/vnd.ipld.raw;q=0.5, application/vnd.ipld.car;q=0.9' },
      'application/vnd.ipld.car; version=1; order=dfs; dups=y',
      'car',
    ],
    ['nothing in particular', '', { Accept: '*/*' }, 'application/octet-stream', undefined],
  ] as [string, string, Record<string, string>, string, string | undefined][])(
    'by %s is answered with its headers, by GET and HEAD',
    async (_, query, headers, type, extension) => {
      for (const method of ['GET', 'HEAD']) {
        const answer = await get(`${small}${query}`, headers, method);
        expect(answer.status).toBe(200);
        expect(Object.fromEntries(answer.headers)).toMatchObject({
          'content-type': type,
          'content-disposition': expect.stringContaining(
            `attachment; filename="${small}${extension ? `.${extension}` : ''}"`,
          ),
          'x-content-type-options': 'nosniff',
          'x-ipfs-path': `/ipfs/${small}`,
          'x-ipfs-roots': small,
          'cache-control': 'public, max-age=29030400, immutable, s-maxage=60, proxy-revalidate, no-transform',
          'content-security-policy': "sandbox; default-src 'none'",
          vary: expect.stringMatching(/^Accept\b/),
          etag: expect.stringContaining(small),
        });
        const body = await answer.arrayBuffer();
        expect(body.byteLength > 0).toBe(method === 'GET');
      }
    },
  );

  test('a raw block is the block of the CID itself, with its length', async () => {
    const one = await get(`${small}?format=raw`);
    expect(one.headers.get('content-length')).toBe('11');
    expect(await one.text()).toBe('hello world');
    const root = await get(`${cid}?format=raw`);
    const block = await bytesOf(root);
    expect(createHash('sha256').update(block).digest().equals(CID.parse(cid).multihash.digest)).toBe(true);
    expect(root.headers.get('content-length')).toBe(String(block.length));
    expect((await get(`${cid}?format=raw`, {}, 'HEAD')).headers.get('content-length')).toBe(String(block.length));
  });

  test('the bytes themselves, whole or a range of them', async () => {
    const whole = await get(cid);
    expect(whole.headers.get('content-length')).toBe(String(bytes.length));
    expect((await bytesOf(whole)).equals(bytes)).toBe(true);
    const part = await get(cid, { Range: `bytes=${leafBytes - 1}-${leafBytes + 1}` });
    expect(part.status).toBe(206);
    expect(part.headers.get('content-range')).toBe(`bytes ${leafBytes - 1}-${leafBytes + 1}/${bytes.length}`);
    expect((await bytesOf(part)).equals(bytes.subarray(leafBytes - 1, leafBytes + 2))).toBe(true);
    expect(await problemOf(get(cid, { Range: 'bytes=99999999-' }))).toBe('416 range_not_satisfiable');
  });

  test.each([
    ['', [0, 1, 2]],
    ['&dag-scope=all', [0, 1, 2]],
    ['&dag-scope=entity', [0, 1, 2]],
    ['&dag-scope=block', []],
    ['&entity-bytes=0:*', [0, 1, 2]],
    ['&dag-scope=entity&entity-bytes=0:0', [0]],
    [`&entity-bytes=${leafBytes}:${leafBytes}`, [1]],
    [`&entity-bytes=${leafBytes - 1}:${leafBytes}`, [0, 1]],
    ['&entity-bytes=-1:*', [2]],
    ['&entity-bytes=-501:-500', [1, 2]],
    ['&entity-bytes=99999999:*', []],
    ['&entity-bytes=0:99999999', [0, 1, 2]],
    [`&entity-bytes=${leafBytes}:-501`, [1]],
    ['&entity-bytes=-99999999:-501', [0, 1]],
    ['&entity-bytes=-99999999:*', [0, 1, 2]],
    ['&car-version=1&car-order=dfs&car-dups=n', [0, 1, 2]],
  ] as [string, number[]][])('format=car%s gives the root and the leaves %j', async (query, leaves) => {
    expect(await blocksOf(get(`${cid}?format=car${query}`))).toEqual([cid, ...leaves.map((index) => leaf(index))]);
  });

  test('dups=n gives a repeated block once, dups=y each time', async () => {
    const zeros = await owner.call.store('plain', new Uint8Array(3 * leafBytes));
    const count = async (dups: string) => {
      let blocks = 0;
      for await (const _ of await CarBlockIterator.fromBytes(
        await bytesOf(get(`${zeros.cid}?format=car&car-dups=${dups}`)),
      ))
        blocks += 1;
      return blocks;
    };
    expect(await count('y')).toBe(4);
    expect(await count('n')).toBe(2);
    const once = await get(`${zeros.cid}?format=car&car-dups=n`);
    const read = Buffer.from(await new Response(fileFromCar(zeros.cid, once.body as never) as never).arrayBuffer());
    expect(read.equals(Buffer.alloc(3 * leafBytes))).toBe(true);
  });

  test('our own reader takes it, whole and in part', async () => {
    const file = await openFile(cid, [gateway({ url: service.url })]);
    const read = async (start?: number, end?: number) =>
      Buffer.from(await new Response(file.read(start, end) as never).arrayBuffer());
    expect((await read()).equals(bytes)).toBe(true);
    expect((await read(leafBytes + 7, leafBytes + 9)).equals(bytes.subarray(leafBytes + 7, leafBytes + 9))).toBe(true);
  });
});

test('a requested filename is that of the attachment, or refused', async () => {
  for (const query of ['format=raw&', 'format=car&', '']) {
    expect((await get(`${small}?${query}filename=foobar.bin`, {}, 'HEAD')).headers.get('content-disposition')).toMatch(
      /^attachment; filename="foobar\.bin"/,
    );
  }
  expect(await problemOf(get(`${small}?filename=..%2Fx`))).toBe('400 invalid_filename');
});

test('a condition, a HEAD and a range outside a known file send nothing to the pinning service', async () => {
  const file = await owner.call.store('plain', randomBytes(leafBytes + 1));
  await settle(service, file.cid);
  const queries = ['', '?format=raw', '?format=car'];
  for (const query of queries) await (await get(`${file.cid}${query}`, {}, 'HEAD')).arrayBuffer();
  const asked: string[] = [];
  peer.onCommand = async (turn) => {
    // Alarms of other files ask as well.
    if (`${turn.cid} ${turn.key}`.includes(file.cid)) asked.push(turn.command);
    (await turn.pass()).deliver();
  };
  for (const query of queries) {
    const head = await get(`${file.cid}${query}`, {}, 'HEAD');
    expect(head.status).toBe(200);
    expect((await get(`${file.cid}${query}`, { 'If-None-Match': present(head.headers.get('etag')) })).status).toBe(304);
    expect((await get(`${file.cid}${query}`, { 'If-Match': '"other"' })).status).toBe(412);
  }
  const outside = await get(file.cid, { Range: `bytes=${leafBytes + 1}-` });
  expect(outside.status).toBe(416);
  expect(outside.headers.get('content-range')).toBe(`bytes */${leafBytes + 1}`);
  peer.onCommand = undefined;
  expect(asked).toEqual([]);
});

test('a condition is answered without a byte of the file', async () => {
  const { cid: unseen } = await owner.call.store('plain', randomBytes(1000));
  await settle(service, unseen);
  peer.seen.length = 0;
  for (const query of ['', '?format=raw']) {
    const tag = `${unseen}${query.replace('?format=', '.')}`;
    const known = await get(`${unseen}${query}`, { 'If-None-Match': `"${tag}"` });
    expect(known.status).toBe(304);
    expect(known.headers.get('content-type')).toBe(null);
  }
  expect(peer.seen).toEqual([]);
});

test('pages of any origin may read it', async () => {
  for (const headers of [{}, { Origin: 'https://anybody.example' }]) {
    const answer = await get(small, headers);
    expect(answer.headers.get('access-control-allow-origin')).toBe('*');
    expect(await answer.text()).toBe('hello world');
    expect(answer.headers.get('access-control-expose-headers')).toContain('X-Ipfs-Roots');
  }
  const preflight = await fetch(`${service.url}/ipfs/${small}`, {
    method: 'OPTIONS',
    headers: { Origin: 'https://anybody.example', 'Access-Control-Request-Method': 'GET' },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get('access-control-allow-origin')).toBe('*');
});

describe('entity tags', () => {
  test('differ by format, scope, bytes and dups, and give 304', async () => {
    const tags = new Set<string>();
    const queries = [
      '',
      '?format=raw',
      '?format=car',
      '?format=car&dag-scope=block',
      '?format=car&entity-bytes=0:5',
      '?format=car&entity-bytes=0:*',
      '?format=car&car-dups=n',
    ];
    for (const query of queries) {
      const answer = await get(`${cid}${query}`, {}, 'HEAD');
      const tag = present(answer.headers.get('etag'));
      tags.add(tag);
      for (const condition of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
        const known = await get(`${cid}${query}`, { 'If-None-Match': condition });
        expect(known.status).toBe(304);
        expect(known.headers.get('etag')).toEqual(tag);
        expect(await known.text()).toBe('');
      }
      expect((await get(`${cid}${query}`, { 'If-None-Match': '"other"' }, 'HEAD')).status).toBe(200);
    }
    expect(tags.size).toBe(queries.length);
  });
});

describe('what is not here', () => {
  test.each([
    [
      'a CID that nobody stored',
      'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku?format=raw',
      {},
      '404 not_found',
    ],
    [
      'only-if-cached of such a one',
      'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku?format=raw',
      { 'Cache-Control': 'only-if-cached' },
      '412 precondition_failed',
    ],
    ['no CID', 'hello?format=raw', {}, '400 invalid_cid'],
    ['a CIDv0 that nobody stored', 'QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH?format=raw', {}, '404 not_found'],
    ['a conversion (IPIP-524)', '{}?format=dag-json', {}, '406 not_acceptable'],
    ['another type', '{}', { Accept: 'application/vnd.ipld.dag-cbor' }, '406 not_acceptable'],
    ['CARv2', '{}?format=car&car-version=2', {}, '406 not_acceptable'],
    ['CARv2 by Accept', '{}', { Accept: 'application/vnd.ipld.car; version=2' }, '406 not_acceptable'],
    ['another order', '{}?format=car&car-order=bfs', {}, '406 not_acceptable'],
    ['dups neither y nor n', '{}?format=car&car-dups=maybe', {}, '400 invalid_request'],
    ['a scope that is none', '{}?format=car&dag-scope=some', {}, '400 invalid_request'],
    ['bytes that are none', '{}?format=car&entity-bytes=5', {}, '400 invalid_request'],
    ['bytes from the beginning', '{}?format=car&entity-bytes=*:5', {}, '400 invalid_request'],
    ['a path below a file', '{}/path?format=raw', {}, '404 not_found'],
  ] as [string, string, Record<string, string>, string][])('S66: %s', async (_, path, headers, expected) => {
    expect(await problemOf(get(path.replace('{}', small), headers))).toEqual(expected);
  });

  test('only-if-cached of what is here is what is here', async () => {
    expect((await get(`${small}?format=raw`, { 'Cache-Control': 'only-if-cached' })).status).toBe(200);
  });

  test('the probe by the identity CID is an empty block', async () => {
    for (const method of ['GET', 'HEAD']) {
      const answer = await get('bafkqaaa?format=raw', { Accept: 'application/vnd.ipld.raw' }, method);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toBe('application/vnd.ipld.raw');
      expect(answer.headers.get('content-length')).toBe('0');
      expect(await answer.text()).toBe('');
    }
  });

  test('410 after a deletion as long as it is known, then 404', async () => {
    const file = await owner.call.store('plain', 'soon gone');
    peer.onCommand = (turn) =>
      turn.step === 'remove' ? turn.refuse() : turn.pass().then((answer) => answer.deliver());
    expect((await owner.call.ask('deleteFile', { fileId: file.fileId })).status).toBe(200);
    expect(await problemOf(get(`${file.cid}?format=raw`))).toBe('410 gone');
    peer.onCommand = undefined;
    await sweep(service, [owner], [file.cid]);
    expect(await problemOf(get(`${file.cid}?format=raw`))).toBe('404 not_found');
  });

  test('other methods are not allowed', async () => {
    const answer = await get(small, {}, 'POST');
    expect({ status: answer.status, allow: answer.headers.get('allow') }).toEqual({ status: 405, allow: 'GET, HEAD' });
  });
});

describe('faults', () => {
  // What a bucket does is in worker/test/stores/.
  test.runIf(pinsParts)('S62: a lying service is 502 before the first byte, and breaks it off afterwards', async () => {
    peer.onCommand = (turn) =>
      turn.command === 'block/get'
        ? turn.answer(200, Buffer.from('another block'))
        : turn.pass().then((answer) => answer.deliver());
    for (const query of ['', '?format=raw', '?format=car'])
      expect(await problemOf(get(`${cid}${query}`))).toBe('502 content_mismatch');
    peer.onCommand = async (turn) => {
      const { body, deliver } = await turn.pass();
      const isLeaf = turn.command === 'cat' || (turn.command === 'block/get' && turn.cid !== cid);
      deliver(isLeaf ? Buffer.concat([body.subarray(0, -1), Buffer.from([itemOf(body, -1) ^ 1])]) : body);
    };
    const answer = await get(cid);
    expect(answer.status).toBe(200);
    await expect(answer.arrayBuffer()).rejects.toThrow();
    // A CAR has no length: it stops at the last good block, and its reader sees that it is not
    // complete.
    const car = (await get(`${cid}?format=car`)).body as ReadableStream<Uint8Array>;
    await expect(new Response(fileFromCar(cid, car) as never).arrayBuffer()).rejects.toMatchObject({
      code: expect.stringMatching(/content_mismatch|pinning_unavailable/),
    });
    peer.onCommand = undefined;
  });

  test('damage that a reader finds in a CAR, which is not hashed here, is found by its next request', async () => {
    const file = await owner.call.store('plain', randomBytes(2 * leafBytes));
    await settle(service, file.cid);
    peer.onCommand = async (turn) => {
      const { body, deliver } = await turn.pass();
      // Kubo's `cat` names the file, and gives its leaves.
      const isLeaf = turn.step === 'read' && (turn.command === 'cat' || turn.cid !== file.cid);
      deliver(isLeaf ? Buffer.concat([body.subarray(0, -1), Buffer.from([itemOf(body, -1) ^ 1])]) : body);
    };
    const source = gateway({ url: service.url });
    const read = async () => new Response((await openFile(file.cid, [source])).read() as never).arrayBuffer();
    await expect(read()).rejects.toMatchObject({ code: 'content_mismatch' });
    const rows = async () => (await pinObject(service, file.cid)).rows('pin');
    await expect
      .poll(async () => (await rows()).find(({ cid: each }) => each === file.cid))
      .toMatchObject({ state: 'lost', reason: 'content_mismatch' });
    peer.onCommand = undefined;
  });

  test('a HEAD asks for no bytes of the file', async () => {
    for (const asked of [peer.steps, peer.seen]) asked.length = 0;
    for (const query of ['', '?format=raw', '?format=car']) await get(`${cid}${query}`, {}, 'HEAD');
    // A node gives the nodes of a file by blocks.
    expect(pinsParts ? peer.seen : peer.steps).not.toContain(pinsParts ? 'cat' : 'read');
  });

  test('a GET takes at most 3 requests to the service', async () => {
    for (const query of ['', '?format=raw', '?format=car']) {
      peer.seen.length = 0;
      await (await get(`${cid}${query}`)).arrayBuffer();
      expect(peer.seen.length).toBeLessThanOrEqual(3);
    }
  });
});
