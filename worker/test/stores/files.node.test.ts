/**
 * Files in an object store: what lies in the bucket, and that nothing is left of what is deleted.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it, type TestFunction } from 'vitest';
import type { Receipt, StoredFile } from '../../../shared/api.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';
import { bytesOf, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { create, patch } from '../uploads/tus-client.ts';
import { describeStores, isTaken, kinds, startStore, type StoreUnderTest } from './store-under-test.ts';
import { requestOf, waysToStore } from './ways-to-store.ts';

const mib = 1_048_576;
const day = 86_400_000;

/** MiB of the file of each way; the short form has those whose parts are made differently. */
const mibOfWays: Readonly<Record<string, number>> = ci
  ? Object.fromEntries(Object.keys(waysToStore).map((way) => [way, long ? 40 : 17]))
  : { encrypted: 17, 'a stream': 17, 'a CAR of small blocks': 5 };

describeStores('%s', kinds, (kind) => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore(kind);
  });
  beforeEach(() => store.forget());
  afterAll(() => store.close());

  let declared = 0;
  /** Declares a test of both kinds; the short form tries it with one of them, in turn. */
  const each = (name: string, tests: TestFunction): void =>
    (ci || isTaken(kind, (declared += 1)) ? it : inCi)(name, tests);

  const get = (fileId: string, range?: string): Promise<Response> =>
    store.owner.call(`/v1/storage/${fileId}/content`, range === undefined ? {} : { headers: { Range: range } });
  const remove = async (fileId: string): Promise<Receipt> =>
    await jsonOf<Receipt>(await store.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' }));
  const data = async (): Promise<string[]> => (await store.keys()).filter((key) => key.startsWith('data/'));
  /** The objects of the only upload, once those of others are removed. */
  const dataOfOne = async (): Promise<string[]> => {
    const ids = async () => new Set((await data()).map((key) => key.split('/')[1])).size;
    // The alarm may be asking about the others already.
    await expect.poll(async () => (await store.pass(0), await ids())).toBe(1);
    return await data();
  };

  each('a small file is one plain object, and its index; both are gone with it', async () => {
    const bytes = randomBytes(70_000);
    const file = await store.owner.call.store('plain', bytes);
    const keys = await store.keys();
    expect(keys).toEqual([`cid/${file.cid}`, expect.stringMatching(/^data\/[0-9a-f]{32}\/00000000$/), 'service']);
    expect(Buffer.compare(await store.read(itemOf(keys, 1)), bytes)).toBe(0);
    expect((await store.read('service')).toString()).toBe('tested');
    expect((await remove(file.fileId)).pins).toEqual([{ service: 'store', status: 'unpinned' }]);
    expect(await store.keys()).toEqual(['service']);
    expect(await problemOf(get(file.fileId))).toBe('404 not_found');
  });

  each('a file of 17 MiB and some is in objects of at most 16 MiB, and is read in parts', async () => {
    const bytes = randomBytes(17 * mib + 12_345);
    const file = await store.owner.call.store('plain', bytes);
    const keys = await data();
    const parts = await Promise.all(keys.map((key) => store.read(key)));
    expect(Buffer.compare(Buffer.concat(parts), bytes)).toBe(0);
    expect(Math.max(...parts.map((part) => part.length))).toBeLessThanOrEqual(16 * mib);
    expect(keys.length).toBeLessThanOrEqual(4);
    for (const [start, end] of [
      [0, 1],
      [mib - 1, mib + 1],
      [16 * mib - 5, 16 * mib + 5],
      [17 * mib, 17 * mib + 12_345],
    ] as const) {
      const part = await get(file.fileId, `bytes=${start}-${end - 1}`);
      expect(part.status).toBe(206);
      expect(Buffer.compare(await bytesOf(part), bytes.subarray(start, end))).toBe(0);
    }
    expect(Buffer.compare(await bytesOf(get(file.fileId)), bytes)).toBe(0);
    await remove(file.fileId);
    expect(await store.keys()).toEqual(['service']);
  });

  inCi('files of several parts are there when their uploads have long ended', async () => {
    const ways = Object.keys(mibOfWays).filter((_, at) => isTaken(kind, at));
    const stored = new Map<string, { fileId: string; bytes: Buffer }>();
    for (const way of ways) {
      const bytes = randomBytes(present(mibOfWays[way]) * mib + 3);
      const { path, init } = await requestOf(way, bytes);
      stored.set(way, { ...(await jsonOf<StoredFile>(store.owner.call(path, init), 201)), bytes });
    }
    // Their parts have had no index of their own.
    expect((await store.keys()).filter((key) => key.startsWith('cid/'))).toHaveLength(ways.length);
    for (const ms of [0, day / 24, day]) {
      await store.pass(ms, { rounds: 2 });
      // What is lost at one of them stays lost.
      if (!long && ms !== day) continue;
      for (const [way, { fileId, bytes }] of stored)
        expect(Buffer.compare(await bytesOf(get(fileId)), bytes), way).toBe(0);
    }
    for (const { fileId } of stored.values()) await remove(fileId);
    expect(await store.keys()).toEqual(['service']);
  });

  each('the same bytes are stored once, and stay until nobody has them', async () => {
    const bytes = randomBytes(2 * mib);
    const stored = await Promise.all(Array.from({ length: 4 }, () => store.owner.call.store('plain', bytes)));
    expect((await dataOfOne()).length).toBeLessThanOrEqual(2);
    for (const { fileId } of stored.slice(1)) await remove(fileId);
    expect(Buffer.compare(await bytesOf(get(first(stored).fileId)), bytes)).toBe(0);
    await remove(first(stored).fileId);
    await store.pass(0);
    expect(await store.keys()).toEqual(['service']);
  });

  each('a file whose objects are damaged or lost is found by a verification, and repaired by its bytes', async () => {
    const bytes = randomBytes(3 * mib);
    const file = await store.owner.call.store('plain', bytes);
    const verify = async () =>
      (
        await jsonOf<{ pins: StoredFile['pins'] }>(
          await store.owner.call(`/v1/storage/${file.fileId}/verification`, { method: 'POST' }),
        )
      ).pins[0]?.status;
    expect(await verify()).toBe('pinned');
    const [key = ''] = await data();
    const object = await store.read(key);
    await store.write(key, Buffer.concat([Buffer.of(first(object) ^ 1), object.subarray(1)]));
    expect(await verify()).toBe('lost');
    expect(await problemOf(get(file.fileId))).toBe('502 content_mismatch');
    const again = await store.owner.call.store('plain', bytes);
    expect(Buffer.compare(await bytesOf(get(file.fileId)), bytes)).toBe(0);
    for (const lost of [itemOf(await dataOfOne(), -1), `cid/${file.cid}`]) {
      await store.lose(lost);
      expect(await verify()).toBe('lost');
      const third = await store.owner.call.store('plain', bytes);
      expect(await verify()).toBe('pinned');
      expect(Buffer.compare(await bytesOf(get(file.fileId)), bytes)).toBe(0);
      await remove(third.fileId);
    }
    await remove(again.fileId);
    await remove(file.fileId);
    await store.pass(day, { rounds: 2 });
    expect(await store.keys()).toEqual(['service']);
  });

  each('bytes that are stored again are there, whatever was lost before anybody looked', async () => {
    const bytes = randomBytes(2 * mib);
    const file = await store.owner.call.store('plain', bytes);
    for (const key of [itemOf(await data(), 0), `cid/${file.cid}`]) {
      await store.lose(key);
      const again = await store.owner.call.store('plain', bytes);
      for (const { fileId } of [again, file]) expect(Buffer.compare(await bytesOf(get(fileId)), bytes)).toBe(0);
      await remove(again.fileId);
    }
    await remove(file.fileId);
    await store.pass(day, { rounds: 2 });
    expect(await store.keys()).toEqual(['service']);
  });

  each('an upload that ends without a file leaves nothing', async () => {
    const { path } = await create(store.owner.call, 'encrypted', 9 * mib);
    expect((await patch(store.owner.call, path, 0, randomBytes(5 * mib))).status).toBe(204);
    expect((await data()).length).toBeGreaterThan(0);
    expect((await store.owner.call(path, { method: 'DELETE', headers: { 'Tus-Resumable': '1.0.0' } })).status).toBe(
      204,
    );
    await store.pass(10 * day, { rounds: 2 });
    expect(await store.keys()).toEqual(['service']);
  });
});
