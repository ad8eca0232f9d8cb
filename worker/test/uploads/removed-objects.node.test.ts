/** Uploads whose objects are removed before they end, as of one that lasts too long. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { answersLate } from '../../../testkit/object-stores/hostile-store.ts';
import { problemOf } from '../../../testkit/api-client.ts';
import { present } from '../../../testkit/present.ts';
import { objectIdOf } from '../../objects/pin/stores/object-names.ts';
import { create, head, mib, offsetOf, patch, version } from './tus-client.ts';
import { shardObject } from '../stored-state.ts';
import { describeStores, startStore, type StoreUnderTest } from '../stores/store-under-test.ts';

const day = 86_400_000;
describeStores('objects that are removed before their upload ends', ['r2'], (kind) => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore(kind, { isGated: true });
  });
  afterAll(() => store.close());

  /** Lets time pass for the objects of an upload alone, until nothing of them is left. */
  async function removeObjects(id: string): Promise<void> {
    const shard = shardObject(store.service, id.slice(0, 2));
    const left = async () => (await shard.rows('object')).some((row) => row['id'] === id);
    await expect.poll(async () => (await shard.ring(9 * day), await left())).toBe(false);
    expect((await store.keys()).filter((key) => key.startsWith(`data/${id}/`))).toEqual([]);
  }

  async function expectNoFile(): Promise<void> {
    present(store.hostile).obey();
    expect((await store.owner.call.listFiles()).files).toEqual([]);
    await store.pass(9 * day, { rounds: 3 });
    expect(await store.keys()).toEqual(['service']);
    store.forget();
  }

  it.each([false, true])('make an upload of one request fail (its client goes away: %s)', async (leaves) => {
    const late = Promise.withResolvers<void>();
    present(store.hostile).obey({ method: 'PUT', key: /data\//, nth: 1, fault: answersLate(late.promise) });
    const controller = new AbortController();
    const sending = store.owner.call.ask('storePlain', {}, { body: randomBytes(1000), signal: controller.signal });
    const outcome = problemOf(sending).catch(() => 'none');
    const key = async (): Promise<string> => (await store.keys()).find((each) => each.startsWith('data/')) ?? '';
    await expect.poll(key).not.toBe('');
    if (leaves) controller.abort();
    await removeObjects(present((await key()).split('/')[1]));
    late.resolve();
    expect(await outcome).toBe(leaves ? 'none' : '504 pinning_timeout');
    await expectNoFile();
  });

  const lengths = [
    ['another part follows', 8 * mib],
    ['only its last bytes follow', 4 * mib + 10],
    ['nothing follows but its end', 4 * mib],
  ] as const;
  it.each(lengths)('end one of several requests, where %s', async (_, length) => {
    const { call } = store.owner;
    const bytes = randomBytes(length);
    // The one that has all bytes learns its length at the end.
    const { path, id: uploadId } = await create(call, 'plain', length > 4 * mib ? length : undefined);
    expect((await patch(call, path, 0, bytes.subarray(0, 4 * mib))).status).toBe(204);
    const offset = await offsetOf(call, path);
    await removeObjects(await objectIdOf(uploadId));
    const last = await patch(call, path, offset, bytes.subarray(offset), { 'Upload-Length': String(length) });
    // What has no part to send is found out by the attempts to end it.
    if (last.status !== 410) await expect.poll(async () => (await head(call, path)).status).toBe(410);
    expect((await call(path, { method: 'DELETE', headers: version })).status).toBe(204);
    await expectNoFile();
  });
});
