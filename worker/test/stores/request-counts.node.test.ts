/**
 * Requests that a store gets for a file: what it costs where each of them has a price
 * (`docs/operating.md`).
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { carType } from '../../../shared/ipfs/index.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { startHostileStore } from '../../../testkit/object-stores/hostile-store.ts';
import { startService } from '../../../testkit/service.ts';
import { bytesOf, client } from '../../../testkit/api-client.ts';
import { create, mib, patch } from '../uploads/tus-client.ts';
import { foreignCar } from './foreign-car.ts';
import { describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';
import { startZeroStore } from './zero-store.ts';

/** The largest object, which the number of requests for a large file follows from. */
const objectBytes = 16 * mib;
/**
 * The most requests besides those for data: whose the prefix is, whether there is an index, and
 * that index.
 */
const overhead = { write: { listed: 3, read: 3 }, read: { listed: 0, read: 3 } };

/**
 * Requests by what they cost: those that write or list, those that read, and removals, which are
 * free in most stores.
 */
type Costs = { data: number; listed: number; read: number; removed: number };

describeStores('a store gets', ['s3'], () => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore('s3');
  });
  afterAll(() => store?.close());

  /** Counts the requests of some work: those for data by themselves, others as they are priced. */
  async function costsOf(work: () => Promise<unknown>, at = store.hostile): Promise<Costs> {
    const before = at?.requests.length ?? 0;
    await work();
    const costs: Costs = { data: 0, listed: 0, read: 0, removed: 0 };
    for (const { method, key } of at?.requests.slice(before) ?? []) {
      const isListing = key.startsWith('?');
      if (method === 'DELETE') costs.removed += 1;
      else if (key.includes('/data/') && !isListing) costs.data += 1;
      else if (method === 'PUT' || isListing) costs.listed += 1;
      else costs.read += 1;
    }
    return costs;
  }

  const objects = async (): Promise<number> => (await store.keys()).filter((key) => key.startsWith('data/')).length;
  async function read(id: string, headers: Record<string, string> = {}): Promise<Costs> {
    // What the service looks at by itself after an upload is not counted.
    await store.pass(60_000, { rounds: 2 });
    return await costsOf(() => bytesOf(store.owner.call(`/v1/storage/${id}/content`, { headers })));
  }
  const remove = (id: string): Promise<Costs> =>
    costsOf(() => store.owner.call(`/v1/storage/${id}`, { method: 'DELETE' }));

  test('one object and one index for a file of 1 byte, and few requests besides', async () => {
    // The first file of a service has it look for what was there before.
    await store.owner.call.store('plain', randomBytes(1));
    let id = '';
    const written = await costsOf(async () => {
      id = (await store.owner.call.store('plain', randomBytes(1))).fileId;
    });
    expect(written).toMatchObject({ data: 1, removed: 0 });
    // Once for each of 256 prefixes, the service looks for what was there before.
    expect(written.listed).toBeLessThanOrEqual(overhead.write.listed + 1);
    expect(written.read).toBeLessThanOrEqual(overhead.write.read);
    const costs = await read(id);
    expect(costs).toMatchObject({ data: 1, listed: overhead.read.listed, removed: 0 });
    expect(costs.read).toBeLessThanOrEqual(overhead.read.read);
    expect((await remove(id)).removed).toBe(2);
  });

  test.each([
    ['1 B', 1],
    ['100 MB', 100_000_000],
    ['10 GiB', 10 * 2 ** 30],
  ])('as many requests as docs/operating.md says for %s', (name, bytes) => {
    const page = readFileSync(join(import.meta.dirname, '../../../docs/operating.md'), 'utf8');
    const objects = Math.max(1, Math.ceil(bytes / objectBytes));
    const { write, read } = overhead;
    const row = [name, objects, objects + write.listed, write.read, objects + read.read];
    expect(page).toContain(`| ${row.join(' | ')} |`);
  });

  inCi('one request for each object of a file of 100 MB, and for a range only those that have it', async () => {
    const bytes = randomBytes(100_000_000);
    const before = await objects();
    let id = '';
    const written = await costsOf(async () => {
      const created = await create(store.owner.call, 'plain', bytes.length);
      for (let at = 0; at < bytes.length; at += 64 * mib)
        expect((await patch(store.owner.call, created.path, at, bytes.subarray(at, at + 64 * mib))).status).toBe(204);
      ({ id } = created);
    });
    const many = (await objects()) - before;
    // A line that is slow, as that of a busy machine is, has smaller objects.
    expect(many).toBeGreaterThanOrEqual(Math.ceil(bytes.length / objectBytes));
    expect(written).toMatchObject({ data: many, removed: 0 });
    expect(written.listed).toBeLessThanOrEqual(overhead.write.listed);
    expect(written.read).toBeLessThanOrEqual(overhead.write.read);
    const whole = await read(id);
    expect(whole).toMatchObject({ data: many, listed: overhead.read.listed });
    expect(whole.read).toBeLessThanOrEqual(overhead.read.read);
    expect((await read(id, { Range: 'bytes=50000000-50000009' })).data).toBe(1);
    expect((await remove(id)).removed).toBe(many + 1);
  });

  test('one request for each object of a file of many small leaves, and not one for each leaf', async () => {
    const before = await objects();
    const headers = { 'Content-Type': carType };
    const body = await foreignCar(randomBytes(5_000_000), 10_000);
    const { fileId } = await store.owner.call.storePlain({}, { headers, body });
    const many = (await objects()) - before;
    expect(many).toBeLessThanOrEqual(5);
    expect(await read(fileId)).toMatchObject({ data: many, listed: 0 });
    expect((await read(fileId, { Range: 'bytes=2000000-2099999' })).data).toBeLessThanOrEqual(2);
  });

  test.runIf(long)('no more for 10 GiB of zeros, which nobody keeps', async () => {
    const zeros = await startZeroStore();
    onTestFinished(() => zeros.close());
    const hostile = await startHostileStore(zeros);
    onTestFinished(() => hostile.close());
    const { url, bucket, region, keyId, secret } = hostile;
    const entry = { id: 's3', type: 's3', url, bucket, region, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
    const service = await startService({
      vars: { BACKENDS: JSON.stringify([entry]), S3_KEY: keyId, S3_SECRET: secret },
    });
    onTestFinished(() => service.close());
    const call = client(service.url, (await service.account()).apiKey);
    const size = 10 * 2 ** 30;
    const piece = new Uint8Array(64 * mib);
    let id = '';
    const written = await costsOf(async () => {
      const created = await create(call, 'plain', size);
      ({ id } = created);
      for (let at = 0; at < size; at += piece.length)
        expect((await patch(call, created.path, at, piece)).status).toBe(204);
    }, hostile);
    const isThere = async () => (await call(`/v1/storage/${id}?data=false`)).status;
    await expect.poll(isThere, { timeout: 60_000 }).toBe(200);
    const least = Math.ceil(size / objectBytes);
    expect(written.data).toBeGreaterThanOrEqual(least);
    // A machine that is busy with other things has smaller objects now and then.
    expect(written.data).toBeLessThanOrEqual(least * 1.1);
    expect(written.listed).toBeLessThanOrEqual(overhead.write.listed);
    expect(written.read).toBeLessThanOrEqual(overhead.write.read);
    let bytes = 0;
    const whole = await costsOf(async () => {
      const response = await call(`/v1/storage/${id}/content`);
      expect(response.status, response.status === 200 ? '' : await response.text()).toBe(200);
      for await (const chunk of response.body ?? []) bytes += chunk.length;
    }, hostile);
    expect(bytes).toBe(size);
    expect(whole).toMatchObject({ data: written.data, listed: overhead.read.listed });
    expect(whole.read).toBeLessThanOrEqual(overhead.read.read);
  });
});
