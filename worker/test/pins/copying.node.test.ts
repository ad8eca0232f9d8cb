/** Files at two backends: copied, read and deleted at both, whatever one of them does. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Receipt, StoredFile } from '../../../shared/api.ts';
import { kuboProgram, noKubo } from '../../../testkit/programs/kubo.ts';
import { client, jsonOf } from '../../../testkit/api-client.ts';
import { adminToken } from '../../../testkit/service.ts';
import { shardName } from '../../objects/pin/shard-names.ts';
import { pinObject, type Rows } from '../stored-state.ts';
import {
  names,
  readBack,
  ring,
  settle,
  startBackend,
  startTwoBackends,
  statuses,
  storeAtBoth,
  weekMs,
  type Backend,
  type World,
} from './two-backends.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

/**
 * CIDs of a service that is down, and the objects that keep their rows: each has a bound of its
 * own.
 */
const cids = long ? 10_000 : 150;
const objects = long ? 8 : 1;

/** A minute, and the longest that a service which is down is left alone, with its jitter. */
const minuteMs = 60_000;
const longestMs = 1.5 * 3_600_000;

let world: World;
let bytes: Buffer;

async function remove(fileId: string): Promise<Receipt> {
  return await world.owner.call.deleteFile({ fileId });
}

describe.skipIf(kuboProgram() === undefined)('two backends', () => {
  beforeAll(async () => {
    world = await startTwoBackends();
  });
  afterAll(() => world.close());
  beforeEach(() => {
    for (const { peer } of [world.a, world.b]) {
      peer.onCommand = undefined;
      peer.onBody = undefined;
    }
    bytes = randomBytes(1_500_000);
  });

  test.each(long ? [0, 1, 1_048_576, 3_000_000] : [3_000_000])(
    'a file of %i bytes is at the first at once, at the second soon',
    async (n) => {
      bytes = randomBytes(n);
      const file = await world.owner.call.store('plain', bytes);
      expect(file.pins).toEqual([
        { service: 'a', status: 'pinned' },
        { service: 'b', status: expect.stringMatching(/^pinn(ed|ing)$/) as unknown },
      ]);
      await settle(world, file);
      expect(await names(world.b)).toMatchObject({ [file.cid]: 'sealpin:us' });
      expect(await remove(file.fileId)).toMatchObject({
        pins: [
          { service: 'a', status: 'unpinned' },
          { service: 'b', status: 'unpinned' },
        ],
      });
      for (const backend of [world.a, world.b]) expect(await names(backend)).not.toHaveProperty(file.cid);
    },
  );

  inCi('a copy is made under the ID of the upload, at the service that it is read from, too', async () => {
    const ids = { a: new Set<string | undefined>(), b: new Set<string | undefined>() };
    let isChecked = false;
    for (const name of ['a', 'b'] as const)
      world[name].peer.onCommand = async (turn) => {
        // A look may come meanwhile, which has an ID of its own.
        if (isChecked || turn.step !== 'look') ids[name].add(turn.requestId);
        (await turn.pass()).deliver();
      };
    const response = await world.owner.call.ask('storePlain', {}, { body: bytes });
    const uploadId = response.headers.get('X-Request-Id');
    const file = await jsonOf<StoredFile>(response, 201);
    await settle(world, file);
    expect({ a: [...ids.a], b: [...ids.b] }).toEqual({ a: [uploadId], b: [uploadId] });
    // A check begins with nobody's request.
    isChecked = true;
    await ring(world, file, weekMs);
    const [, check] = [...ids.b];
    expect(check).toMatch(/^[0-9a-f-]{36}$/);
    expect([...ids.b]).toEqual([uploadId, check]);
  });

  test('the second is killed in the middle of a copy: it resumes where it was', async () => {
    const leaves = long ? 20 : 10;
    bytes = randomBytes(leaves * 1_048_576);
    let imports = 0;
    let isKilled = false;
    let sent = 0;
    const killed = new Promise<void>((resolve) => {
      world.b.peer.onBody = (n, cut) => {
        sent = n;
        if (imports > 0 && !isKilled && n > 1_048_576) {
          isKilled = true;
          void world.b.kubo.kill().then(resolve);
          cut();
        }
      };
    });
    world.b.peer.onCommand = async (turn) => {
      const { deliver } = await turn.pass();
      deliver();
      if (turn.command === 'dag/import') imports += 1;
    };
    const file = await world.owner.call.store('plain', bytes);
    await killed;
    await expect.poll(() => statuses(world, file)).toEqual({ a: 'pinned', b: 'pinning' });
    const [row] = (await (await pinObject(world.service, file.cid)).rows('pin')).filter(
      (each) => each['service'] === 'b',
    );
    expect(row).toMatchObject({ state: 'copying', cursor: 8 * 1_048_576 });
    await world.b.kubo.start();
    sent = 0;
    let total = 0;
    world.b.peer.onBody = (n) => {
      total += n < sent ? sent : 0;
      sent = n;
    };
    await settle(world, file);
    expect(total + sent).toBeLessThan((leaves - 7) * 1_048_576);
    await world.a.kubo.stop();
    try {
      expect((await readBack(world, file)).equals(bytes)).toBe(true);
    } finally {
      await world.a.kubo.start();
    }
    await remove(file.fileId);
  });

  inCi('a deletion wins over the copy: nothing is left at either', async () => {
    bytes = randomBytes(3 * 1_048_576);
    const copying = new Promise<void>((resolve) => {
      world.b.peer.onBody = (n) => {
        if (n > 1_048_576) resolve();
      };
    });
    world.b.peer.onCommand = async (turn) => {
      if (turn.command === 'dag/import') return;
      (await turn.pass()).deliver();
    };
    const file = await world.owner.call.store('plain', bytes);
    await copying;
    const receipt = await remove(file.fileId);
    expect(receipt.pins.map(({ status }) => status)).toEqual(['unpinned', 'unpinned']);
    await ring(world, file, longestMs);
    for (const backend of [world.a, world.b]) expect(await names(backend)).not.toHaveProperty(file.cid);
    expect(await (await pinObject(world.service, file.cid)).rows('pin')).not.toContainEqual(
      expect.objectContaining({ cid: file.cid }),
    );
  });

  test('one is down when a file is deleted: the receipt says so, and it is deleted there later', async () => {
    const file = await storeAtBoth(world, bytes);
    world.b.peer.onCommand = (turn) => turn.cut();
    expect((await remove(file.fileId)).pins).toEqual([
      { service: 'a', status: 'unpinned' },
      { service: 'b', status: 'scheduled' },
    ]);
    // However often it was asked in vain.
    for (let rings = 0; rings < 5; rings += 1) await ring(world, file, longestMs);
    world.b.peer.onCommand = undefined;
    expect(await names(world.b)).toHaveProperty(file.cid);
    await ring(world, file, longestMs);
    expect(await names(world.b)).not.toHaveProperty(file.cid);
  });

  test('a pin of somebody else’s at the second stays, with its name', async () => {
    const form = new FormData();
    form.append('file', new Blob([new Uint8Array(bytes)]));
    const query = 'cid-version=1&raw-leaves=true&chunker=size-1048576&pin-name=my-backup';
    const headers = { Authorization: `Bearer ${world.b.kubo.token}` };
    await fetch(`${world.b.kubo.url}/api/v0/add?${query}`, { method: 'POST', headers, body: form });
    const file = await storeAtBoth(world, bytes);
    expect((await names(world.b))[file.cid]).toBe('my-backup');
    expect((await remove(file.fileId)).pins).toEqual([
      { service: 'a', status: 'unpinned' },
      { service: 'b', status: 'kept' },
    ]);
    expect((await names(world.b))[file.cid]).toBe('my-backup');
  });

  inCi('the first is down: the file is read from the second', async () => {
    const file = await storeAtBoth(world, bytes);
    world.a.peer.onCommand = (turn) => turn.cut();
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    const gateway = await fetch(`${world.service.url}/ipfs/${file.cid}`);
    expect(Buffer.from(await gateway.arrayBuffer()).equals(bytes)).toBe(true);
  });

  inCi('the first gives 20 kB/s: a read is as fast as the second', async () => {
    const file = await storeAtBoth(world, bytes);
    world.a.peer.onCommand = async (turn) => await turn.trickle((await turn.pass()).body, 20_000);
    const began = performance.now();
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    // By the first alone it takes 75 s.
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  test('S72: the second asks to wait: it is left alone for as long, and gets its copy then', async () => {
    const cids: (string | null)[] = [];
    world.b.peer.onCommand = (turn) => {
      cids.push(turn.cid);
      turn.answer(429, 'busy', { 'Retry-After': '600' });
    };
    const file = await world.owner.call.store('plain', bytes);
    // Other files may be looked at meanwhile; a CAR names none.
    const asked = () => cids.filter((cid) => cid === null || cid === file.cid).length;
    await ring(world, file, 2000);
    const first = asked();
    expect(first).toBeGreaterThan(0);
    for (let minute = 0; minute < 9; minute += 1) await ring(world, file, minuteMs);
    expect(asked()).toBe(first);
    world.b.peer.onCommand = undefined;
    await ring(world, file, 2 * minuteMs);
    await settle(world, file);
  });

  test(`${cids} CIDs of a backend that is down: an object asks 5 times a minute at most, soon below once`, async () => {
    const byName = new Map<string, Rows>();
    while (byName.size < objects) {
      const { cid } = await storeAtBoth(world, randomBytes(100));
      byName.set(await shardName(cid), await pinObject(world.service, cid));
    }
    const all = [...byName.values()];
    for (const object of all) await object.fill(cids / objects, 'b');
    const ringAll = (ms: number) => Promise.all(all.map((object) => object.ring(ms)));
    let asked = 0;
    world.b.peer.onCommand = (turn) => {
      // Other objects, which do not ring here, look at their files.
      if (turn.cid === null || turn.cid.startsWith('bafkreicid')) asked += 1;
      turn.cut();
    };
    const perMinute: number[] = [];
    for (let minute = 0; minute < (long ? 40 : 20); minute += 1) {
      asked = 0;
      for (let ringed = 0; ringed < 6; ringed += 1) await ringAll(minuteMs / 6);
      perMinute.push(asked);
    }
    expect(perMinute[0]).toBeGreaterThan(0);
    expect(Math.max(...perMinute)).toBeLessThanOrEqual(5 * objects);
    expect(perMinute.slice(10).reduce((sum, each) => sum + each)).toBeLessThanOrEqual(4 * objects);
    const before = world.b.peer.seen.length;
    world.b.peer.onCommand = undefined;
    await ringAll(longestMs);
    expect(world.b.peer.seen.length - before).toBeGreaterThan(50);
  });
});

describe.skipIf(kuboProgram() === undefined)('a backend that is replaced', () => {
  inCi('is none of the REPLICAS: each file is copied to the new one, and the old one may come back', async () => {
    world = await startTwoBackends();
    const c = await startBackend();
    try {
      const file = await storeAtBoth(world, randomBytes(1_500_000));
      const entry = (id: string, { peer }: Backend) => ({ id, type: 'kubo', url: peer.url, tokenSecret: 'KUBO_TOKEN' });
      const entries = [entry('a', world.a), entry('c', c)];
      await world.restart({ PINNING_SERVICES: JSON.stringify(entries) });
      const repair = async () => await client(world.service.url, adminToken).repairPins();
      const everywhere = { a: 'pinned', b: 'pinned', c: 'pinned' };
      const seenAtB = async () =>
        (await world.owner.call.getFile({ fileId: file.fileId, data: false })).pins.find(
          ({ service }) => service === 'b',
        );
      const before = await seenAtB();
      await repair();
      await settle(world, file, everywhere);
      expect(await names(c)).toMatchObject({ [file.cid]: 'sealpin:us' });
      // It was not seen since.
      expect(await seenAtB()).toEqual(before);

      await world.restart({ PINNING_SERVICES: JSON.stringify([...entries, entry('b', world.b)]) });
      await repair();
      await ring(world, file, weekMs);
      await settle(world, file, everywhere);
      await remove(file.fileId);
      for (const backend of [world.a, world.b, c]) expect(await names(backend)).not.toHaveProperty(file.cid);
    } finally {
      await world.close();
      await Promise.all([c.peer.close(), c.kubo.close()]);
    }
  });
});

if (kuboProgram() === undefined) test.skip(noKubo);
