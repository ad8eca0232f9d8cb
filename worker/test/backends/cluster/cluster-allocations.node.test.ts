/**
 * Answers of an IPFS Cluster while peers are down or hold nothing, and which of its two APIs can be
 * believed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cidOf, sha256 } from '../../../../shared/ipfs/index.ts';
import { clusterProgram, type HonestCluster, noCluster, startHonestCluster } from './real-cluster.ts';
import { bytesOf, play } from '../scenario.ts';
import type { Rest } from '../suite.ts';
import type { Scenario } from '../scenario.ts';
import { first, present } from '../../../../testkit/present.ts';
import { long } from '../../../../testkit/long-run.ts';

const timeout = 240_000;

function allocations(): void {
  let honest: HonestCluster;
  beforeAll(async () => {
    honest = await startHonestCluster(3, 1);
  }, timeout);
  afterAll(() => honest.close(), timeout);

  const at = (scenario: Rest<Scenario>, order = [0, 1, 2], copies = 1) => {
    const { url, token, cluster } = honest;
    const peers = order.map((index) => present(cluster.peers[index]));
    return play({ ...scenario, url, token, cluster: { peers, replication: { min: copies, max: copies } } });
  };
  /** Returns the peers that a file is allocated to. */
  const holders = async (cid: string) => {
    const pins = await honest.real.pins();
    return pins.flatMap((each, index) => (each.includes(cid) ? [index] : []));
  };
  const collect = () => Promise.all(honest.real.peers.map(({ kubo }) => kubo.ipfs('repo', 'gc')));

  test(
    'a file that is allocated to another peer than the one that took it is read, found and removed',
    { timeout },
    async () => {
      let bytes = 100_000;
      let cid = '';
      let [holder] = [0];
      // Whichever peer it is sent to: Cluster chooses by free space, so one of the first two orders
      // meets another peer.
      for (const order of [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
      ]) {
        const { value, error } = await at({ method: 'store', bytes }, order);
        expect(error).toBeUndefined();
        cid = String(value);
        [holder = -1] = await holders(cid);
        if (holder !== order[0]) break;
        bytes += 1;
      }
      await collect();
      for (const order of [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
      ]) {
        expect((await at({ method: 'stat', cid }, order)).value).toEqual({ pin: 'ours' });
        const read = await at({ method: 'read', cid, offset: bytes - 10, length: 10 }, order);
        expect(read.error).toBeUndefined();
        expect(read.value).toHaveLength(10);
      }
      // With the one that holds it left out of the list, nothing is found, and nothing is made up.
      const others = [0, 1, 2].filter((index) => index !== holder);
      expect((await at({ method: 'block', cid }, others)).error).toMatchObject({ code: 'pinning_lost' });
      expect((await at({ method: 'unpin', cid })).value).toBe('removed');
    },
  );

  test('a pin that its Kubo cannot make is no pin, and is made when it is asked for again', { timeout }, async () => {
    // Two of three Kubos are down, and their peers are not: Cluster allocates the pin to them as
    // well.
    const down = honest.real.peers.slice(1);
    await Promise.all(down.map(({ kubo }) => kubo.kill()));
    const file = { method: 'store', bytes: 70_000 } as const;
    let cid = '';
    try {
      const stored = await at({ ...file, timeouts: { pinMs: 8000 } }, [0, 1, 2], 3);
      expect(['pinning_failed', 'pinning_timeout', 'pinning_unavailable']).toContain(stored.error?.code);
      cid = String((await at({ method: 'import', bytes: 70_000 }, [0])).value);
      expect([{ pin: 'absent' }, { pin: 'ours', lacks: expect.any(String) as unknown }]).toContainEqual(
        (await at({ method: 'stat', cid }, [0, 1, 2], 3)).value,
      );
    } finally {
      await Promise.all(down.map(({ kubo }) => kubo.start()));
    }
    // Cluster connects the Kubos when a peer starts; these have found each other by other means.
    const { Addresses } = JSON.parse(await first(honest.real.peers).kubo.ipfs('id')) as { Addresses: string[] };
    for (const { kubo } of down) await kubo.ipfs('swarm', 'connect', first(Addresses));
    await expect
      .poll(async () => (await at(file, [0, 1, 2], 3)).error?.code, { timeout: 180_000, interval: 2000 })
      .toBeUndefined();
    expect(await holders(cid)).toEqual([0, 1, 2]);
    expect((await at({ method: 'unpin', cid })).value).toBe('removed');
  });

  test('blocks that Kubos were looking for before they came are pinned without a long wait', { timeout }, async () => {
    const file = { method: 'store', bytes: 80_000 } as const;
    const cid = cidOf('raw', await sha256(bytesOf(file.bytes))).text;
    await honest.real.ask('POST', `/pins/${cid}?name=${encodeURIComponent('sealpin:tested')}`);
    const wanted = async () =>
      await Promise.all(
        honest.real.peers.map(({ kubo }) => kubo.ipfs('bitswap', 'wantlist').then((all) => all.trim())),
      );
    await expect.poll(wanted, { timeout: 30_000 }).toEqual([cid, cid, cid]);
    // Kubo 0.42 asks the others again after some 40 s.
    expect((await at({ ...file, timeouts: { pinMs: 20_000 } }, [0, 1, 2], 3)).error).toBeUndefined();
    expect(await holders(cid)).toEqual([0, 1, 2]);
    expect((await at({ method: 'unpin', cid })).value).toBe('removed');
  });

  test('the proxy shows a wish as a pin; the REST API, which we ask, does not', { timeout }, async () => {
    const missing = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
    await honest.real.ask('POST', `/pins/${missing}?name=${encodeURIComponent('sealpin:tested')}`);
    const { proxy } = first(honest.real.peers);
    const listed = await fetch(`${proxy}/api/v0/pin/ls?arg=${missing}`, { method: 'POST' });
    expect(await listed.json()).toEqual({ Keys: { [missing]: { Type: 'recursive' } } });
    expect((await at({ method: 'stat', cid: missing })).value).toEqual({ pin: 'absent' });
    expect((await at({ method: 'unpin', cid: missing })).error).toBeUndefined();
  });
}

if (clusterProgram() === undefined) test.skip(noCluster);
else if (long) describe('three peers, one copy', allocations);
else test.skip('three peers, one copy: in the long form');
