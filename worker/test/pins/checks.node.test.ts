/** Checks of backends: they are asked, read and repaired; rows are not believed. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFailed, test } from 'vitest';
import type { PinPage, StoredFile, Verification } from '../../../shared/api.ts';
import { cidOf, sha256 } from '../../../shared/ipfs/index.ts';
import { kuboProgram, noKubo } from '../../../testkit/programs/kubo.ts';
import { adminToken } from '../../../testkit/service.ts';
import { bytesOf, jsonOf, problemOf, client } from '../../../testkit/api-client.ts';
import { blockShardNames } from '../../objects/pin/block-roots.ts';
import { shardName } from '../../objects/pin/shard-names.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { pinObject, shardObject } from '../stored-state.ts';
import {
  corrupt,
  names,
  readBack,
  ring,
  settle,
  startTwoBackends,
  statuses,
  storeAtBoth,
  weekMs,
  unpinBehindOurBack,
  type World,
} from './two-backends.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';
import { flip } from '../../../testkit/present.ts';

const hourMs = 3_600_000;
const leafBytes = 1_048_576;
const binary = { 'Content-Type': 'application/octet-stream' };

let world: World;
let bytes: Buffer;
/** The second leaf, which is where blocks are damaged. */
let leaf: Buffer;

const operator = () => client(world.service.url, adminToken);

async function pinOf(file: StoredFile, service: string) {
  const { pins } = await world.owner.call.getFile({ fileId: file.fileId, data: false });
  return pins.find((pin) => pin.service === service);
}

/** Reads a file while only one backend responds. */
async function readsFrom(backend: 'a' | 'b', file: StoredFile): Promise<boolean> {
  const other = world[backend === 'a' ? 'b' : 'a'].peer;
  other.onCommand = (turn) => turn.cut();
  try {
    return (await readBack(world, file)).equals(bytes);
  } finally {
    other.onCommand = undefined;
  }
}

describe.skipIf(kuboProgram() === undefined)('two backends', () => {
  beforeAll(async () => {
    world = await startTwoBackends();
  });
  afterAll(() => world.close());
  beforeEach(() => {
    for (const { peer } of [world.a, world.b]) peer.onCommand = undefined;
    bytes = randomBytes(1_500_000);
    leaf = bytes.subarray(leafBytes);
    onTestFailed(({ task }) => {
      task.result?.errors?.push({ name: 'the log of the service', message: world.service.log.slice(-50).join('\n') });
    });
  });

  test('each pin is asked for soon, then once in a week, and a small file is read as a whole', async () => {
    const began = Date.now();
    const file = await world.owner.call.store('plain', bytes);
    expect(file.pins[0]).toEqual({ service: 'a', status: 'pinned' });
    await settle(world, file);
    await ring(world, file, 10_000);
    // The tag of a file does not change because a pin is there.
    expect(await pinOf(file, 'a')).toEqual({ service: 'a', status: 'pinned' });
    // Once when it was pinned, and soon after that: as it is settled, or now.
    const { seen } = world.a.peer;
    const looks = seen.slice(seen.lastIndexOf('pin/add')).filter((command) => command === 'pin/ls');
    expect(looks.length).toBeGreaterThanOrEqual(2);
    await ring(world, file, weekMs);
    for (const service of ['a', 'b']) {
      const { checkedAt = '', verifiedAt } = (await pinOf(file, service)) ?? {};
      expect(Date.parse(checkedAt)).toBeGreaterThan(began + weekMs / 2);
      expect(Date.parse(verifiedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(checkedAt));
    }
    const asked = world.b.peer.seen.length;
    await ring(world, file, 5 * 24 * hourMs);
    expect(world.b.peer.seen).toHaveLength(asked);
  });

  test.runIf(long)('a larger file is read in parts, one in each check', async () => {
    bytes = randomBytes(17 * leafBytes);
    const file = await storeAtBoth(world, bytes);
    const object = await pinObject(world.service, file.cid);
    const row = async () => (await object.rows('pin')).find((each) => each['service'] === 'b');
    await ring(world, file, weekMs);
    expect(await row()).toMatchObject({ part: 1, verified_at: null });
    // Each part has two leaves, the last one has one.
    for (let week = 1; week < 9; week += 1) await ring(world, file, weekMs);
    expect(await row()).toMatchObject({ part: 0, verified_at: expect.any(Number) as unknown });
  });

  test('a damaged block is found, and replaced from the other backend', async () => {
    const file = await storeAtBoth(world, bytes);
    expect(await corrupt(world.b, leaf)).toBe(1);
    expect(await readsFrom('b', file).catch(() => false)).toBe(false);
    await ring(world, file, 2 * weekMs);
    await settle(world, file);
    expect(await readsFrom('b', file)).toBe(true);
    await expect.poll(async () => (await pinOf(file, 'b'))?.verifiedAt).toBeDefined();
  });

  inCi('what is left of a damaged file stays pinned where the other backend gives a wrong block, too', async () => {
    const file = await storeAtBoth(world, bytes);
    for (const backend of [world.a, world.b]) expect(await corrupt(backend, leaf)).toBe(1);
    const object = await pinObject(world.service, file.cid);
    // The other one looks like a good copy until it is asked for the block.
    await object.change(`UPDATE pin SET due = ${Date.now() + 52 * weekMs} WHERE cid = '${file.cid}' AND service = 'a'`);
    await ring(world, file, 2 * weekMs);
    for (let round = 0; round < 3; round += 1) await ring(world, file, hourMs);
    expect(await statuses(world, file)).toEqual({ a: 'lost', b: 'lost' });
    for (const backend of [world.a, world.b]) expect((await names(backend))[file.cid]).toBe('sealpin:us');
  });

  test('a CAR has the right bytes of a leaf that one backend has damaged', async () => {
    const file = await storeAtBoth(world, bytes);
    expect(await corrupt(world.a, leaf)).toBe(1);
    const car = await bytesOf(fetch(`${world.service.url}/ipfs/${file.cid}?format=car`));
    expect(car.includes(leaf)).toBe(true);
  });

  test('unpinned behind our back, and collected: lost with the first answer, and copied again', async () => {
    const file = await storeAtBoth(world, bytes);
    await unpinBehindOurBack(world.b, file);
    await ring(world, file, weekMs);
    expect(await statuses(world, file)).toEqual({ a: 'pinned', b: 'lost' });
    await settle(world, file);
    expect((await names(world.b))[file.cid]).toBe('sealpin:us');
    expect(await readsFrom('b', file)).toBe(true);
  });

  test.each([true, false])('unpinned behind our back: what is still there is pinned again (once %s)', async (once) => {
    const file = await storeAtBoth(world, bytes);
    await world.b.kubo.ipfs('pin', 'rm', file.cid);
    const object = await pinObject(world.service, file.cid);
    // Each look sees it missing; the other copy is not needed.
    world.a.peer.onCommand = (turn) => turn.cut();
    world.b.peer.onCommand = async (turn) => {
      if (!once && turn.command === 'pin/add') return turn.cut();
      (await turn.pass()).deliver();
    };
    await ring(world, file, weekMs);
    const row = (await object.rows('pin')).find((each) => each['cid'] === file.cid && each['service'] === 'b');
    expect(row).toMatchObject({ state: once ? 'live' : 'lost' });
    for (const { peer } of [world.a, world.b]) peer.onCommand = undefined;
    await settle(world, file);
    expect((await names(world.b))[file.cid]).toBe('sealpin:us');
  });

  inCi('a backend that does not respond for weeks has lost nothing', async () => {
    const file = await storeAtBoth(world, bytes);
    world.b.peer.onCommand = (turn) => turn.cut();
    for (let week = 0; week < 3; week += 1) await ring(world, file, weekMs);
    expect(await statuses(world, file)).toEqual({ a: 'pinned', b: 'pinned' });
    world.b.peer.onCommand = undefined;
    await ring(world, file, weekMs);
    expect(Date.parse((await pinOf(file, 'b'))?.checkedAt ?? '')).toBeGreaterThan(Date.now() + 3 * weekMs);
  });

  test('no copy is left: it is listed with its files, until the same bytes are stored again', async () => {
    const file = await storeAtBoth(world, bytes);
    for (const backend of [world.a, world.b]) await corrupt(backend, leaf);
    await ring(world, file, 2 * weekMs);
    expect(await statuses(world, file)).toEqual({ a: 'lost', b: 'lost' });
    const damaged = await operator().listPins({ state: 'damaged' });
    expect(damaged.pins.filter(({ cid }) => cid === file.cid)).toMatchObject([
      { service: 'a', state: 'lost', reason: 'content_mismatch', files: [{ fileId: file.fileId }] },
      { service: 'b', state: 'lost', reason: 'content_mismatch', files: [{ account: world.owner.id }] },
    ]);
    const store = () => world.owner.call.ask('storePlain', {}, { headers: binary, body: bytes });
    expect(await problemOf(store())).toBe('503 pinning_unavailable');
    const again = await jsonOf<StoredFile>(store(), 201);
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    await ring(world, file, 24 * hourMs);
    await settle(world, again);
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    expect(await readsFrom('b', file)).toBe(true);
  });

  test('no copy is removed for one wrong answer: the same bytes are stored beside it', async () => {
    const file = await storeAtBoth(world, bytes);
    for (const { peer } of [world.a, world.b])
      peer.onCommand = async (turn) => {
        const { body, deliver } = await turn.pass();
        if (turn.step === 'read') flip(body, 0);
        deliver();
      };
    await world.owner.call.ask('verifyFile', { fileId: file.fileId });
    expect(await statuses(world, file)).toEqual({ a: 'lost', b: 'lost' });
    for (const { peer } of [world.a, world.b]) [peer.onCommand, peer.seen.length] = [undefined, 0];
    await world.owner.call.store('plain', bytes);
    for (const { peer } of [world.a, world.b]) expect(peer.seen).not.toContain('block/rm');
    await settle(world, file);
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
  });

  test('a verification reads every byte at each backend, now', async () => {
    const file = await storeAtBoth(world, bytes);
    const path = `/v1/storage/${file.fileId}/verification`;
    const verified = await jsonOf<Verification>(world.owner.call(path, { method: 'POST' }));
    expect(verified).toMatchObject({ fileId: file.fileId, done: true });
    const verifiedAt = expect.any(String) as unknown;
    for (const pin of verified.pins) expect(pin).toMatchObject({ status: 'pinned', verifiedAt });
    await corrupt(world.b, leaf);
    const second = await jsonOf<Verification>(world.owner.call(path, { method: 'POST' }));
    expect(second.pins.map(({ status }) => status)).toEqual(['pinned', 'lost']);
    const unknown = world.owner.call.ask('verifyFile', { fileId: crypto.randomUUID() });
    expect(await problemOf(unknown)).toBe('404 not_found');
    await settle(world, file);
  });

  test('a backend that gives a wrong block is not asked first again, and is repaired', async () => {
    const file = await storeAtBoth(world, bytes);
    await corrupt(world.a, leaf);
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    const object = await pinObject(world.service, file.cid);
    await expect
      .poll(async () => (await object.rows('pin')).filter((row) => row['cid'] === file.cid))
      .toContainEqual(expect.objectContaining({ service: 'a', suspect: 1 }));
    const asked: unknown[] = [];
    world.a.peer.onCommand = (turn) => {
      asked.push(turn.requestId);
      turn.cut();
    };
    const response = await world.owner.call.ask('getFileContent', { fileId: file.fileId });
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
    // Its check may begin meanwhile, which has an ID of its own.
    expect(asked).not.toContain(response.headers.get('X-Request-Id'));
    world.a.peer.onCommand = undefined;
    await ring(world, file, hourMs);
    await settle(world, file);
    expect(await readsFrom('a', file)).toBe(true);
  });

  inCi('a repair asks the backends for everything at once', async () => {
    const file = await storeAtBoth(world, bytes);
    await unpinBehindOurBack(world.b, file);
    const { pins } = await operator().repairPins();
    expect(pins.live).toBeGreaterThanOrEqual(2);
    await settle(world, file);
    await expect.poll(async () => (await names(world.b))[file.cid]).toBe('sealpin:us');
  });

  const readings: [string, string][] = [
    ['just stored', 'read_from = 0, read_to = 0, checked_at = NULL'],
    ['being read', 'read_from = 4, read_to = 10'],
    ['being read as a whole', `read_from = 0, read_to = ${Number.MAX_SAFE_INTEGER}`],
    ['in order', 'read_from = NULL, read_to = NULL'],
  ];
  test.each(ci ? readings : readings.slice(1, 2))(
    'after a repair each pin says when it was seen: %s',
    async (_, reading) => {
      const file = await storeAtBoth(world, bytes);
      const object = await pinObject(world.service, file.cid);
      await object.change(`UPDATE pin SET ${reading} WHERE cid = '${file.cid}'`);
      const times = async () => (await object.rows('pin')).filter(({ cid }) => cid === file.cid);
      const before = Math.max(Date.now(), ...(await times()).map((row) => Number(row['checked_at']))) + 1;
      await operator().repairPins();
      await settle(world, file);
      await expect.poll(async () => (await times()).every((row) => Number(row['checked_at']) >= before)).toBe(true);
    },
  );

  inCi('blocks are served although backends were down after the upload, or an earlier version took it', async () => {
    const served = async () => (await fetch(`${world.service.url}/ipfs/${leafCid}?format=raw`)).status;
    const leafCid = cidOf('raw', await sha256(leaf)).text;
    const file = await storeAtBoth(world, bytes);
    // Another file with the same bytes.
    await world.owner.call.store('plain', bytes);
    const object = await pinObject(world.service, file.cid);
    for (const name of blockShardNames) await shardObject(world.service, name).forgetBlocks();
    await object.forgetBlocks();
    await world.restart();
    expect(await served()).toBe(404);
    for (const { peer } of [world.a, world.b]) peer.onCommand = (turn) => turn.cut();
    await ring(world, file, weekMs);
    expect(await served()).toBe(404);
    for (const { peer } of [world.a, world.b]) peer.onCommand = undefined;
    await ring(world, file, 2 * hourMs);
    expect(await served()).toBe(200);
  });

  test('an object whose first transaction fails works with the next one', async () => {
    const { cid, fileId } = await storeAtBoth(world, bytes);
    const used = new Set([await shardName(cid)]);
    const { pins } = await operator().listPins({ limit: 100 });
    for (const pin of pins) used.add(await shardName(pin.cid));
    do bytes = randomBytes(10);
    while (used.has(await shardName(await cidOfBytes(bytes))));
    const object = await pinObject(world.service, await cidOfBytes(bytes));
    await object.breakTransaction();
    const store = () => world.owner.call.ask('storePlain', {}, { headers: binary, body: bytes });
    expect(await problemOf(store())).toMatch(/^5/);
    expect((await operator().ask('listPins')).status).toBe(200);
    expect((await store()).status).toBe(201);
    expect(await statuses(world, { fileId } as StoredFile)).toEqual({ a: 'pinned', b: 'pinned' });
  });

  test('pins are listed in pages', async () => {
    const files = [await storeAtBoth(world, bytes), await storeAtBoth(world, randomBytes(10))];
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page: PinPage = await operator().listPins({ limit: 3, cursor });
      found.push(...page.pins.map(({ cid, service }) => `${cid} ${service}`));
      ({ cursor } = page);
    } while (cursor !== undefined);
    for (const { cid } of files) expect(found).toEqual(expect.arrayContaining([`${cid} a`, `${cid} b`]));
    expect(new Set(found).size).toBe(found.length);
    expect(await problemOf(operator().ask('listPins', { cursor: 'zz' }))).toBe('400 invalid_request');
  });

  test.each([
    ['a service that is not configured', { from: 'a', to: 'c' }],
    ['the same service', { from: 'a', to: 'a' }],
  ])('a migration to %s is refused', async (_, body) => {
    expect(await problemOf(operator().ask('createMigration', body))).toBe('400 invalid_request');
  });

  test.each([
    ['listPins', {}],
    ['repairPins', {}],
    ['listStrays', {}],
    ['removeStrays', { service: 'a' }],
    ['createMigration', { from: 'a', to: 'b' }],
    ['listMigrations', {}],
    ['cancelMigration', { from: 'a', to: 'b' }],
  ])('%s is for the operator', async (operationId, given) => {
    expect(await problemOf(client(world.service.url).ask(operationId, given))).toBe('401 unauthorized');
  });

  test.runIf(long)('a larger file that moves to a backend which has it is read there as a whole', async () => {
    bytes = randomBytes(17 * leafBytes);
    const file = await storeAtBoth(world, bytes);
    // The last of nine parts is next, and the migration begins while it is read.
    for (let week = 0; week < 8; week += 1) await ring(world, file, weekMs);
    expect(await corrupt(world.b, bytes.subarray(0, leafBytes))).toBe(1);
    let begun: Promise<unknown> | undefined;
    world.b.peer.onCommand = async (turn) => {
      if (turn.command === 'cat') await (begun ??= operator().createMigration({ from: 'a', to: 'b' }));
      (await turn.pass()).deliver();
    };
    await ring(world, file, weekMs);
    expect(begun).toBeDefined();
    world.b.peer.onCommand = undefined;
    await expect
      .poll(
        async () => {
          await ring(world, file, 60_000);
          return await statuses(world, file);
        },
        { timeout: 30_000 },
      )
      .toEqual({ b: 'pinned' });
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    await operator().cancelMigration({ from: 'a', to: 'b' });
  });
});

if (kuboProgram() === undefined) test.skip(noKubo);
