/**
 * Pins that come after what was to remove them: an upload of the same bytes asks for its own, and a
 * request arrives whose sender has died. Nothing stays at a backend without a row.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { kuboProgram, noKubo } from '../../../testkit/programs/kubo.ts';
import { ci } from '../../../testkit/long-run.ts';
import { adminToken } from '../../../testkit/service.ts';
import { client, type Client } from '../../../testkit/api-client.ts';
import { itemOf } from '../../../testkit/present.ts';
import { longestPinMs } from '../../backends/pin-limit.ts';
import type { Turn } from '../turn.ts';
import { newOwner, pinObject, sweep, type Owner } from '../stored-state.ts';
import { create, mib, patch, version } from '../uploads/tus-client.ts';
import { names, startTwoBackends, type World } from './two-backends.ts';

/** All cases; in the short form the first. */
const inForm = <T>(cases: Record<string, T>): [string, T][] => Object.entries(cases).slice(0, ci ? undefined : 1);

const minuteMs = 60_000;

let world: World;
/** Other accounts than that of `world`. */
const owners: Owner[] = [];

const operator = (): Client => client(world.service.url, adminToken);

/** The backends that have a row of a CID. */
async function places(cid: string): Promise<unknown[]> {
  const rows = await (await pinObject(world.service, cid)).rows('pin');
  return rows.filter((row) => row['cid'] === cid).map(({ service }) => service);
}

/** Lets time pass until only these backends have a row. */
async function untilAt(cid: string, expected: string[], ms = minuteMs): Promise<void> {
  const rung = async () => {
    await (await pinObject(world.service, cid)).ring(ms);
    return await places(cid);
  };
  await expect.poll(rung, { timeout: 30_000, interval: 20 }).toEqual(expected);
}

/** Holds the pins of a CID at a backend, in the order in which they come. */
function held(backend: World['a'], cid: string): { turns: Turn[]; arrived(count: number): Promise<void> } {
  const turns: Turn[] = [];
  backend.peer.onCommand = async (turn) => {
    if (turn.command === 'pin/add' && turn.cid === cid) turns.push(turn);
    else await pass(turn);
  };
  const arrived = async (count: number) => await expect.poll(() => turns.length, { timeout: 20_000 }).toBe(count);
  return { turns, arrived };
}

async function pass(turn: Turn): Promise<void> {
  (await turn.pass()).deliver();
}

/** Pins as a request does that arrives after all. */
async function pinLate(backend: World['a'], cid: string): Promise<void> {
  await backend.kubo.ipfs('pin', 'add', '--name=sealpin:us', cid);
}

/** Begins an upload of bytes that are a whole leaf, in one of the ways in which they are pinned. */
const ways = {
  'in one request': async (bytes: Buffer) => void (await world.owner.call.store('plain', bytes)),
  'that may be continued': async (bytes: Buffer) => {
    const { path } = await create(world.owner.call, 'plain', bytes.length);
    expect((await patch(world.owner.call, path, 0, bytes)).status).toBe(204);
  },
  'of another file, of which they are a part': async (bytes: Buffer) => {
    const { path } = await create(world.owner.call, 'plain', 2 * mib);
    expect((await patch(world.owner.call, path, 0, bytes)).status).toBe(204);
  },
};

describe.skipIf(kuboProgram() === undefined)('a late pin', () => {
  beforeAll(async () => {
    world = await startTwoBackends({ REPLICAS: '1' });
  });
  afterEach(async () => {
    world.a.peer.onCommand = undefined;
    world.b.peer.onCommand = undefined;
    await operator().ask('cancelMigration', { from: 'a', to: 'b' });
  });
  afterAll(() => world.close());

  test.each(inForm(ways))('of a second upload %s is removed where the bytes have moved', async (_, upload) => {
    const bytes = randomBytes(mib);
    const cid = await cidOfBytes(bytes);
    const { turns, arrived } = held(world.a, cid);
    const first = world.owner.call.store('plain', bytes);
    await arrived(1);
    const second = upload(bytes);
    await arrived(2);
    await pass(itemOf(turns, 0));
    const { fileId } = await first;
    await operator().createMigration({ from: 'a', to: 'b' });
    // Time enough for all that a migration does.
    for (let rings = 0; rings < 8; rings += 1) await (await pinObject(world.service, cid)).ring(minuteMs);
    expect(await places(cid)).toEqual(['a', 'b']);
    await pass(itemOf(turns, 1));
    await second;
    await untilAt(cid, ['b']);
    expect(await names(world.a)).not.toHaveProperty(cid);
    expect((await world.owner.call.getFileContent({ fileId })).equals(bytes)).toBe(true);
  });

  /** Uploads that end while their pin is held, so that it may still come. */
  const ends = {
    'in one request that broke off': async (bytes: Buffer) => {
      const second = world.owner.call.store('plain', bytes).catch(() => undefined);
      return async (turn: Turn) => {
        const row = (await world.owner.object.rows('file')).find(({ state }) => state === 'pending');
        // Its row stays for as long as its pin may take, and an hour.
        expect(Number(row?.['due']) - Number(row?.['created_at'])).toBe(3_600_000 + longestPinMs(bytes.length));
        turn.cut();
        await second;
      };
    },
    'that was cancelled': async (bytes: Buffer) => {
      const { path } = await create(world.owner.call, 'plain', bytes.length);
      const second = patch(world.owner.call, path, 0, bytes).catch(() => undefined);
      return async (turn: Turn) => {
        const ended = () => world.a.peer.aborted.filter((command) => command === 'pin/add').length;
        const before = ended();
        expect((await world.owner.call(path, { method: 'DELETE', headers: version })).status).toBe(204);
        // Its end ends the pin, which may have begun a long time ago.
        await expect.poll(ended, { timeout: 20_000 }).toBe(before + 1);
        turn.cut();
        await second;
      };
    },
    'of an account that was deleted': async (bytes: Buffer) => {
      const other = await newOwner(world.service);
      const { path } = await create(other.call, 'plain', bytes.length);
      const second = patch(other.call, path, 0, bytes).catch(() => undefined);
      return async (turn: Turn) => {
        await operator().deleteAccount({ id: other.id });
        turn.cut();
        await second;
        owners.push(other);
      };
    },
  };

  test.each(inForm(ends))('of an upload %s is removed when it has had its time', async (_, begin) => {
    // Less than a leaf: what may be continued has no part.
    const bytes = randomBytes(2000);
    const cid = await cidOfBytes(bytes);
    const { turns, arrived } = held(world.a, cid);
    const first = world.owner.call.store('plain', bytes);
    await arrived(1);
    const end = await begin(bytes);
    await arrived(2);
    await pass(itemOf(turns, 0));
    await first;
    await operator().createMigration({ from: 'a', to: 'b' });
    await end(itemOf(turns, 1));
    for (let rings = 0; rings < 8; rings += 1) await (await pinObject(world.service, cid)).ring(minuteMs);
    await pinLate(world.a, cid);
    await sweep(world.service, [world.owner, ...owners], [cid]);
    await untilAt(cid, ['b']);
    expect(await names(world.a)).not.toHaveProperty(cid);
  });
});

describe.skipIf(kuboProgram() === undefined)('a pin whose sender has died', () => {
  beforeAll(async () => {
    world = await startTwoBackends({ REPLICAS: '1' });
  });
  afterAll(() => world.close());

  /** What asks a backend for a pin while nobody but an alarm waits for it. */
  const senders = {
    'an upload that is finished': async (bytes: Buffer, cid: string) => {
      const { path, id } = await create(world.owner.call, 'plain', bytes.length);
      const { arrived } = held(world.a, cid);
      void patch(world.owner.call, path, 0, bytes).catch(() => undefined);
      await arrived(1);
      await world.restart();
      world.a.peer.onCommand = undefined;
      const state = async () => {
        await world.owner.object.ring(minuteMs);
        return (await world.owner.call.getFile({ fileId: id, data: false }).catch(() => undefined))?.cid;
      };
      await expect.poll(state, { timeout: 20_000 }).toBe(cid);
      return { fileId: id, backend: world.a };
    },
    'a copy': async (bytes: Buffer, cid: string) => {
      const { fileId } = await world.owner.call.store('plain', bytes);
      const { arrived } = held(world.b, cid);
      await operator().createMigration({ from: 'a', to: 'b' });
      await arrived(1);
      await world.restart();
      world.b.peer.onCommand = undefined;
      return { fileId, backend: world.b };
    },
  };

  test.each(inForm(senders))('for %s is removed after the file was deleted', async (_, send) => {
    const bytes = randomBytes(2000);
    const cid = await cidOfBytes(bytes);
    const { fileId, backend } = await send(bytes, cid);
    await world.owner.call.deleteFile({ fileId });
    await pinLate(backend, cid);
    await untilAt(cid, []);
    expect(await names(backend)).not.toHaveProperty(cid);
  });
});

if (kuboProgram() === undefined) test.skip(noKubo);
