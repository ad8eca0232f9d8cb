/**
 * Files that move in and between services: CAR files, copies to another profile, copies of what
 * others published.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { connect, type Connection } from '../../../client/index.ts';
import {
  carHeader,
  carSection,
  cidBuilder,
  cidOf,
  encodeNode,
  parseCid,
  sha256,
  type Cid,
} from '../../../shared/ipfs/index.ts';
import { client } from '../../../testkit/api-client.ts';
import { faultyProxy, type Passed } from '../../../testkit/faulty-proxy.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { type Service, sharedService } from '../../../testkit/service.ts';
import { recall } from '../../files/history.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { hostile } from '../hostile.ts';
import { localService } from '../local.ts';
import { flip, itemOf, present } from '../../../testkit/present.ts';

const local = localService();
const noise = Buffer.from(Array.from({ length: 2_500_000 }, (_, index) => (index * 31 + (index >> 8) * 7) & 0xff));

/** Another service, of somebody else. */
let other: Service;
let there: Connection;
let apiKey: string;
beforeAll(async () => {
  other = await sharedService();
  ({ apiKey } = await other.account());
  there = connect({ service: other.url, apiKey });
});

const sealpin = (argv: readonly string[], directory: string): Promise<Ran> =>
  run([...argv, '--data-dir', local.dataDir], directory);

async function jsonOf(ran: Promise<Ran>): Promise<Record<string, unknown>> {
  const { exit, stdout, stderr } = await ran;
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: '' });
  return JSON.parse(stdout) as Record<string, unknown>;
}

type Block = { readonly cid: Cid; readonly bytes: Uint8Array };
const leafOf = async (bytes: Uint8Array): Promise<Block> => ({ cid: cidOf('raw', await sha256(bytes)), bytes });
async function nodeOf(children: readonly Block[]): Promise<Block> {
  const bytes = encodeNode(
    children.map(({ cid, bytes: { length } }) => ({ cid, fileBytes: length, dagBytes: length })),
  );
  return { cid: cidOf('dag-pb', await sha256(bytes)), bytes };
}
/** A CAR of blocks in this order. */
const carOf = (root: Cid | undefined, blocks: readonly Block[]): Uint8Array =>
  Buffer.concat([carHeader(root), ...blocks.flatMap(({ cid, bytes }) => [carSection(cid, bytes.length), bytes])]);

describe('import', () => {
  const orders = [
    'root first, as ipfs dag export writes it',
    'in no order, with a block of something else',
    'leaves first',
  ];
  test.each(orders.slice(0, ci ? 3 : 2))('keeps the CID of a file in another layout: %s', async (order) => {
    const directory = await temporaryDirectory();
    const parts = [10_000, 300_000, 7].map((length, index) => noise.subarray(index, index + length));
    const leaves = await Promise.all(parts.map(leafOf));
    // A leaf that repeats is in the CAR once.
    const root = await nodeOf([...leaves, itemOf(leaves, 0)]);
    const orders: Record<string, Block[]> = { r: [root, ...leaves], l: [...leaves, root] };
    const blocks = orders[itemOf(order, 0)] ?? [
      itemOf(leaves, 2),
      root,
      await leafOf(Buffer.from(order)),
      itemOf(leaves, 0),
      itemOf(leaves, 1),
    ];
    await writeFile(join(directory, 'file.car'), carOf(order.startsWith('l') ? undefined : root.cid, blocks));
    const { blobId } = await jsonOf(sealpin(['import', 'file.car', '--json'], directory));
    expect(blobId).toBe(root.cid.text);
    await sealpin(['decrypt', root.cid.text, 'out'], directory);
    expect((await readFile(join(directory, 'out'))).equals(Buffer.concat([...parts, itemOf(parts, 0)]))).toBe(true);
    expect((await sealpin(['list'], directory)).stdout).toMatch(RegExp(`${root.cid.text}.*file$`, 'm'));
  });

  test('needs no service to decrypt what a CAR file holds', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'letter'), noise);
    const env = { env: { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' } };
    await run(['encrypt', 'letter', '--output', 'letter.age'], directory, env);
    const [first, second] = await Promise.all(
      [[0, 1_000_000] as const, [1_000_000] as const].map(async ([start, end]) =>
        leafOf((await readFile(join(directory, 'letter.age'))).subarray(start, end)),
      ),
    );
    const root = await nodeOf([present(first), present(second)]);
    await writeFile(join(directory, 'letter.car'), carOf(root.cid, [present(second), root, present(first)]));
    expect(await run(['decrypt', './letter.car', 'out'], directory, env)).toMatchObject({ exit: 0 });
    expect((await readFile(join(directory, 'out'))).equals(noise)).toBe(true);
    flip(present(second).bytes, 1000);
    await writeFile(join(directory, 'letter.car'), carOf(root.cid, [present(second), root, present(first)]));
    expect(await run(['decrypt', './letter.car', 'no'], directory, env)).toMatchObject({
      exit: 5,
      stderr: /something else/,
    });
  });

  test('says what is wrong with a CAR that it does not take', async () => {
    const directory = await temporaryDirectory();
    const [first, second] = await Promise.all([leafOf(Buffer.from('first')), leafOf(Buffer.from('second'))]);
    const root = await nodeOf([first, second]);
    // A directory of UnixFS: Data with the type 1 (https://specs.ipfs.tech/unixfs/).
    const folder = Buffer.from('0a020801', 'hex');
    const folderCid = cidOf('dag-pb', await sha256(folder));
    const single = carHeader(first.cid);
    const link = single.subarray(9, 9 + 41);
    const two = Buffer.concat([single.subarray(1, 8), Buffer.from([0x82]), link, link, single.subarray(50)]);
    const refused: Record<string, [bytes: Uint8Array, why: RegExp]> = {
      'two roots': [Buffer.concat([Buffer.from([two.length]), two]), /names 2 roots, and a file has one/],
      'a missing block': [carOf(root.cid, [root, first]), RegExp(`does not have the block ${second.cid.text}`)],
      'another block': [carOf(root.cid, [root, first, { ...second, bytes: Buffer.from('sEcond') }]), /something else/],
      'a directory': [carOf(folderCid, [{ cid: folderCid, bytes: folder }]), /does not name a file/],
      'cut off': [carOf(root.cid, [root, first, second]).subarray(0, -3), /cut off/],
      'no root': [carOf(undefined, []), /CIDv1/],
      'a CARv2': [Buffer.from('0aa16776657273696f6e02', 'hex'), /not a CARv1/],
    };
    for (const [what, [bytes, why]] of Object.entries(refused)) {
      await writeFile(join(directory, 'bad.car'), bytes);
      const ran = await sealpin(['import', 'bad.car'], directory);
      expect({ what, ...ran }).toMatchObject({ what, stdout: '', stderr: why });
      expect(ran.exit).not.toBe(0);
    }
  });
});

describe('pin', () => {
  test('keeps a copy of what another service has, and stores nothing twice', async () => {
    const directory = await temporaryDirectory();
    const { cid } = await there.put(noise, { mode: 'plain' });
    const pin = ['pin', `ipfs://${cid}`, '--from', other.url, '--json'];
    expect(await jsonOf(sealpin(pin, directory))).toMatchObject({ blobId: cid, size: noise.length, stored: true });
    expect(await jsonOf(sealpin(pin, directory))).toMatchObject({ blobId: cid, stored: false });
    expect(await sealpin(['verify', cid, '--service', local.url], directory)).toMatchObject({ exit: 0 });
  });

  test('stores nothing of a gateway that gives other bytes', async () => {
    const directory = await temporaryDirectory();
    const builder = cidBuilder();
    await builder.write(Buffer.from('right'));
    const { cid } = await builder.finish();
    const { url } = await hostile({
      'GET /ipfs/': (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/vnd.ipld.car' });
        response.end(carOf(parseCid(cid), [{ cid: parseCid(cid), bytes: Buffer.from('wrong') }]));
      },
    });
    const ran = await sealpin(['pin', cid, '--from', url], directory);
    expect(ran).toMatchObject({ exit: 5, stdout: '', stderr: /something else/ });
    expect((await connect({ service: local.url, apiKey: local.apiKey }).list({ cid })).files).toEqual([]);
  });
});

describe('copy', () => {
  test.each([
    { scopes: 'write', says: /is called, its metadata and tags stay behind: the API key of weak lacks read/ },
    { scopes: 'read,write', says: /does not expire: the API key of weak lacks delete/ },
  ])('says what stays behind where the other API key may only $scopes', async ({ scopes, says }) => {
    const directory = await temporaryDirectory();
    const put = await connect({ service: local.url, apiKey: local.apiKey }).put(`for ${scopes}`, { mode: 'plain' });
    const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
    await client(local.url, local.apiKey).changeFile({ fileId: put.fileId, filename: 'a.txt', expiresAt });
    const env = { env: { SEALPIN_API_KEY: apiKey } };
    const create = ['key', 'create', 'weak', '--scopes', scopes, '--service', other.url];
    const { stdout: stdin } = await run(create, directory, env);
    const [home, quiet] = [['--data-dir', join(directory, 'home')], { stdin }];
    expect(await run(['login', other.url, '--name', 'weak', ...home], directory, quiet)).toMatchObject({ exit: 0 });
    const copy = ['copy', put.cid, '--to', 'weak', '--service', local.url, ...home];
    const ran = await run(copy, directory, { env: { SEALPIN_API_KEY: local.apiKey } });
    expect(ran).toMatchObject({ exit: 0, stdout: `${put.cid}\n`, stderr: says });
    const [copied] = (await there.list({ cid: put.cid })).files;
    expect(copied).toMatchObject({ filename: scopes === 'write' ? null : 'a.txt' });
    expect(copied).not.toHaveProperty('expiresAt');
    // What the service encrypts is sent with its name.
    const sealed = await connect({ service: local.url, apiKey: local.apiKey }).put(scopes, { name: 'film.mkv' });
    copy[1] = sealed.fileId;
    const { exit, stderr } = await run(copy, directory, { env: { SEALPIN_API_KEY: local.apiKey } });
    expect(exit).toBe(0);
    expect(/the type of \w+, its metadata and tags stay behind/.test(stderr)).toEqual(scopes === 'write');
    expect((await there.list({ limit: 1 })).files).toMatchObject([{ filename: 'film.mkv', mode: 'encrypted' }]);
  });

  test('also goes to another account, with a key that may not list, and keeps the name in the history', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'letter'), 'to another account');
    const home = ['--data-dir', directory];
    const env = { SEALPIN_API_KEY: apiKey, SEALPIN_SERVICE: other.url };
    const password = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };
    const { stdout } = await run(['encrypt', 'letter', ...home], directory, { env: { ...env, ...password } });
    const cid = stdout.trim();
    const writeOnly = await run(['key', 'create', 'quiet', '--scopes', 'write'], directory, { env });
    const second = await other.account();
    const login = ['login', other.url, '--name', 'second', ...home];
    expect(await run(login, directory, { stdin: second.apiKey })).toMatchObject({ exit: 0 });
    const copy = ['copy', cid, '--to', 'second', '--service', other.url, '--json', ...home];
    const ran = run(copy, directory, { env: { SEALPIN_API_KEY: writeOnly.stdout.trim() } });
    const { copies } = (await jsonOf(ran)) as { copies: { fileId: string }[] };
    const [copied] = (await connect({ service: other.url, apiKey: second.apiKey }).list({ cid })).files;
    expect(copies).toMatchObject([{ fileId: present(copied).fileId, blobId: cid }]);
    const { entries } = await recall(directory);
    expect(entries).toContainEqual(expect.objectContaining({ cid, fileId: present(copied).fileId, name: 'letter' }));
  });

  test('that fails prints the copies that are there, which it would make twice the next time', async () => {
    const directory = await temporaryDirectory();
    const put = await connect({ service: local.url, apiKey: local.apiKey }).put('the first of two', { mode: 'plain' });
    const { cid: absent } = await leafOf(Buffer.from('nobody has this'));
    const home = ['--data-dir', join(directory, 'home')];
    const login = ['login', other.url, '--name', 'two', ...home];
    expect(await run(login, directory, { stdin: apiKey })).toMatchObject({ exit: 0 });
    const copy = ['copy', put.cid, absent.text, '--to', 'two', '--service', local.url, ...home];
    const env = { SEALPIN_API_KEY: local.apiKey };
    const { exit, stdout } = await run([...copy, '--json'], directory, { env });
    expect(exit).toBe(3);
    const [copied] = (await there.list({ cid: put.cid })).files;
    expect(JSON.parse(stdout)).toMatchObject({ copies: [{ of: put.cid, fileId: present(copied).fileId }] });
    expect((await run([...copy, '--quiet'], directory, { env })).stdout).toBe(`${put.cid}\n`);
  });

  inCi('takes blobs under their IDs, and what a service encrypted, to the service of a profile', async () => {
    const directory = await temporaryDirectory();
    const here = connect({ service: local.url, apiKey: local.apiKey });
    const login = await run(['login', other.url, '--name', 'other', '--data-dir', local.dataDir], directory, {
      stdin: apiKey,
    });
    expect(login).toMatchObject({ exit: 0 });
    await run(['profile', 'use', '--data-dir', local.dataDir], directory);
    const blob = await here.put(noise, { mode: 'plain' });
    const small = await here.put('by its file ID', { mode: 'plain', name: 'small.txt' });
    const sealed = await here.put(noise, { name: 'film.mkv' });
    const known = { metadata: { project: 'north' }, tags: ['tax', '2026'] };
    const later = new Date(Date.now() + 9 * 86_400_000).toISOString();
    await client(local.url, local.apiKey).changeFile({ fileId: blob.fileId, filename: 'noise.bin', ...known });
    await client(local.url, local.apiKey).changeFile({
      fileId: sealed.fileId,
      contentType: 'video/x-matroska',
      expiresAt: later,
      ...known,
    });
    const argv = ['copy', blob.cid, small.fileId, sealed.fileId, '--to', 'other', '--json'];
    const { copies } = (await jsonOf(sealpin(argv, directory))) as { copies: { blobId: string; fileId: string }[] };
    expect(copies.map(({ blobId }) => blobId).slice(0, 2)).toEqual([blob.cid, small.cid]);
    const film = itemOf(copies, 2);
    expect(film.blobId).not.toBe(sealed.cid);
    expect(noise.equals(await (await there.get(film.fileId)).bytes())).toBe(true);
    expect((await there.list({ limit: 3 })).files).toMatchObject([
      { filename: 'film.mkv', contentType: 'video/x-matroska', expiresAt: later, ...known },
      { cid: small.cid, filename: 'small.txt' },
      { cid: blob.cid, filename: 'noise.bin', ...known },
    ]);
    expect(await sealpin(['copy', sealed.cid, '--to', 'other'], directory)).toMatchObject({
      exit: 4,
      stderr: RegExp(`by its file ID: ${sealed.fileId}`),
    });
    expect(await sealpin(['copy', blob.cid, '--to', 'other', '--profile', 'other'], directory)).toMatchObject({
      exit: 2,
      stderr: /the service and the account that the files are in/,
    });
  });
});

describe('a service that asks to wait', () => {
  test.each(ci ? [429, 503] : [429])('(%i) gets a copy after the wait, once', async (status) => {
    const directory = await temporaryDirectory();
    const isStoring = ({ method, path }: Passed): boolean => method === 'POST' && path.startsWith('/v1/storage/');
    const wait = { 'retry-after': '1', 'content-type': 'application/problem+json' };
    const body = JSON.stringify({ type: 'about:blank', title: 'busy', status, code: 'overloaded' });
    const proxy = await faultyProxy(
      () => other.url,
      (request, before) =>
        isStoring(request) && !before.some(isStoring) ? { kind: 'answer', status, headers: wait, body } : undefined,
    );
    const block = await leafOf(Buffer.from(`for ${status}`));
    const path = join(directory, 'one.car');
    await writeFile(path, carOf(block.cid, [block]));
    const env = { SEALPIN_API_KEY: apiKey, SEALPIN_SERVICE: proxy.url };
    const home = ['--data-dir', join(directory, 'home'), '--json'];
    const { blobId } = await jsonOf(run(['import', path, ...home, '--quiet'], directory, { env }));
    expect(proxy.passed.filter(isStoring)).toHaveLength(2);
    expect((await there.list({ cid: String(blobId) })).files).toHaveLength(1);
  });
});
