/**
 * Everything moves from one service to another, without a moment at which a file has no verified
 * copy.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Migration, StoredFile } from '../../../shared/api.ts';
import { kuboProgram, noKubo } from '../../../testkit/programs/kubo.ts';
import { adminToken } from '../../../testkit/service.ts';
import { problemOf, client, type Client } from '../../../testkit/api-client.ts';
import { pinObject } from '../stored-state.ts';
import {
  corrupt,
  names,
  readBack,
  ring,
  startTwoBackends,
  statuses,
  type Backend,
  type World,
} from './two-backends.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

const files = { short: 4, long: 5000, together: 8 };
/** Length of a file that takes more than one step to copy. */
const largeBytes = (long ? 20 : 9) * 1_048_576;
const minuteMs = 60_000;

let world: World;

const operator = (): Client => client(world.service.url, adminToken);
const begin = async () => await operator().createMigration({ from: 'a', to: 'b' });

async function progress(): Promise<Migration | undefined> {
  return (await operator().listMigrations()).migrations[0];
}

async function isDone(): Promise<boolean> {
  return (await progress())?.state === 'done';
}

/** The CIDs that we have pinned at a backend. */
async function ours(backend: Backend): Promise<string[]> {
  const all = Object.entries(await names(backend));
  return all.filter(([, name]) => name.startsWith('sealpin')).map(([cid]) => cid);
}

async function store(count: number): Promise<{ file: StoredFile; bytes: Buffer }[]> {
  const stored: { file: StoredFile; bytes: Buffer }[] = [];
  while (stored.length < count) {
    const group = Array.from({ length: Math.min(files.together, count - stored.length) }, () => randomBytes(2000));
    const add = async (bytes: Buffer) => ({ file: await world.owner.call.store('plain', bytes), bytes });
    stored.push(...(await Promise.all(group.map(add))));
  }
  return stored;
}

describe.skipIf(kuboProgram() === undefined)('a migration', () => {
  beforeAll(async () => {
    world = await startTwoBackends({ REPLICAS: '1' });
  });
  afterEach(async () => {
    world.b.peer.onBody = undefined;
    world.b.peer.onCommand = undefined;
    // Otherwise what the next test stores moves at once.
    await operator().ask('cancelMigration', { from: 'a', to: 'b' });
  });
  afterAll(() => world.close());

  inCi(
    'moves every file, survives a restart, and leaves nothing of ours',
    async () => {
      const stored = await store(long ? files.long : files.short);
      const large = randomBytes(largeBytes);
      stored.push({ file: await world.owner.call.store('plain', large), bytes: large });
      const foreign = (await world.a.kubo.ipfs('add', '-Q', '--pin-name=my-backup', import.meta.filename)).trim();
      const killed = new Promise<void>((resolve) => {
        world.b.peer.onBody = (bytes) => {
          if (bytes > 1_048_576) resolve();
        };
      });
      // A part of the large one may have a pin for a moment.
      await expect.poll(async () => (await ours(world.a)).length).toBe(stored.length);
      expect(await begin()).toMatchObject({ from: 'a', to: 'b', state: 'running', total: stored.length });
      await killed;
      await world.restart();
      const during = await world.owner.call.store('plain', 'during');
      // It can be repeated, and continues by itself: no clock is moved here.
      await begin();
      // Cheaper to ask for than all objects.
      await expect.poll(() => ours(world.a), { timeout: long ? 1_500_000 : 120_000, interval: 250 }).toEqual([]);
      await expect.poll(isDone, { timeout: long ? 1_500_000 : 120_000, interval: 500 }).toBe(true);
      expect(await progress()).toMatchObject({ left: 0, failed: 0 });
      expect(await ours(world.a)).toEqual([]);
      expect(await names(world.a)).toHaveProperty(foreign, 'my-backup');
      expect(new Set(await ours(world.b))).toEqual(new Set([...stored.map(({ file }) => file.cid), during.cid]));
      const health = await operator().getHealth();
      expect(health.migrations).toMatchObject([{ from: 'a', state: 'done' }]);
      await world.a.kubo.stop();
      for (const { file, bytes } of stored.slice(-files.short)) {
        expect(await statuses(world, file)).toEqual({ b: 'pinned' });
        expect((await readBack(world, file)).equals(bytes)).toBe(true);
      }
      await world.a.kubo.start();
      if (!long) return;
      // The next tests would move as many.
      await world.close();
      world = await startTwoBackends({ REPLICAS: '1' });
    },
    long ? 1_800_000 : 240_000,
  );

  test('the source is left only once every byte was read from the target', async () => {
    const bytes = randomBytes(1_500_000);
    const file = await world.owner.call.store('plain', bytes);
    // The target damages what it has pinned, before it is read.
    world.b.peer.onCommand = async (turn) => {
      const { deliver } = await turn.pass();
      if (turn.command === 'pin/add') await corrupt(world.b, bytes.subarray(1_048_576));
      deliver();
    };
    await begin();
    for (let rings = 0; rings < 5; rings += 1) {
      await ring(world, file, minuteMs);
      expect(await ours(world.a)).toEqual([file.cid]);
    }
    world.b.peer.onCommand = undefined;
    await expect
      .poll(
        async () => {
          await ring(world, file, minuteMs);
          return await statuses(world, file);
        },
        { timeout: 20_000 },
      )
      .toEqual({ b: 'pinned' });
    expect((await readBack(world, file)).equals(bytes)).toBe(true);

    // What is still being removed from a service that is left stays away, although it is stored
    // again elsewhere.
    world.b.peer.onCommand = async (turn) => {
      if (turn.command === 'pin/rm') return turn.answer(503, '');
      (await turn.pass()).deliver();
    };
    await world.owner.call.deleteFile({ fileId: file.fileId });
    await operator().createMigration({ from: 'b', to: 'a' });
    await world.owner.call.store('plain', bytes);
    world.b.peer.onCommand = undefined;
    const places = async () => {
      await ring(world, file, 60 * minuteMs);
      const rows = await (await pinObject(world.service, file.cid)).rows('pin');
      return rows.filter(({ cid }) => cid === file.cid).map(({ service }) => service);
    };
    await expect.poll(places, { timeout: 20_000 }).toEqual(['a']);
    await operator().cancelMigration({ from: 'b', to: 'a' });
  });

  test.runIf(long)('cancelled: what has not moved stays, and is removed from where it was moving to', async () => {
    const moved = await ours(world.b);
    const bytes = randomBytes(largeBytes);
    const file = await world.owner.call.store('plain', bytes);
    const copying = new Promise<void>((resolve) => {
      world.b.peer.onCommand = async (turn) => {
        if (turn.command === 'pin/add') return resolve();
        (await turn.pass()).deliver();
      };
    });
    await begin();
    await copying;
    world.b.peer.onCommand = undefined;
    expect(await operator().cancelMigration({ from: 'a', to: 'b' })).toMatchObject({ state: 'cancelled' });
    await ring(world, file, 60 * minuteMs);
    await ring(world, file, 60 * minuteMs);
    expect(await statuses(world, file)).toEqual({ a: 'pinned' });
    expect(new Set(await ours(world.b))).toEqual(new Set(moved));
    expect(await problemOf(operator().ask('cancelMigration', { from: 'a', to: 'b' }))).toBe('404 not_found');
  });
});

if (kuboProgram() === undefined) test.skip(noKubo);
