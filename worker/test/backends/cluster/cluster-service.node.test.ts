/**
 * The whole service before an IPFS Cluster of three peers, two of which hold each file, and peers
 * that are killed.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StoredFile } from '../../../../shared/api.ts';
import { clusterProgram, type HonestCluster, noCluster, type RealPeer, startHonestCluster } from './real-cluster.ts';
import { startService, type Service } from '../../../../testkit/service.ts';
import { bytesOf as bodyOf, jsonOf } from '../../../../testkit/api-client.ts';
import { newOwner, pinObject, type Owner } from '../../stored-state.ts';
import { bytesOf, play } from '../scenario.ts';
import { itemOf, present } from '../../../../testkit/present.ts';
import { long } from '../../../../testkit/long-run.ts';

/** Cluster takes some seconds to notice that a peer is down. */
const timeout = 240_000;

function survival(): void {
  let honest: HonestCluster;
  let service: Service;
  let owner: Owner;
  beforeAll(async () => {
    honest = await startHonestCluster(3, 2);
    const { cluster, token, real } = honest;
    service = await startService({
      node: { ...itemOf(real.peers, 0).kubo, close: async () => undefined },
      entry: 'worker/test/clock.ts',
      vars: {
        CLUSTER_TOKEN: token,
        PINNING_SERVICES: JSON.stringify([
          { id: 'cluster', type: 'cluster', tokenSecret: 'CLUSTER_TOKEN', ...cluster },
        ]),
      },
    });
    owner = await newOwner(service);
  }, timeout);
  afterAll(async () => {
    await service.close();
    await honest.close();
  }, timeout);

  const store = (bytes: Buffer) => owner.call.store('plain', bytes);
  const read = ({ fileId }: StoredFile) =>
    bodyOf(owner.call.ask('getFile', { fileId }, { headers: { Accept: 'application/octet-stream' } }));
  const remove = async ({ fileId }: StoredFile) => {
    const receipt = await owner.call.deleteFile({ fileId });
    return itemOf(receipt.pins, 0).status;
  };
  const holders = async ({ cid }: StoredFile) => (await honest.real.pins()).filter((pins) => pins.includes(cid)).length;
  const without = async <T>(peer: RealPeer, work: () => Promise<T>): Promise<T> => {
    await peer.kill();
    try {
      return await work();
    } finally {
      await peer.start();
      // Peers are chosen for a pin by what each has told the others.
      for (const metric of ['freespace', 'tag:group'])
        await expect
          .poll(() => honest.real.ask('GET', `/monitor/metrics/${metric}`), { timeout: 60_000 })
          .toHaveLength(3);
    }
  };

  test('what is stored is on two peers, and on none after it is deleted', { timeout }, async () => {
    const bytes = randomBytes(40 * 1_048_576 + 5);
    const file = await store(bytes);
    expect(await holders(file)).toBe(2);
    expect((await read(file)).equals(bytes)).toBe(true);
    expect(await remove(file)).toBe('unpinned');
    // Kubo itself keeps an empty directory.
    await expect.poll(async () => (await honest.real.pins()).flat().filter((cid) => cid.startsWith('b'))).toEqual([]);
  });

  test.each([0, 1, 2])('peer %i is killed afterwards: the file is read from the others', { timeout }, async (index) => {
    const bytes = randomBytes(3_000_000);
    const file = await store(bytes);
    await without(present(honest.real.peers[index]), async () => expect((await read(file)).equals(bytes)).toBe(true));
    expect(await remove(file)).toBe('unpinned');
  });

  test.each([0, 1, 2])('peer %i is killed before: a file is stored on the others', { timeout }, async (index) => {
    const bytes = randomBytes(3_000_000);
    const file = await without(present(honest.real.peers[index]), async () => {
      const stored = await store(bytes);
      expect((await read(stored)).equals(bytes)).toBe(true);
      return stored;
    });
    expect(await holders(file)).toBeGreaterThanOrEqual(2);
  });

  test.each([0, 1, 2])('peer %i is killed meanwhile: stored, or stored again', { timeout }, async (index) => {
    const bytes = randomBytes(60 * 1_048_576);
    const post = () => owner.call.ask('storePlain', {}, { headers: { 'Content-Type': 'a/b' }, body: bytes });
    const first = post();
    await sleep(300);
    await without(present(honest.real.peers[index]), async () => {
      let response = await first;
      for (let retry = 0; retry < 4 && response.status !== 201; retry += 1) {
        expect([503, 504]).toContain(response.status);
        await sleep(1000 * Number(response.headers.get('Retry-After')));
        response = await post();
      }
      const file = await jsonOf<StoredFile>(response, 201);
      expect((await read(file)).equals(bytes)).toBe(true);
    });
  });

  test('a file is deleted while a peer is down: the receipt does not say that it is removed', { timeout }, async () => {
    const file = await store(randomBytes(3_000_000));
    const pins = await honest.real.pins();
    const holder = present(honest.real.peers[pins.findIndex((each) => each.includes(file.cid))]);
    expect(await without(holder, () => remove(file))).toBe('scheduled');
  });

  test(
    'a file is deleted while a peer is down, and the same bytes are stored meanwhile: they stay',
    { timeout },
    async () => {
      const bytes = randomBytes(3_000_000);
      const file = await store(bytes);
      const pins = await honest.real.pins();
      const holder = present(honest.real.peers[pins.findIndex((each) => each.includes(file.cid))]);
      const again = await without(holder, async () => {
        expect(await remove(file)).toBe('scheduled');
        const stored = await store(bytes);
        expect((await read(stored)).equals(bytes)).toBe(true);
        return stored;
      });
      await (await pinObject(service, file.cid)).ring(2 * 3_600_000);
      expect(await holders(again)).toBeGreaterThanOrEqual(2);
      expect((await read(again)).equals(bytes)).toBe(true);
      expect(await remove(again)).toBe('unpinned');
    },
  );

  test.each([174, 175])('a file of %i MiB has our CID', { timeout }, async (mebibytes) => {
    const { url, token, cluster } = honest;
    const bytes = mebibytes * 1_048_576;
    const { value: cid } = await play({ method: 'store', bytes, url, token, cluster });
    const size = await itemOf(honest.real.peers, 0).kubo.ipfs(
      'files',
      'stat',
      '--format=<size>',
      `/ipfs/${String(cid)}`,
    );
    expect(Number(size)).toBe(bytes);
    const last = await play({ method: 'read', cid: String(cid), offset: bytes - 1, length: 1, url, token, cluster });
    expect(last.value).toBe(Buffer.from(bytesOf(bytes).subarray(-1)).toString('latin1'));
  });
}

if (clusterProgram() === undefined) test.skip(noCluster);
else describe.runIf(long)('three peers', survival);
