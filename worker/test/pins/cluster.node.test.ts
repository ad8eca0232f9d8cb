/** An IPFS Cluster of three peers as the second service. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterProgram, type HonestCluster, noCluster, startHonestCluster } from '../backends/cluster/real-cluster.ts';
import { startPeer } from '../peer.ts';
import { readBack, ring, startTwoBackends, statuses, storeAtBoth, weekMs, type World } from './two-backends.ts';
import { first, present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

const timeout = 240_000;
const longestMs = 1.5 * 3_600_000;

function asSecond(): void {
  let world: World;
  let honest: HonestCluster;
  beforeAll(async () => {
    honest = await startHonestCluster(3, 2);
    const { kubo } = first(honest.real.peers);
    const entry = { type: 'cluster', tokenSecret: 'CLUSTER_TOKEN', ...honest.cluster };
    const second = async () => ({ kubo, peer: await startPeer(kubo.url), entry, close: honest.close });
    world = await startTwoBackends({ CLUSTER_TOKEN: honest.token }, { second });
  }, timeout);
  afterAll(() => world.close(), timeout);
  const holders = async (cid: string) => (await honest.real.pins()).filter((pins) => pins.includes(cid)).length;

  test(
    'a file is copied to two peers, read there while the first and a peer are down, and deleted',
    { timeout },
    async () => {
      const bytes = randomBytes(9_000_000);
      const file = await storeAtBoth(world, bytes);
      expect(await holders(file.cid)).toBe(2);
      const [peer] = honest.real.peers;
      world.a.peer.onCommand = (turn) => turn.cut();
      await present(peer).kill();
      try {
        expect((await readBack(world, file)).equals(bytes)).toBe(true);
      } finally {
        world.a.peer.onCommand = undefined;
        await present(peer).start();
      }
      const receipt = await world.owner.call.deleteFile({ fileId: file.fileId });
      expect(receipt.pins.map(({ service }) => service)).toEqual(['a', 'b']);
      await ring(world, file, longestMs);
      await expect.poll(() => holders(file.cid), { timeout: 60_000 }).toBe(0);
    },
  );

  test('what too few peers hold is found by a check, and copied again', { timeout }, async () => {
    const file = await storeAtBoth(world, randomBytes(50_000));
    await honest.real.ask('DELETE', `/pins/${file.cid}`);
    await expect.poll(() => holders(file.cid), { timeout: 60_000 }).toBe(0);
    await ring(world, file, weekMs);
    await ring(world, file, longestMs);
    await expect
      .poll(
        async () => {
          await ring(world, file, 5000);
          return await statuses(world, file);
        },
        { timeout: 120_000 },
      )
      .toEqual({ a: 'pinned', b: 'pinned' });
    expect(await holders(file.cid)).toBe(2);
  });
}

if (clusterProgram() === undefined) test.skip(noCluster);
else if (long) describe('a cluster as the second', asSecond);
else test.skip('a cluster as the second: in the long form');
