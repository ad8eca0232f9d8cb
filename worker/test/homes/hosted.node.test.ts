/** A hosted service that has a part of Kubo's RPC: as the only service, and as the second one. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Health, Receipt } from '../../../shared/api.ts';
import { kuboProgram, noKubo } from '../../../testkit/kubo.ts';
import { adminToken, startService, type Service } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf } from '../client.ts';
import { startFilter, startHostedKubo, type Filter, type HostedKubo } from '../pinning/documented/hosted-kubo.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import {
  names,
  readBack,
  ring,
  settle,
  startHome,
  startTwoHomes,
  statuses,
  storeAtBoth,
  unpinBehindOurBack,
  type World,
} from './two-homes.ts';

const long = process.env['SEALPIN_LONG'] === '1';

/** Each import pins the empty block that its header names, as it pins every root. */
const emptyRoot = 'bafkqaaa';
/** The longest that is waited between two attempts, with its jitter. */
const longestMs = 1.5 * 3_600_000;

function alone(): void {
  let hosted: HostedKubo;
  let service: Service;
  let owner: Owner;
  beforeAll(async () => {
    hosted = await startHostedKubo();
    const { url, token } = hosted;
    service = await startService({
      node: { ...hosted.kubo, close: async () => undefined },
      vars: {
        KUBO_TOKEN: token,
        PINNING_SERVICES: JSON.stringify([{ id: 'h', type: 'car', url, tokenSecret: 'KUBO_TOKEN' }]),
      },
    });
    owner = await newOwner(service);
  });
  afterAll(async () => {
    await service.close();
    await hosted.close();
  });

  test('its health says what it was tried against', async () => {
    const { services } = await jsonOf<Health>(client(service.url, adminToken)('/v1/health'));
    expect(services).toMatchObject([
      { id: 'h', type: 'car', triedAgainst: expect.stringContaining('not Filebase itself') as string, status: 'ok' },
    ]);
  });

  test.each(long ? [0, 1, 1_500_000, 40_000_000] : [1_500_000])(
    'a file of %i bytes is stored, read and deleted, and nothing is asked that is not documented',
    async (n) => {
      const bytes = randomBytes(n);
      for (const mode of ['plain', 'encrypted'] as const) {
        const { fileId } = await owner.call.store(mode, bytes);
        const read = (headers = {}) => bytesOf(owner.call(`/v1/storage/${fileId}/content`, { headers }));
        expect((await read()).equals(bytes)).toBe(true);
        if (n > 1_100_000) {
          const range = await owner.call(`/v1/storage/${fileId}/content`, {
            headers: { Range: 'bytes=1100000-1100009' },
          });
          expect(Buffer.from(await range.arrayBuffer()).equals(bytes.subarray(1_100_000, 1_100_010))).toBe(true);
        }
        const receipt = await jsonOf<Receipt>(owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' }));
        expect(receipt.pins).toEqual([{ service: 'h', status: 'unpinned' }]);
      }
      expect(Object.keys(await names(hosted)).filter((cid) => cid.startsWith('b'))).toEqual([emptyRoot]);
      expect(hosted.refused).toEqual([]);
    },
  );
}

function second(): void {
  let world: World;
  let filter: Filter;
  beforeAll(async () => {
    world = await startTwoHomes(
      {},
      {
        async second() {
          const home = await startHome();
          filter = await startFilter(() => home.peer.url);
          return { ...home, ...filter, entry: { type: 'car', url: filter.url, tokenSecret: 'KUBO_TOKEN' } };
        },
      },
    );
  });
  afterAll(async () => {
    expect(filter.refused).toEqual([]);
    await world.close();
  });
  const remove = ({ fileId }: { fileId: string }) =>
    jsonOf<Receipt>(world.owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' }));

  test('a file is copied to it, read from it while the first is down, and deleted at both', async () => {
    const bytes = randomBytes(3_000_000);
    const file = await storeAtBoth(world, bytes);
    world.a.peer.onCommand = (turn) => turn.cut();
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    world.a.peer.onCommand = undefined;
    expect((await remove(file)).pins.map(({ status }) => status)).toEqual(['unpinned', 'unpinned']);
    expect(await names(world.b)).not.toHaveProperty(file.cid);
  });

  test('what is unpinned there behind our back is found, and pinned again', async () => {
    const file = await storeAtBoth(world, randomBytes(20_000));
    await unpinBehindOurBack(world.b, file);
    const week = 7 * 86_400_000;
    await ring(world, file, week);
    await ring(world, file, longestMs);
    await settle(world, file);
    expect(await names(world.b)).toHaveProperty(file.cid);
    await remove(file);
  });

  test('a pin that is there already stays, because there is no telling whose it is', async () => {
    const bytes = randomBytes(30_000);
    const form = new FormData();
    form.append('file', new Blob([new Uint8Array(bytes)]));
    const headers = { Authorization: `Bearer ${world.b.kubo.token}` };
    const query = 'cid-version=1&raw-leaves=true&chunker=size-1048576';
    await fetch(`${world.b.kubo.url}/api/v0/add?${query}`, { method: 'POST', headers, body: form });
    const file = await storeAtBoth(world, bytes);
    expect((await remove(file)).pins).toEqual([
      { service: 'a', status: 'unpinned' },
      { service: 'b', status: 'kept' },
    ]);
    expect(await names(world.b)).toHaveProperty(file.cid);
    expect(await statuses(world, await storeAtBoth(world, bytes))).toEqual({ a: 'pinned', b: 'pinned' });
  });
}

if (kuboProgram() === undefined) test.skip(noKubo);
else {
  describe.runIf(long)('a hosted service alone', alone);
  describe('a hosted service as the second', second);
}
