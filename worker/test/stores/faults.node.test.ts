/**
 * What a store does on a bad day, and what the service makes of it: nothing acknowledged is lost,
 * and each message says what to do.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Health, Problem } from '../../../shared/api.ts';
import {
  answersLate,
  doesAndRefuses,
  failsWith200,
  refuses,
  resizes,
  type Rule,
} from '../../../testkit/object-stores/hostile-store.ts';
import { startVersitygw, type Versitygw } from '../../../testkit/object-stores/versitygw.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { adminToken, metricsToken } from '../../../testkit/service.ts';
import { decodeIndex } from '../../backends/objects/object-index.ts';
import { bytesOf, client, jsonOf, problemOf } from '../client.ts';
import { shardObject } from '../stored-state.ts';
import { create, offsetOf, patch, send } from '../uploads/tus-client.ts';
import { missing, startStore, type StoreUnderTest } from './store-under-test.ts';

const mib = 1_048_576;
const day = 86_400_000;
const why = missing('s3');

describe.skipIf(why !== undefined)(`a hostile S3${why === undefined ? '' : `: ${why}`}`, () => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore('s3');
  });
  afterEach(() => obey());
  afterAll(() => store.close());

  const obey = (...rules: Rule[]): void => present(store.hostile).obey(...rules);
  const post = (bytes: Uint8Array): Promise<Response> =>
    store.owner.call('/v1/storage/plain', {
      method: 'POST',
      headers: { 'Content-Type': 'application/octet-stream' },
      body: bytes as BodyInit,
    });
  const read = (fileId: string): Promise<Response> => store.owner.call(`/v1/storage/${fileId}/content`);
  const remove = (fileId: string): Promise<Response> => store.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' });
  const data = /\/data\//;
  const index = /\/cid\//;

  async function expectEmpty(): Promise<void> {
    obey();
    await store.pass(3 * day, { rounds: 3 });
    expect(await store.keys()).toEqual(['service']);
  }

  it.each([
    ['SlowDown', refuses('SlowDown')],
    ['an internal error', refuses('InternalError')],
    ['too many requests', refuses('TooManyRequests')],
    ['an error after it has stored it', doesAndRefuses('InternalError')],
  ])('%s to a first request is tried again where nothing is lost by that', async (_, fault) => {
    const bytes = randomBytes(300_000);
    for (const [method, key] of [
      ['PUT', data],
      ['PUT', index],
      ['HEAD', index],
      ['DELETE', data],
      ['GET', data],
    ] as const) {
      obey({ method, key, nth: 1, fault });
      const response = await post(bytes);
      const { fileId } = await jsonOf<{ fileId: string }>(response, 201);
      expect(Buffer.compare(await bytesOf(read(fileId)), bytes), `${method} ${key.source}`).toBe(0);
      expect((await remove(fileId)).status).toBe(200);
    }
    await expectEmpty();
  });

  it('a stream is not sent twice: 503 tells the client when to come back, and nothing is left', async () => {
    const bytes = randomBytes(4 * mib);
    obey({ method: 'PUT', key: data, nth: 1, fault: refuses('SlowDown') });
    const refused = await post(bytes);
    expect(refused.status).toBe(503);
    expect(refused.headers.get('Retry-After')).toBe('5');
    const { fileId } = await jsonOf<{ fileId: string }>(await post(bytes), 201);
    expect(Buffer.compare(await bytesOf(read(fileId)), bytes)).toBe(0);
    await remove(fileId);
    await expectEmpty();
  });

  it('an upload in several requests continues where the store has failed, with the same bytes', async () => {
    const bytes = randomBytes(9 * mib + 3);
    const { path } = await create(store.owner.call, 'encrypted', bytes.length);
    expect((await patch(store.owner.call, path, 0, bytes.subarray(0, 3 * mib))).status).toBe(204);
    obey({ method: 'PUT', key: data, nth: 1, fault: refuses('ServiceUnavailable') });
    expect((await patch(store.owner.call, path, 3 * mib, bytes.subarray(3 * mib, 8 * mib))).status).toBe(503);
    obey();
    const offset = await offsetOf(store.owner.call, path);
    expect(offset).toBe(3 * mib);
    const last = await send(store.owner.call, path, bytes, 4 * mib, offset);
    const fileId = present(last.headers.get('Sealpin-File'));
    expect(Buffer.compare(await bytesOf(read(fileId)), bytes)).toBe(0);
    await remove(fileId);
    await expectEmpty();
  });

  it('200 with an error inside stores nothing, and is none', async () => {
    obey({ method: 'PUT', key: index, fault: failsWith200('InternalError') });
    expect((await post(randomBytes(1000))).status).toBeGreaterThanOrEqual(500);
    await expectEmpty();
  });

  it.each([
    ['NoSuchBucket', 'there is no such bucket'],
    ['AccessDenied', 'what the key may do'],
    ['InvalidAccessKeyId', 'access key'],
    ['SignatureDoesNotMatch', 'secret'],
    ['AuthorizationHeaderMalformed', 'region'],
  ] as const)('%s is a fault of the configuration, which the log explains', async (code, what) => {
    obey({ fault: refuses(code) });
    const response = await post(randomBytes(1000));
    expect(response.status).toBe(500);
    expect((await response.json<Problem>()).code).toBe('misconfigured');
    await expect.poll(() => store.service.log.some((line) => line.includes(what))).toBe(true);
    await expectEmpty();
  });

  it('a store that is full takes nothing, and says so', async () => {
    obey({ method: 'PUT', key: data, fault: refuses('QuotaExceeded') });
    const response = await post(randomBytes(1000));
    expect(response.status).toBe(507);
    expect((await response.json<Problem>()).code).toBe('disk_full');
    await expectEmpty();
  });

  it('other bytes, fewer and more are found, and never served', async () => {
    const bytes = randomBytes(2 * mib);
    const { fileId } = await jsonOf<{ fileId: string }>(await post(bytes), 201);
    for (const fault of [
      { kind: 'flip', atByte: 5 } as const,
      resizes(-1),
      resizes(1),
      { kind: 'cut', afterBytes: 50 } as const,
    ]) {
      obey({ method: 'GET', key: data, fault });
      const response = await read(fileId);
      expect(response.status).toBeGreaterThanOrEqual(500);
      obey({ method: 'GET', key: index, fault });
      expect((await read(fileId)).status).toBeGreaterThanOrEqual(500);
    }
    obey();
    expect(Buffer.compare(await bytesOf(read(fileId)), bytes)).toBe(0);
    await remove(fileId);
    await expectEmpty();
  });

  it('a listing that is old keeps a receipt open until the objects are gone', async () => {
    const { fileId } = await jsonOf<{ fileId: string }>(await post(randomBytes(5000)), 201);
    obey({ method: 'DELETE', fault: refuses('InternalError') });
    const receipt = await jsonOf<{ pins: { status: string }[] }>(await remove(fileId));
    expect(receipt.pins[0]?.status).toBe('scheduled');
    await expectEmpty();
    const after = await jsonOf<{ pins: { status: string }[] }>(await store.owner.call(`/v1/storage/${fileId}/receipt`));
    expect(after.pins[0]?.status).toBe('unpinned');
  });

  it('a part that arrives after its upload was removed is found by the sweep', async () => {
    let arrive = (): void => undefined;
    const late = new Promise<void>((resolve) => (arrive = resolve));
    obey({ method: 'PUT', key: data, nth: 1, fault: answersLate(late) });
    const controller = new AbortController();
    const sending = fetch(`${store.service.url}/v1/storage/plain`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${store.owner.call.apiKey}` },
      body: randomBytes(1000),
      signal: controller.signal,
    }).catch(() => undefined);
    await expect.poll(async () => (await store.keys()).some((key) => key.startsWith('data/'))).toBe(true);
    controller.abort();
    await sending;
    arrive();
    await expectEmpty();
  });

  it('objects without a row are removed after a day, unless they are many', async () => {
    const { fileId } = await jsonOf<{ fileId: string }>(await post(randomBytes(10)), 201);
    const digits = (await store.keys()).find((key) => key.startsWith('data/'))?.slice(5, 7) ?? '';
    await remove(fileId);
    const id = digits.repeat(16);
    await store.write(`data/${id}/00000000`, Buffer.from('a stray'));
    const pin = shardObject(store.service, digits);
    await pin.ring(2 * day);
    // It is young by the store's clock, whatever ours says.
    expect(await store.keys()).toContain(`data/${id}/00000000`);
    await store.age(`data/${id}/00000000`, 2 * day);
    await pin.ring(2 * day);
    expect(await store.keys()).not.toContain(`data/${id}/00000000`);
    for (let n = 0; n < 101; n += 1) {
      const key = `data/${digits}${String(n).padStart(30, '0')}/00000000`;
      await store.write(key, Buffer.from('one of many'));
      await store.age(key, 2 * day);
    }
    await pin.ring(2 * day);
    const left = async (): Promise<number> =>
      (await store.keys()).filter((key) => key.startsWith(`data/${digits}`)).length;
    expect(await left()).toBe(101);
    const operator = client(store.service.url, adminToken);
    const waiting = { stores: [{ service: 'store', objects: 101 }] };
    expect(await operator.listStrays()).toEqual(waiting);
    const metrics = await client(store.service.url, metricsToken)('/v1/operator/metrics');
    expect(await metrics.text()).toContain('sealpin_stray_objects{service="store"} 101');
    expect(await problemOf(operator.ask('removeStrays', { service: 'another' }))).toBe('404 not_found');
    expect(await operator.removeStrays({ service: 'store' })).toEqual(waiting);
    await expect.poll(async () => (await pin.ring(60_000), await left())).toBe(0);
    expect(await operator.listStrays()).toEqual({ stores: [] });
    // The next time, the operator is asked again.
    const [sweep] = await pin.rows('object_sweep');
    expect(sweep).toMatchObject({ waiting: 0, allowed: 0 });
    await expectEmpty();
  });

  it('what requests that broke off have left beside a file is removed within a day', async () => {
    const bytes = randomBytes(9 * mib + 3);
    const { path, id } = await create(store.owner.call, 'plain', bytes.length);
    expect((await patch(store.owner.call, path, 0, bytes.subarray(0, 3 * mib))).status).toBe(204);
    // It is stored, and nobody hears of it.
    obey({ method: 'PUT', key: data, fault: doesAndRefuses('ServiceUnavailable') });
    expect((await patch(store.owner.call, path, 3 * mib, bytes.subarray(3 * mib, 8 * mib))).status).toBe(503);
    obey();
    const last = await send(store.owner.call, path, bytes, 4 * mib, await offsetOf(store.owner.call, path));
    const cid = present(last.headers.get('Sealpin-Cid'));
    const objects = async (): Promise<string[]> => (await store.keys()).filter((key) => key.startsWith('data/'));
    const named = (await decodeIndex(cid, await store.read(`cid/${cid}`))).objects.length;
    expect((await objects()).length).toBeGreaterThan(named);
    await store.pass(day / 2);
    expect((await objects()).length).toBe(named);
    expect(Buffer.compare(await bytesOf(read(id)), bytes)).toBe(0);
    await remove(id);
    await expectEmpty();
  });

  it('a clock that is wrong is set by that of the store, and it is said where that does not help', async () => {
    const skewed = refuses('RequestTimeTooSkewed', { date: new Date().toUTCString() });
    obey({ nth: 1, fault: skewed });
    const { fileId } = await jsonOf<{ fileId: string }>(await post(randomBytes(1000)), 201);
    obey({ fault: skewed });
    expect(await problemOf(post(randomBytes(1000)))).toBe('500 misconfigured');
    await expect.poll(() => store.service.log.some((line) => line.includes('the operator must set them'))).toBe(true);
    const health = async (): Promise<Health['services']> =>
      (await (await client(store.service.url, adminToken)('/v1/health')).json<Health>()).services;
    // What an earlier request has found counts for some seconds.
    await expect
      .poll(health)
      .toMatchObject([
        { id: 'store', status: 'failing', code: 'misconfigured', hint: expect.stringContaining('clocks') },
      ]);
    obey();
    await remove(fileId);
    await expectEmpty();
  });
});

describe.skipIf(why !== undefined)(`a gateway of S3${why === undefined ? '' : `: ${why}`}`, () => {
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

  it('keeps the files of two services apart, and no service takes the prefix of another', async () => {
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

  it('that only reads takes nothing, reads what is there, and the log says what to do', async () => {
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
});
