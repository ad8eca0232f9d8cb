/** kubo-rpc-client, written for Kubo by others, drives the node: a judge from outside. */
import { randomBytes } from 'node:crypto';
import { create } from 'kubo-rpc-client';
import { CID } from 'multiformats/cid';
import { expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { node, token } from './node-harness.ts';

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const one of source) out.push(one);
  return out;
}

async function client() {
  const { url } = await node();
  return create({ url: `${url}/api/v0`, headers: { authorization: `Bearer ${token}` } });
}

const profile = { cidVersion: 1 as const, rawLeaves: true, chunker: 'size-1048576' };

test('kubo-rpc-client adds, reads, pins and unpins', async () => {
  const ipfs = await client();
  const bytes = randomBytes(2 * leafBytes + 5);
  const added = await ipfs.add(bytes, profile);
  expect(added.size).toBeGreaterThan(bytes.length);
  expect(Buffer.concat(await all(ipfs.cat(added.cid))).equals(bytes)).toBe(true);
  expect(
    Buffer.concat(await all(ipfs.cat(added.cid, { offset: leafBytes - 3, length: 10 }))).equals(
      bytes.subarray(leafBytes - 3, leafBytes + 7),
    ),
  ).toBe(true);
  const root = await ipfs.block.get(added.cid);
  expect(await ipfs.block.stat(added.cid)).toMatchObject({ size: root.length });
  expect((await all(ipfs.pin.ls({ type: 'recursive' }))).map((pin) => pin.cid.toString())).toEqual([
    added.cid.toString(),
  ]);
  expect((await all(ipfs.pin.ls({ paths: added.cid }))).map((pin) => pin.type)).toEqual(['recursive']);
  expect(await all(ipfs.pin.ls())).toHaveLength(4);
  expect((await ipfs.pin.rm(added.cid)).toString()).toBe(added.cid.toString());
  await expect(ipfs.pin.rm(added.cid)).rejects.toThrow('not pinned or pinned indirectly');
  await expect(all(ipfs.cat(added.cid))).rejects.toThrow('block was not found locally');
});

test('kubo-rpc-client adds without a pin, pins, collects', async () => {
  const ipfs = await client();
  const [kept, loose] = [
    await ipfs.add(randomBytes(10), { ...profile, pin: false }),
    await ipfs.add(randomBytes(10), { ...profile, pin: false }),
  ];
  await ipfs.pin.add(kept.cid, { name: 'kept' });
  expect((await all(ipfs.repo.gc())).map((gone) => gone.cid?.toString())).toEqual([loose.cid.toString()]);
  expect((await all(ipfs.cat(kept.cid))).length).toBe(1);
});

test('kubo-rpc-client streams a file of unknown length, and several files', async () => {
  const ipfs = await client();
  const pieces = Array.from({ length: 30 }, () => randomBytes(100_000));
  const { cid } = await ipfs.add(
    (async function* () {
      yield* pieces;
    })(),
    profile,
  );
  expect(Buffer.concat(await all(ipfs.cat(cid))).equals(Buffer.concat(pieces))).toBe(true);
  const many = await all(
    ipfs.addAll(
      [
        { path: 'a', content: randomBytes(5) },
        { path: 'b', content: randomBytes(6) },
      ],
      profile,
    ),
  );
  expect(many.map(({ path, size }) => [path, size])).toEqual([
    ['a', 5],
    ['b', 6],
  ]);
});

test('kubo-rpc-client reads id and version, and sees what it may not do', async () => {
  const ipfs = await client();
  expect((await ipfs.id()).id.toString()).toMatch(/^Qm/);
  expect((await ipfs.version()).version).toMatch(/^\d+\.\d+\.\d+/);
  await expect(ipfs.pin.add(CID.parse('bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'))).rejects.toThrow(
    'block was not found locally',
  );
  await expect(ipfs.add(randomBytes(5), { cidVersion: 0 })).rejects.toThrow('unixfs-v1-2025 only');
  const { url } = await node();
  await expect(create({ url: `${url}/api/v0`, headers: { authorization: 'Bearer wrong' } }).version()).rejects.toThrow(
    'Kubo RPC Access Denied',
  );
});
