/** A gateway of S3 that is killed, only reads, is shared by two services, or has another time. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Health, Problem } from '../../../shared/api.ts';
import { answersLate, refuses } from '../../../testkit/object-stores/hostile-store.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { startVersitygw, type Versitygw } from '../../../testkit/object-stores/versitygw.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';
import { adminToken } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { pinObject } from '../stored-state.ts';
import { create, offsetOf, patch, send } from '../uploads/tus-client.ts';
import { describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';

const mib = 1_048_576;
const day = 86_400_000;
describeStores('a gateway of S3', ['s3'], () => {
  let store: StoreUnderTest;
  let gateway: Versitygw;
  beforeAll(async () => {
    gateway = await startVersitygw();
    store = await startStore('s3', { gateway });
  });
  afterAll(async () => {
    await store.close();
    await gateway.close();
  });

  it('that is killed in the middle of an upload and started again has what was acknowledged', async () => {
    const bytes = randomBytes(9 * mib + 3);
    const kept = await store.owner.call.store('plain', bytes.subarray(0, mib));
    const { path } = await create(store.owner.call, 'plain', bytes.length);
    expect((await patch(store.owner.call, path, 0, bytes.subarray(0, 3 * mib))).status).toBe(204);
    let killed: Promise<void> | undefined;
    const duringPut = () => {
      killed ??= gateway.kill();
      return answersLate(killed);
    };
    present(store.hostile).obey({ method: 'PUT', key: /\/data\//, fault: duringPut });
    const broken = await patch(store.owner.call, path, 3 * mib, bytes.subarray(3 * mib, 8 * mib));
    expect(broken.status).toBeGreaterThanOrEqual(500);
    await present(killed);
    present(store.hostile).obey();
    await gateway.start();
    const offset = await offsetOf(store.owner.call, path);
    expect(offset).toBe(3 * mib);
    const last = await send(store.owner.call, path, bytes, 4 * mib, offset);
    const fileId = present(last.headers.get('Sealpin-File'));
    const read = async (id: string) => await bytesOf(store.owner.call(`/v1/storage/${id}/content`));
    expect(Buffer.compare(await read(fileId), bytes)).toBe(0);
    expect(Buffer.compare(await read(kept.fileId), bytes.subarray(0, mib))).toBe(0);
  });

  inCi('keeps the files of two services apart, and no service takes the prefix of another', async () => {
    const other = await startStore('s3', { gateway, vars: { SERVICE_ID: 'another' } });
    const thief = await startStore('s3', { gateway, prefix: 'sealpin-tested/', vars: { SERVICE_ID: 'another' } });
    try {
      const bytes = randomBytes(70_000);
      const files = await Promise.all([store, other].map((each) => each.owner.call.store('plain', bytes)));
      expect(itemOf(files, 0).cid).toBe(itemOf(files, 1).cid);
      await store.owner.call.deleteFile({ fileId: itemOf(files, 0).fileId });
      await store.pass(3 * day, { rounds: 2 });
      const left = await bytesOf(other.owner.call(`/v1/storage/${itemOf(files, 1).fileId}/content`));
      expect(Buffer.compare(left, bytes)).toBe(0);
      const refused = await thief.owner.call('/v1/storage/plain', { method: 'POST', body: bytes as BodyInit });
      expect(await problemOf(refused)).toBe('500 misconfigured');
      await expect.poll(() => thief.service.log.some((line) => line.includes('belongs to another service'))).toBe(true);
    } finally {
      await thief.close();
      await other.close();
    }
  });

  it.each([
    ['neither bytes nor index', /^/],
    ['no bytes', /\/data\//],
    ['no index', /\/cid\//],
  ])('that acknowledges everything and keeps %s is found out at the first look', async (_, key) => {
    const { owner, hostile, service } = store;
    const bytes = randomBytes(70_000);
    const acknowledges = { kind: 'answer', status: 200, headers: { etag: '"0123456789abcdef"' }, body: '' } as const;
    present(hostile).obey({ method: 'PUT', key, fault: acknowledges });
    const { fileId, cid } = await owner.call.store('plain', bytes);
    present(hostile).obey();
    const seen = async () => first((await owner.call.getFile({ fileId, data: false })).pins);
    const pin = await pinObject(service, cid);
    // Nobody has looked yet, unless the alarm has rung by itself.
    await pin.ring(10_000);
    expect(await seen()).toEqual({ service: 'store', status: 'lost', checkedAt: expect.any(String) as string });
    expect(await problemOf(owner.call(`/v1/storage/${fileId}/content`))).toBe('502 pinning_lost');
    const again = await owner.call.store('plain', bytes);
    await pin.ring(60_000);
    expect((await seen()).status).toBe('pinned');
    for (const each of [fileId, again.fileId])
      expect(Buffer.compare(await bytesOf(owner.call(`/v1/storage/${each}/content`)), bytes)).toBe(0);
  });

  inCi('that has two names moves nothing from one to the other, where it would be gone', async () => {
    const own = await startVersitygw();
    const { url, bucket, region } = own;
    const again = { id: 'again', type: 's3', url, bucket, region, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
    const twice = await startStore('s3', { gateway: own, others: [again], vars: { REPLICAS: '1' } });
    try {
      const operator = client(twice.service.url, adminToken);
      const bytes = randomBytes(70_000);
      const { fileId } = await twice.owner.call.store('plain', bytes);
      await operator.createMigration({ from: 'store', to: 'again' });
      const isThere = async (ms: number): Promise<void> => {
        await twice.pass(ms, { rounds: 3 });
        expect(Buffer.compare(await bytesOf(twice.owner.call(`/v1/storage/${fileId}/content`)), bytes)).toBe(0);
      };
      for (const ms of [60_000, day / 24, 2 * day]) await isThere(ms);
      expect(twice.service.log.some((line) => line.includes('again is the bucket and prefix of store'))).toBe(true);
      await operator.cancelMigration({ from: 'store', to: 'again' });
      await isThere(60_000);
      await twice.owner.call.deleteFile({ fileId });
      await twice.pass(2 * day, { rounds: 3 });
      expect(await twice.keys()).toEqual(['service']);
    } finally {
      await twice.close();
      await own.close();
    }
  });

  inCi('that only reads takes nothing, reads what is there, and the log says what to do', async () => {
    const bytes = randomBytes(70_000);
    const { fileId } = await store.owner.call.store('plain', bytes);
    await gateway.kill();
    await gateway.start({ isReadOnly: true });
    const response = await store.owner.call('/v1/storage/plain', { method: 'POST', body: randomBytes(1000) });
    expect(response.status).toBe(500);
    expect((await response.json<Problem>()).code).toBe('misconfigured');
    await expect.poll(() => store.service.log.some((line) => line.includes('what the key may do'))).toBe(true);
    expect(Buffer.compare(await bytesOf(store.owner.call(`/v1/storage/${fileId}/content`)), bytes)).toBe(0);
    const deleted = await store.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' });
    expect((await jsonOf<{ pins: { status: string }[] }>(deleted)).pins[0]?.status).toBe('scheduled');
    await gateway.kill();
    await gateway.start();
    await store.pass(day, { rounds: 3 });
    const after = await jsonOf<{ pins: { status: string }[] }>(await store.owner.call(`/v1/storage/${fileId}/receipt`));
    expect(after.pins[0]?.status).toBe('unpinned');
  });
  it('whose clock differs is followed where that helps; else health says what to do', async () => {
    const hostile = present(store.hostile);
    const skewed = refuses('RequestTimeTooSkewed', { date: new Date().toUTCString() });
    hostile.obey({ nth: 1, fault: skewed });
    const { fileId } = await store.owner.call.store('plain', randomBytes(1000));
    hostile.obey({ fault: skewed });
    const health = async (): Promise<Health> =>
      await (await client(store.service.url, adminToken)('/v1/health')).json<Health>();
    // What an earlier request has found counts for some seconds.
    const hint = expect.stringContaining('clocks') as string;
    await expect
      .poll(health)
      .toMatchObject({ services: [{ id: 'store', status: 'failing', code: 'misconfigured', hint }] });
    hostile.obey();
    await store.owner.call.deleteFile({ fileId });
  });
});
