/**
 * A service with the Pinning Service API as the second one: it fetches files from the first by
 * itself, and cannot be read.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Verification } from '../../../shared/api.ts';
import { clusterProgram, noCluster, startCluster, type RealCluster } from '../backends/cluster/real-cluster.ts';
import { adminToken } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { startPeer } from '../peer.ts';
import { readBack, ring, settle, startTwoBackends, statuses, storeAtBoth, weekMs, type World } from './two-backends.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

const longestMs = 1.5 * 3_600_000;

let world: World;
let cluster: RealCluster;

async function startWorld(): Promise<World> {
  cluster = await startCluster(1);
  const [peer] = cluster.peers;
  const entry = { type: 'psa', url: present(peer).psa, tokenSecret: 'PSA_TOKEN' };
  const world = await startTwoBackends(
    { PSA_TOKEN: cluster.token },
    {
      first: { online: true },
      second: async () => ({
        kubo: present(peer).kubo,
        peer: await startPeer(present(peer).kubo.url),
        entry,
        close: cluster.close,
      }),
    },
  );
  // The operator would name it in `origins`; here its address is known only once it runs.
  const { Addresses } = JSON.parse(await present(peer).kubo.ipfs('id')) as { Addresses: string[] };
  await world.a.kubo.ipfs('swarm', 'connect', itemOf(Addresses, 0));
  return world;
}

const remove = ({ fileId }: { fileId: string }) => world.owner.call.deleteFile({ fileId });
const isPinned = async (cid: string) => (await cluster.pins()).flat().includes(cid);

describe.runIf(long && clusterProgram() !== undefined)('a Pinning Service API as the second', () => {
  beforeAll(async () => {
    world = await startWorld();
  }, 120_000);
  afterAll(() => world.close());

  test('a file is pinned there by its CID, and removed there with the file', async () => {
    const file = await storeAtBoth(world, randomBytes(3_000_000));
    expect(await isPinned(file.cid)).toBe(true);
    const verified = await jsonOf<Verification>(world.owner.call.ask('verifyFile', { fileId: file.fileId }));
    expect(verified.pins).toEqual([
      { service: 'a', status: 'pinned', checkedAt: expect.any(String), verifiedAt: expect.any(String) },
      { service: 'b', status: 'pinned', checkedAt: expect.any(String) },
    ]);
    expect((await remove(file)).pins.map(({ status }) => status)).toEqual(['unpinned', 'unpinned']);
    await expect.poll(() => isPinned(file.cid)).toBe(false);
  });

  test('what is removed there behind our back is found, and requested again', async () => {
    const file = await storeAtBoth(world, randomBytes(20_000));
    await cluster.ask('DELETE', `/pins/${file.cid}`);
    await expect.poll(() => isPinned(file.cid)).toBe(false);
    await ring(world, file, weekMs);
    await ring(world, file, longestMs);
    await settle(world, file);
    expect(await isPinned(file.cid)).toBe(true);
    await remove(file);
  });

  test('nothing is read from it: while the first is down, a file waits', async () => {
    const bytes = randomBytes(20_000);
    const file = await storeAtBoth(world, bytes);
    world.a.peer.onCommand = (turn) => turn.cut();
    const read = world.owner.call.ask('getFileContent', { fileId: file.fileId });
    expect(await problemOf(read)).toBe('503 pinning_unavailable');
    world.a.peer.onCommand = undefined;
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
  });

  test('what somebody else has pinned there is not taken over: the pin fails, and says so', async () => {
    const bytes = randomBytes(20_000);
    const first = await storeAtBoth(world, bytes);
    await remove(first);
    await cluster.ask('POST', `/pins/${first.cid}?name=my-backup`);
    const file = await world.owner.call.store('plain', bytes);
    await expect
      .poll(
        async () => {
          await ring(world, file, 5000);
          return await statuses(world, file);
        },
        { timeout: 30_000 },
      )
      .toEqual({ a: 'pinned', b: 'failed' });
    await remove(file);
    expect(await cluster.ask('GET', `/allocations/${file.cid}`)).toMatchObject({ name: 'my-backup' });
  });

  test('files cannot move to it, because they could not be read back', async () => {
    const body = JSON.stringify({ from: 'a', to: 'b' });
    const headers = { 'Content-Type': 'application/json' };
    const begun = client(world.service.url, adminToken).ask('createMigration', {}, { headers, body });
    expect(await problemOf(begun)).toBe('400 invalid_request');
  });
});

if (clusterProgram() === undefined) test.skip(noCluster);
else if (!long) test.skip('a Pinning Service API as the second: in the long form');
