/**
 * Service and store after workerd is killed, or a call is lost, between any two steps: what was
 * acknowledged is there, and nothing else.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { FileList } from '../../../shared/api.ts';
import { bytesOf, jsonOf } from '../../../testkit/api-client.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import type { Fault } from '../faulty-calls.ts';
import { pinObject } from '../stored-state.ts';
import { create, patch } from '../uploads/tus-client.ts';
import { costlyKinds, describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';

const day = 86_400_000;

describeStores('%s', costlyKinds, (kind) => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore(kind);
  });
  beforeEach(() => store.forget());
  afterAll(() => store.close());

  const post = (bytes: Uint8Array): Promise<Response> =>
    store.owner.call('/v1/storage/plain', {
      method: 'POST',
      headers: { 'Content-Type': 'application/octet-stream' },
      body: bytes as BodyInit,
    });

  /**
   * Checks that a file that was acknowledged is whole, and that after its deletion nothing is left.
   */
  async function expectTrue(fileId: string | undefined, bytes: Uint8Array): Promise<void> {
    await store.pass(3 * day, { rounds: 3 });
    if (fileId !== undefined) {
      expect(Buffer.compare(await bytesOf(store.owner.call(`/v1/storage/${fileId}/content`)), bytes)).toBe(0);
      expect((await store.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' })).status).toBe(200);
    }
    // Who has no answer finds the file in the list.
    const { files } = await jsonOf<FileList>(await store.owner.call('/v1/storage'));
    for (const each of files) await jsonOf(await store.owner.call(`/v1/storage/${each.fileId}`, { method: 'DELETE' }));
    await store.pass(3 * day, { rounds: 4 });
    expect(await store.keys()).toEqual(['service']);
  }

  const calls = ['addReference', 'commit'];
  const faults: readonly Fault[] = ['before', 'after'];
  /** In the short form each call, with one of the faults in turn. */
  const lost = (names: readonly string[]) =>
    names
      .flatMap((call) => faults.map((fault) => [call, fault] as const))
      .filter((_, at) => ci || at % 4 === 0 || at % 4 === 3);
  it.each(lost(calls))('a request whose call %s fails %s it is done', async (call, fault) => {
    const bytes = randomBytes(2_500_000);
    await store.owner.object.fail(call, fault);
    const response = await post(bytes);
    const { fileId } = response.status === 201 ? await response.json<{ fileId: string }>() : { fileId: undefined };
    await expectTrue(fileId, bytes);
  });

  it.each(lost(['open', 'keep', 'addReference', 'drop']))(
    'an upload in several requests whose call %s fails %s it is done',
    async (call, fault) => {
      const bytes = randomBytes(1_300_000);
      const { path } = await create(store.owner.call, 'plain', bytes.length);
      await store.owner.object.fail(call, fault);
      const response = await patch(store.owner.call, path, 0, bytes);
      await store.pass(60_000, { rounds: 3 });
      const fileId = response.headers.get('Sealpin-File') ?? undefined;
      expect(fileId).toBeDefined();
      await expectTrue(fileId, bytes);
    },
  );

  it('an index that was written, unlike the row that is to say so, keeps what it names', async () => {
    const bytes = randomBytes(1000);
    const { fileId, cid } = await store.owner.call.store('plain', bytes);
    const pin = await pinObject(store.service, cid);
    for (const suspect of [0, 1]) {
      await pin.change(`UPDATE pin SET object = '${'0'.repeat(32)}', suspect = ${suspect} WHERE cid = '${cid}'`);
      await store.pass(3 * day, { rounds: 3 });
      expect(Buffer.compare(await bytesOf(store.owner.call(`/v1/storage/${fileId}/content`)), bytes)).toBe(0);
    }
    await expectTrue(fileId, bytes);
  });

  inCi('many who store and delete the same bytes at once lose nothing, and leave nothing', async () => {
    const bytes = randomBytes(1_200_000);
    const kept: string[] = [];
    await Promise.all(
      Array.from({ length: 12 }, async (_, at) => {
        const response = await post(bytes);
        if (response.status !== 201) return;
        const { fileId } = await response.json<{ fileId: string }>();
        if (at % 2 === 0) kept.push(fileId);
        else expect((await store.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' })).status).toBe(200);
      }),
    );
    expect(kept.length).toBeGreaterThan(0);
    for (const fileId of kept)
      expect(Buffer.compare(await bytesOf(store.owner.call(`/v1/storage/${fileId}/content`)), bytes)).toBe(0);
    for (const fileId of kept) await jsonOf(await store.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' }));
    await expectTrue(undefined, bytes);
  });
});
