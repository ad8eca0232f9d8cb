/** Objects that belong to nothing: which are removed, and which wait for the operator. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { cidOf } from '../../../shared/ipfs/index.ts';
import { answersLate, doesAndRefuses, flips } from '../../../testkit/object-stores/hostile-store.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { adminToken, metricsToken } from '../../../testkit/service.ts';
import { decodeIndex } from '../../backends/objects/object-index.ts';
import { objectIdOf } from '../../objects/pin/stores/object-names.ts';
import { bytesOf, client, problemOf } from '../../../testkit/api-client.ts';
import { pinObject, shardObject } from '../stored-state.ts';
import { create, offsetOf, patch, send } from '../uploads/tus-client.ts';
import { describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';

const mib = 1_048_576;
const day = 86_400_000;
describeStores('objects of nobody in S3', ['s3'], () => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore('s3');
  });
  afterAll(() => store.close());

  async function expectEmpty(): Promise<void> {
    present(store.hostile).obey();
    await store.pass(3 * day, { rounds: 3 });
    expect(await store.keys()).toEqual(['service']);
    store.forget();
  }

  /** Stores a file and deletes it. @returns the digits of the object that has had its row */
  async function digitsInUse(): Promise<string> {
    const { fileId } = await store.owner.call.store('plain', randomBytes(10));
    await store.owner.call.deleteFile({ fileId });
    return (await objectIdOf(fileId)).slice(0, 2);
  }

  it('are removed after a day, unless they are many', async () => {
    const digits = await digitsInUse();
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

  /** Stores a file, and counts the days from the first sweep of the object that has its row. */
  async function watchedSweeps() {
    let digits = '00';
    let fileId = '';
    // The first of these objects also sees the files of all others.
    while (digits === '00') {
      ({ fileId } = await store.owner.call.store('plain', randomBytes(10)));
      digits = (await objectIdOf(fileId)).slice(0, 2);
    }
    const pin = shardObject(store.service, digits);
    await pin.stopAlarm();
    const { requests } = present(store.hostile);
    const isSweep = new RegExp(`data(%2F|/)${digits}(&|$)`);
    let today = 0;
    /** Returns the days with a sweep, until the end of the last one. */
    async function sweepsUntil(last: number): Promise<number[]> {
      const days = [];
      for (today += 1; today <= last; today += 1) {
        const before = requests.length;
        await pin.ring(day);
        if (requests.slice(before).some(({ key }) => isSweep.test(key))) days.push(today);
      }
      today = last;
      return days;
    }
    return { fileId, digits, pin, isSweep, sweepsUntil };
  }

  it('are looked for less often while nothing changes, at least once a week, and soon after a change', async () => {
    const { owner } = store;
    const { fileId, digits, sweepsUntil } = await watchedSweeps();
    expect(await sweepsUntil(24)).toEqual([1, 2, 4, 8, 15, 22]);
    await owner.call.deleteFile({ fileId });
    expect(await sweepsUntil(29)).toEqual([25, 26, 28]);
    const stray = `data/${digits.repeat(16)}/00000000`;
    await store.write(stray, Buffer.from('a stray'));
    expect(await sweepsUntil(35)).toEqual([32, 33, 34, 35]);
    await store.age(stray, 2 * day);
    expect(await sweepsUntil(36)).toEqual([36]);
    expect(await store.keys()).not.toContain(stray);
    await expectEmpty();
  });

  it('are looked for soon after a change that comes while they are looked for', async () => {
    const { fileId, pin, isSweep, sweepsUntil } = await watchedSweeps();
    expect(await sweepsUntil(7)).toEqual([1, 2, 4]);
    const hostile = present(store.hostile);
    const released = Promise.withResolvers<void>();
    hostile.obey({ method: 'GET', key: isSweep, nth: 1, fault: answersLate(released.promise) });
    const before = hostile.requests.length;
    const sweeping = sweepsUntil(8);
    await expect.poll(() => hostile.requests.slice(before).some(({ key }) => isSweep.test(key))).toBe(true);
    // As an upload does that begins in this object; one that does is hard to hit.
    await pin.change('UPDATE object_sweep SET unchanged = 0');
    released.resolve();
    expect(await sweeping).toEqual([8]);
    expect(await sweepsUntil(9)).toEqual([9]);
    await store.owner.call.deleteFile({ fileId });
    await expectEmpty();
  });

  inCi('wait for the operator, few as they are, where they were there before any row', async () => {
    // A database that was lost: its objects are those of files.
    const ids = Array.from({ length: 256 }, (_, at) => at.toString(16).padStart(2, '0').repeat(16));
    for (const id of ids) {
      await store.write(`data/${id}/00000000`, Buffer.from('a file of before'));
      await store.age(`data/${id}/00000000`, 2 * day);
    }
    const before = await shardsWithRows();
    let digits = await digitsInUse();
    while (before.has(digits)) digits = await digitsInUse();
    const pin = shardObject(store.service, digits);
    const key = `data/${digits.repeat(16)}/00000000`;
    for (let sweep = 0; sweep < 3; sweep += 1) await pin.ring(2 * day);
    expect(await store.keys()).toContain(key);
    const operator = client(store.service.url, adminToken);
    expect((await operator.listStrays()).stores).toEqual([{ service: 'store', objects: 1 }]);
    await operator.removeStrays({ service: 'store' });
    await expect.poll(async () => (await pin.ring(60_000), await store.keys())).not.toContain(key);
    // From now on its strays are those of any other.
    await store.write(key, Buffer.from('a stray'));
    await store.age(key, 2 * day);
    await expect.poll(async () => (await pin.ring(2 * day), await store.keys())).not.toContain(key);
    for (const id of ids) await store.lose(`data/${id}/00000000`).catch(() => undefined);
    await expectEmpty();
  });

  inCi('are not those of a file whose rows are older than they are, once it was checked', async () => {
    const { owner, service } = store;
    const bytes = randomBytes(1000);
    const { fileId, cid } = await owner.call.store('plain', bytes);
    // A database of before, in which the file had other objects.
    const id = await objectIdOf(fileId);
    const [pin, object] = [await pinObject(service, cid), shardObject(service, id.slice(0, 2))];
    await pin.change(`UPDATE pin SET object = '${'0'.repeat(32)}' WHERE cid = '${cid}'`);
    await object.change(`DELETE FROM object WHERE id = '${id}'`);
    await client(service.url, adminToken).repairPins();
    const objectOfRow = async () => (await pin.rows('pin')).find((row) => row['cid'] === cid)?.['object'];
    await expect.poll(async () => (await pin.ring(1000), await objectOfRow())).toBe(id);
    await store.age(`data/${id}/00000000`, 2 * day);
    for (let sweep = 0; sweep < 2; sweep += 1) await object.ring(2 * day);
    expect(Buffer.compare(await bytesOf(owner.call(`/v1/storage/${fileId}/content`)), bytes)).toBe(0);
    await owner.call.deleteFile({ fileId });
    await expectEmpty();
  });

  inCi('are indexes, too, which a store wrote when nobody waited for them any more', async () => {
    const { owner } = store;
    const [{ fileId, cid }, kept] = [
      await owner.call.store('plain', randomBytes(1000)),
      await owner.call.store('plain', randomBytes(1000)),
    ];
    const index = await store.read(`cid/${cid}`);
    await owner.call.deleteFile({ fileId });
    await store.write(`cid/${cid}`, index);
    const first = shardObject(store.service, '00');
    await first.ring(2 * day);
    expect(await store.keys()).toContain(`cid/${cid}`);
    for (const each of [cid, kept.cid]) await store.age(`cid/${each}`, 2 * day);
    await first.ring(2 * day);
    const indexes = async () => (await store.keys()).filter((key) => key.startsWith('cid/'));
    expect(await indexes()).toEqual([`cid/${kept.cid}`]);
    // Many wait for the operator.
    const left = Array.from({ length: 101 }, (_, at) => `cid/${cidOf('raw', Buffer.alloc(32, at)).text}`);
    for (const key of left) {
      await store.write(key, index);
      await store.age(key, 2 * day);
    }
    await first.ring(2 * day);
    expect((await indexes()).length).toBe(102);
    await client(store.service.url, adminToken).removeStrays({ service: 'store' });
    await expect.poll(async () => (await first.ring(60_000), await indexes())).toEqual([`cid/${kept.cid}`]);
    expect((await bytesOf(owner.call(`/v1/storage/${kept.fileId}/content`))).length).toBe(1000);
    await owner.call.deleteFile({ fileId: kept.fileId });
    await expectEmpty();
  });

  inCi('are objects of a file whose place others have taken while it was asked about them', async () => {
    const { owner, service } = store;
    const hostile = present(store.hostile);
    const bytes = randomBytes(1000);
    const { fileId, cid } = await owner.call.store('plain', bytes);
    const id = await objectIdOf(fileId);
    const object = shardObject(service, id.slice(0, 2));
    await store.write(`data/${id}/00000000`, randomBytes(1000));
    expect(await problemOf(owner.call(`/v1/storage/${fileId}/content`))).toBe('502 content_mismatch');
    const pin = await pinObject(service, cid);
    await expect.poll(async () => (await pin.rows('pin'))[0]?.['suspect']).toBe(1);
    // In production the alarm that is at work is the only one.
    await object.stopAlarm();
    // The index is read after it was said that the file needs the objects.
    const released = Promise.withResolvers<void>();
    hostile.obey({ method: 'GET', key: /\/cid\//, nth: 1, fault: answersLate(released.promise) });
    const before = hostile.requests.length;
    const asking = object.ring(2 * 3_600_000);
    await expect.poll(() => hostile.requests.slice(before).some(({ key }) => key.includes('/cid/'))).toBe(true);
    const again = await owner.call.store('plain', bytes);
    released.resolve();
    await asking;
    for (let round = 0; round < 2; round += 1) await object.ring(60_000);
    expect((await store.keys()).filter((key) => key.startsWith(`data/${id}`))).toEqual([]);
    expect(Buffer.compare(await bytesOf(owner.call(`/v1/storage/${again.fileId}/content`)), bytes)).toBe(0);
    for (const each of [fileId, again.fileId]) await owner.call.deleteFile({ fileId: each });
    await expectEmpty();
  });

  /** The digits whose objects have had rows. */
  async function shardsWithRows(): Promise<Set<string>> {
    const seen = new Set<string>();
    for (let at = 0; at < 256; at += 1) {
      const digits = at.toString(16).padStart(2, '0');
      if ((await shardObject(store.service, digits).rows('object_sweep')).length > 0) seen.add(digits);
    }
    return seen;
  }

  inCi('beside a file, as requests that broke off leave them, are removed within a day', async () => {
    const { owner } = store;
    const bytes = randomBytes(9 * mib + 3);
    const { path, id } = await create(owner.call, 'plain', bytes.length);
    expect((await patch(owner.call, path, 0, bytes.subarray(0, 3 * mib))).status).toBe(204);
    // It is stored, and nobody hears of it.
    present(store.hostile).obey({ method: 'PUT', key: /\/data\//, fault: doesAndRefuses('ServiceUnavailable') });
    expect((await patch(owner.call, path, 3 * mib, bytes.subarray(3 * mib, 8 * mib))).status).toBe(503);
    present(store.hostile).obey();
    const last = await send(owner.call, path, bytes, 4 * mib, await offsetOf(owner.call, path));
    const cid = present(last.headers.get('Sealpin-Cid'));
    const objects = async (): Promise<string[]> => (await store.keys()).filter((key) => key.startsWith('data/'));
    const named = (await decodeIndex(cid, await store.read(`cid/${cid}`))).objects.length;
    expect((await objects()).length).toBeGreaterThan(named);
    await store.pass(day / 2);
    expect((await objects()).length).toBe(named);
    expect(Buffer.compare(await bytesOf(owner.call(`/v1/storage/${id}/content`)), bytes)).toBe(0);
    await owner.call.deleteFile({ fileId: id });
    await expectEmpty();
  });

  const rows = [
    ['its row names them', ''],
    ['its row names others', `UPDATE pin SET object = '${'0'.repeat(32)}'`],
    ['its row is lost', 'DELETE FROM pin'],
  ].slice(ci ? 0 : 2);
  it.each(rows)('are not those of a file whose index reads wrong, at any byte, where %s', async (_, change) => {
    const { owner, service } = store;
    const hostile = present(store.hostile);
    const { fileId, cid } = await owner.call.store('plain', randomBytes(1000));
    const id = await objectIdOf(fileId);
    const [pin, object] = [await pinObject(service, cid), shardObject(service, id.slice(0, 2))];
    const first = shardObject(service, '00');
    for (const each of [pin, object, first]) await each.stopAlarm();
    if (change !== '') await pin.change(`${change} WHERE cid = '${cid}'`);
    const files = ['service', `cid/${cid}`, `data/${id}/00000000`];
    await store.age(`cid/${cid}`, 2 * day);
    const bytes = (await store.read(`cid/${cid}`)).length;
    for (let at = 0; at < bytes; at += ci ? 1 : 7) {
      for (const [asked, due] of [
        [object, `UPDATE object SET due = 0 WHERE id = '${id}'`],
        [first, 'UPDATE object_sweep SET due = 0'],
      ] as const) {
        hostile.obey({ method: 'GET', key: /\/cid\/b/, nth: 1, fault: flips(at) });
        await asked.change(due);
        await asked.ring(1);
      }
      expect((await store.keys()).toSorted(), `byte ${at}`).toEqual(files.toSorted());
    }
    hostile.obey();
    for (const key of files.slice(1)) await store.lose(key);
    await object.change(`DELETE FROM object WHERE id = '${id}'`);
    await owner.call.deleteFile({ fileId });
    await expectEmpty();
  });
});
