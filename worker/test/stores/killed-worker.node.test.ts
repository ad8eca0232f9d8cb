/**
 * The Worker killed between any two steps of storing and of removing: what was acknowledged is
 * there, what was deleted is gone, and in the end nothing is left.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect } from 'vitest';
import type { FileList, StoredFile } from '../../../shared/api.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { answersLate, type Rule } from '../../../testkit/object-stores/hostile-store.ts';
import { bytesOf, jsonOf } from '../../../testkit/api-client.ts';
import { describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';

const day = 86_400_000;
const rounds = long ? 50 : 3;

// R2 is simulated: `simulation/` kills the service at any step there.
describeStores('%s', ['s3'], (kind) => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore(kind);
  });
  afterAll(() => store.close());

  const post = (bytes: Uint8Array): Promise<Response> =>
    store.owner.call('/v1/storage/plain', {
      method: 'POST',
      headers: { 'Content-Type': 'application/octet-stream' },
      body: bytes as BodyInit,
    });
  const read = (fileId: string): Promise<Response> => store.owner.call(`/v1/storage/${fileId}/content`);
  const remove = (fileId: string): Promise<Response> => store.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' });
  const acknowledged = (asked: Promise<Response>, status: number): Promise<Response | undefined> =>
    asked.then(
      (response) => (response.status === status ? response : undefined),
      () => undefined,
    );

  /**
   * Does something while the Worker is killed at one of some requests to the store, before it is
   * done or after.
   */
  async function whileKilled<T>(round: number, requests: number, work: () => Promise<T>) {
    const { hostile, service } = store;
    let killed: Promise<void> | undefined;
    const kill = (): Promise<void> => (killed ??= service.kill());
    const isAfter = round % 2 === 1;
    const fault: Rule['fault'] = () => {
      const dead = kill();
      return isAfter ? answersLate(dead) : { kind: 'late', until: dead, next: { kind: 'cut', afterBytes: 0 } };
    };
    const last: Rule['fault'] = () => ({ kind: 'late', until: kill(), next: { kind: 'answer', status: 503 } });
    hostile?.obey({ nth: 1 + (Math.floor(round / 2) % requests), fault: isAfter ? fault : last });
    const done = await work();
    await kill();
    hostile?.obey();
    await store.again();
    return done;
  }

  /** Counts the requests to the store that some work takes. */
  async function measured<T>(work: () => Promise<T>): Promise<{ done: T; requests: number }> {
    const before = store.hostile?.requests.length ?? 0;
    const done = await work();
    return { done, requests: Math.max(1, (store.hostile?.requests.length ?? 0) - before) };
  }

  inCi(`in ${rounds} rounds of storing and of removing, nothing acknowledged is lost, and nothing stays`, async () => {
    const kept: { fileId: string; bytes: Uint8Array }[] = [];
    const sizes = [1000, 2_500_000];
    // The first file of all asks whose the prefix is.
    await post(randomBytes(10));
    for (let round = 0; round < rounds; round += 1) {
      const bytes = randomBytes(sizes[round % 2] ?? 0);
      const { done: sample, requests: storing } = await measured(() =>
        jsonOf<StoredFile>(post(randomBytes(bytes.length)), 201),
      );
      const { requests: removing } = await measured(() => remove(sample.fileId));
      const stored = await whileKilled(round, storing, () => acknowledged(post(bytes), 201));
      if (stored !== undefined) kept.push({ ...(await stored.json<StoredFile>()), bytes });
      const { fileId } = await jsonOf<StoredFile>(post(bytes), 201);
      const removed = await whileKilled(round, removing, () => acknowledged(remove(fileId), 200));
      const after = await read(fileId);
      if (removed !== undefined || after.status !== 200) expect([404, 410]).toContain(after.status);
      else expect(Buffer.compare(await bytesOf(after), bytes)).toBe(0);
    }
    for (const { fileId, bytes } of kept) expect(Buffer.compare(await bytesOf(read(fileId)), bytes)).toBe(0);
    await store.pass(3 * day, { rounds: 3 });
    for (const { fileId, bytes } of kept) expect(Buffer.compare(await bytesOf(read(fileId)), bytes)).toBe(0);
    for (;;) {
      const { files } = await jsonOf<FileList>(await store.owner.call('/v1/storage'));
      if (files.length === 0) break;
      for (const { fileId } of files) await jsonOf(await remove(fileId));
    }
    await store.pass(3 * day, { rounds: 5 });
    expect(await store.keys()).toEqual(['service']);
  });
});
