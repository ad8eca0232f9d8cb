/** Files between a pinning service and an object store: replicas, migrations, repair. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { startNode, type RunningNode } from '../../../testkit/node.ts';
import type { StoredFile } from '../../../shared/api.ts';
import { adminToken, rpcToken } from '../../../testkit/service.ts';
import { bytesOf, jsonOf } from '../../../testkit/api-client.ts';
import { askNode, pinObject, pinned, sweep } from '../stored-state.ts';
import { foreignCar } from './foreign-car.ts';
import { costlyKinds, describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';

const mib = 1_048_576;
const day = 86_400_000;

describeStores('%s', costlyKinds, (kind) => {
  let dir: string;
  let node: RunningNode;
  const open: { close(): Promise<void> }[] = [];
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sealpin-stores-'));
    node = await startNode({ dir, token: rpcToken });
  });
  afterAll(async () => {
    for (const each of open) await each.close();
    await node.close();
    await rm(dir, { recursive: true, force: true });
  });

  /** A service with the node and the store, in this order or the other one. */
  async function start(
    order: 'node first' | 'store first',
    vars: Record<string, string> = {},
  ): Promise<StoreUnderTest> {
    const kubo = { id: 'node', type: 'kubo', url: node.url, tokenSecret: 'KUBO_TOKEN' };
    const places = order === 'node first' ? { first: [kubo] } : { others: [kubo] };
    const store = await startStore(kind, { node, vars, ...places });
    open.push(store);
    return store;
  }

  const pinsOf = async ({ owner }: StoreUnderTest, { fileId }: StoredFile): Promise<string[]> => {
    const { pins } = await jsonOf<StoredFile>(await owner.call(`/v1/storage/${fileId}?data=false`));
    return pins.map(({ service, status }) => `${service} ${status}`).toSorted();
  };
  /** Lets the alarm of a CID ring until something holds. */
  async function until({ service }: StoreUnderTest, cid: string, isDone: () => Promise<boolean>): Promise<void> {
    const pin = await pinObject(service, cid);
    for (let round = 0; round < 40 && !(await isDone()); round += 1) await pin.ring(2 * 3_600_000);
    expect(await isDone()).toBe(true);
  }
  const migrate = async ({ service }: StoreUnderTest, from: string, to: string): Promise<void> => {
    const response = await fetch(`${service.url}/v1/operator/migrations`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ from, to }),
    });
    expect(response.status, await response.clone().text()).toBe(202);
  };
  const bytesIn = async ({ owner }: StoreUnderTest, { fileId }: StoredFile): Promise<Buffer> =>
    await bytesOf(owner.call(`/v1/storage/${fileId}/content`));

  it.each(ci ? (['node first', 'store first'] as const) : (['store first'] as const))(
    'a copy is made of each file, and is the file where the first one has lost it: %s',
    async (order) => {
      const store = await start(order, { REPLICAS: '2' });
      const bytes = randomBytes(10 * mib + 5);
      const file = await store.owner.call.store('plain', bytes);
      await until(store, file.cid, async () => (await pinsOf(store, file)).join() === 'node pinned,store pinned');
      const key = (await store.keys()).find((each) => each.startsWith('data/')) ?? '';
      await store.lose(key);
      expect(Buffer.compare(await bytesIn(store, file), bytes)).toBe(0);
      await store.owner.call(`/v1/storage/${file.fileId}/verification`, { method: 'POST' });
      await until(store, file.cid, async () => (await pinsOf(store, file)).join() === 'node pinned,store pinned');
      expect((await store.owner.call(`/v1/storage/${file.fileId}`, { method: 'DELETE' })).status).toBe(200);
      await store.pass(day, { rounds: 2 });
      expect(await store.keys()).toEqual(['service']);
      expect(await pinned(store.service).then((cids) => cids.includes(file.cid))).toBe(false);
    },
  );

  inCi('all files move from the node to the store, and back, whatever their shape', { timeout: 180_000 }, async () => {
    const store = await start('node first');
    const bytes = [randomBytes(17 * mib), randomBytes(mib), Buffer.alloc(0), Buffer.alloc(3 * mib)];
    const files: StoredFile[] = [];
    for (const each of bytes) files.push(await store.owner.call.store('plain', each));
    const foreign = randomBytes(700_000);
    const car = await foreignCar(foreign);
    files.push(
      await jsonOf<StoredFile>(
        await store.owner.call('/v1/storage/plain', {
          method: 'POST',
          headers: { 'Content-Type': 'application/vnd.ipld.car' },
          body: car as BodyInit,
        }),
        201,
      ),
    );
    bytes.push(foreign);
    for (const [from, to] of [
      ['node', 'store'],
      ['store', 'node'],
    ] as const) {
      await migrate(store, from, to);
      for (const file of files)
        await until(store, file.cid, async () => (await pinsOf(store, file)).join() === `${to} pinned`);
      for (const [at, file] of files.entries())
        expect(Buffer.compare(await bytesIn(store, file), bytes[at] ?? Buffer.alloc(1)), `${file.cid} at ${to}`).toBe(
          0,
        );
      const indexes = (await store.keys()).filter((key) => key.startsWith('cid/'));
      expect(indexes.length).toBe(to === 'store' ? files.length : 0);
    }
    await store.pass(day, { rounds: 2 });
    expect(await store.keys()).toEqual(['service']);
    await sweep(store.service, [store.owner], []);
    for (const { cid } of files) expect((await askNode(store.service, 'pin/ls', { arg: cid })).status).toBe(200);
  });
});
