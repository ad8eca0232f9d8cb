/**
 * Statements about files while a backend fails: what was seen there, and when. One backend fails in
 * each way, the other is in order.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Health, Receipt, StoredFile, SurveyedPin, Verification } from '../../../shared/api.ts';
import { ci, long } from '../../../testkit/long-run.ts';
import { kuboProgram, noKubo } from '../../../testkit/programs/kubo.ts';
import { adminToken, metricsToken } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import type { Turn } from '../peer.ts';
import { pinObject } from '../stored-state.ts';
import {
  names,
  readBack,
  ring,
  settle,
  startTwoBackends,
  statuses,
  storeAtBoth,
  unpinBehindOurBack,
  type World,
} from './two-backends.ts';
import { full, json, losses, refusals, respond, writes } from './ways-to-fail.ts';

let world: World;
let bytes: Buffer;

const operator = () => client(world.service.url, adminToken);

async function verify({ fileId }: StoredFile) {
  const response = await world.owner.call.ask('verifyFile', { fileId });
  return await response.json<Verification>();
}

async function surveyed({ cid }: StoredFile, state?: string): Promise<SurveyedPin[]> {
  const { pins } = await operator().listPins({ limit: 100, state });
  return pins.filter((pin) => pin.cid === cid);
}

/**
 * Returns the state of a file at `b`: for its owner as one file and in the list, and for the
 * operator.
 */
async function saidOf(file: StoredFile) {
  let one: StoredFile | undefined;
  const both = async () => {
    one = await world.owner.call.getFile({ fileId: file.fileId, data: false });
    const list = await world.owner.call.listFiles({ cid: file.cid });
    return [one.pins, list.files.find(({ fileId }) => fileId === file.fileId)?.pins].map((pins) =>
      JSON.stringify(pins),
    );
  };
  // An attempt may begin between the two.
  await expect.poll(async () => new Set(await both()).size).toBe(1);
  const pin = one?.pins.find(({ service }) => service === 'b');
  return { pin, row: (await surveyed(file)).find(({ service }) => service === 'b') };
}

/**
 * Rings until the owner is told that the pin at `b` is in a state: an attempt may be under way, or
 * be put off.
 */
async function expectAtB(file: StoredFile, status: string): Promise<void> {
  const asked = async () => {
    const { pin } = await saidOf(file);
    if (pin?.status !== status) await ring(world, file, 60_000);
    return pin;
  };
  await expect.poll(asked, { timeout: 30_000, interval: 200 }).toEqual({ service: 'b', status });
}

const isAfter = (time: string | undefined, ms: number) => time !== undefined && Date.parse(time) >= ms;

describe.skipIf(kuboProgram() === undefined)('a backend that fails', () => {
  beforeAll(async () => {
    world = await startTwoBackends();
  });
  afterAll(() => world.close());
  beforeEach(() => {
    for (const { peer } of [world.a, world.b]) peer.onCommand = undefined;
    bytes = randomBytes(1_500_000);
  });
  // A repair looks at every file that is left.
  afterEach(async () => {
    for (const { peer } of [world.a, world.b]) peer.onCommand = undefined;
    const { files } = await world.owner.call.listFiles();
    for (const { fileId } of files) await world.owner.call.deleteFile({ fileId });
  });

  /** In the short form one for each reason. */
  const told = refusals.filter(({ reason }, at) => long || refusals.findIndex((each) => each.reason === reason) === at);

  test.each(told)('$way: a copy is $status, and the operator reads why', async ({ answer, status, reason, words }) => {
    world.b.peer.onCommand = answer;
    const file = await world.owner.call.store('plain', bytes);
    await ring(world, file, 10_000);
    await expectAtB(file, status);
    const { row } = await saidOf(file);
    expect(row).toMatchObject({ reason, detail: expect.stringContaining(words) as unknown });
    expect(row).not.toHaveProperty('checkedAt');
    expect(row?.detail).not.toContain('token-of-the-tests');
    world.b.peer.onCommand = undefined;
    await operator().repairPins();
    await settle(world, file);
    const [, copied] = await surveyed(file);
    expect(copied).not.toHaveProperty('detail');
  });

  /** What health says of `b`, and the metrics: they are asked once in 5 s. */
  async function healthOf() {
    const answer = await operator().ask('getHealth');
    const { status, services = [] } = await answer.json<Health>();
    const metrics = await (await client(world.service.url, metricsToken).ask('getMetrics')).text();
    const gauge = (name: string): string =>
      new RegExp(`^sealpin_${name}{service="b"} (.)$`, 'm').exec(metrics)?.[1] ?? '';
    const b = services.find(({ id }) => id === 'b');
    return {
      said: [answer.status, status, b?.status, b?.code ?? b?.refuses?.code],
      gauges: [gauge('pinning_service_up'), gauge('pinning_service_refuses')],
      refuses: b?.refuses,
    };
  }
  const inOrder = { said: [200, 'ok', 'ok', undefined], gauges: ['1', '0'] };
  const slow = { timeout: 15_000, interval: 500 };
  const ways: [string, (turn: Turn) => void | Promise<void>, typeof inOrder][] = [
    [
      'unreachable',
      (turn) => turn.cut(),
      { said: [503, 'degraded', 'failing', 'pinning_unavailable'], gauges: ['0', '0'] },
    ],
    ['full for what is written', writes(full), { said: [200, 'degraded', 'ok', 'disk_full'], gauges: ['1', '1'] }],
    [
      'refusing what is written',
      writes(respond(401, 'no')),
      { said: [200, 'degraded', 'ok', 'misconfigured'], gauges: ['1', '1'] },
    ],
  ];

  // What is full and what refuses is told alike.
  test.each(ways.slice(0, ci ? 3 : 1))(
    '%s: health and metrics say so, and since when, until it is not',
    async (way, answer, expected) => {
      const before = Date.now();
      world.b.peer.onCommand = answer;
      const file = await world.owner.call.store('plain', bytes);
      await ring(world, file, 10_000);
      await expect.poll(healthOf, slow).toMatchObject(expected);
      const { refuses } = await healthOf();
      if (way !== 'unreachable') expect(isAfter(refuses?.since, before)).toBe(true);
      // Anybody sees that something is wrong, and not what.
      const open = await (await fetch(`${world.service.url}/v1/health`)).json<Health>();
      expect({ status: open.status, services: open.services }).toEqual({ status: 'degraded', services: undefined });
      world.b.peer.onCommand = undefined;
      await operator().repairPins();
      await settle(world, file);
      await expect.poll(healthOf, slow).toMatchObject(inOrder);
    },
  );

  test('full for uploads: health says so of the first service', async () => {
    world.a.peer.onCommand = writes(full);
    const store = world.owner.call.ask('storePlain', {}, { body: randomBytes(10) });
    expect(await problemOf(store)).toBe('507 disk_full');
    world.a.peer.onCommand = undefined;
    const first = async () => (await (await operator().ask('getHealth')).json<Health>()).services?.[0];
    await expect.poll(first, slow).toMatchObject({ id: 'a', status: 'ok', refuses: { code: 'disk_full' } });
  });

  test.each(losses.slice(0, ci ? losses.length : 3))(
    '$way: the first verification sees it, and one repair is enough',
    async ({ lose, status, reason }) => {
      const file = await storeAtBoth(world, bytes);
      await lose(world.b, file, bytes);
      // The clock of the object is ahead of this one.
      const before = Date.parse((await saidOf(file)).pin?.checkedAt ?? '') + 1;
      const { done, pins } = await verify(file);
      expect(done).toBe(true);
      expect(pins[0]).toMatchObject({ status: 'pinned', verifiedAt: expect.any(String) as unknown });
      expect(pins[1]?.status).toBe(status);
      expect(isAfter(pins[1]?.checkedAt, before)).toBe(true);
      expect(isAfter(pins[1]?.verifiedAt, before)).toBe(status === 'pinned');
      if (reason !== undefined) {
        // The alarm may have begun to copy it.
        expect(await surveyed(file, 'damaged')).toEqual([]);
      }
      await operator().repairPins();
      await settle(world, file);
      world.a.peer.onCommand = (turn) => turn.cut();
      expect((await readBack(world, file)).equals(bytes)).toBe(true);
      expect((await names(world.b))[file.cid]).toBe('sealpin:us');
    },
  );

  /** In CI, one that removes a pin, and one that leaves it; in the short form the latter. */
  const lost = losses.slice(0, 3).filter((_, at) => long || at === 2 || (ci && at === 0));

  test.each(lost)('$way, with one repair and no verification', async ({ lose, reason }) => {
    const file = await storeAtBoth(world, bytes);
    await lose(world.b, file, bytes);
    await operator().repairPins();
    await expect.poll(async () => (await surveyed(file))[1]?.reason).toBe(reason);
    await settle(world, file);
    world.a.peer.onCommand = (turn) => turn.cut();
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
  });

  test.each(lost)('$way at both: damaged with the first verification', async ({ lose, reason }) => {
    const file = await storeAtBoth(world, bytes);
    for (const backend of [world.a, world.b]) await lose(backend, file, bytes);
    const { done, pins } = await verify(file);
    expect({ done, pins: pins.map(({ status }) => status) }).toEqual({ done: true, pins: ['lost', 'lost'] });
    expect(await surveyed(file, 'damaged')).toMatchObject([
      { service: 'a', state: 'lost', reason },
      { service: 'b', state: 'lost', reason },
    ]);
    const { pins: counts } = await operator().repairPins();
    expect(counts.damaged).toBeGreaterThanOrEqual(2);
  });

  test.each(losses.slice(0, long ? 2 : 1))('$way at both: a read has it seen', async ({ lose }) => {
    const file = await storeAtBoth(world, bytes);
    for (const backend of [world.a, world.b]) await lose(backend, file, bytes);
    const read = world.owner.call.ask('getFileContent', { fileId: file.fileId });
    await read.then((response) => response.arrayBuffer()).catch(() => undefined);
    await expect.poll(() => statuses(world, file)).toEqual({ a: 'lost', b: 'lost' });
    await expect.poll(async () => await surveyed(file, 'damaged')).toHaveLength(2);
  });

  test('an encrypted file that is lost at both is healed as the hint says, and not by storing it again', async () => {
    const file = await storeAtBoth(world, bytes, 'encrypted');
    const content = () => world.owner.call.ask('getFileContent', { fileId: file.fileId });
    const blob = await bytesOf(fetch(`${world.service.url}/ipfs/${file.cid}`));
    for (const backend of [world.a, world.b]) await unpinBehindOurBack(backend, file);
    const problem = await jsonOf<{ code: string; hint: string }>(content(), 502);
    expect(problem).toMatchObject({
      code: 'pinning_lost',
      hint: expect.stringContaining('a copy of the blob as it is') as unknown,
    });
    expect((await world.owner.call.store('encrypted', bytes)).cid).not.toBe(file.cid);
    expect((await content()).status).toBe(502);
    expect((await world.owner.call.store('plain', blob)).cid).toBe(file.cid);
    expect((await bytesOf(content())).equals(bytes)).toBe(true);
    await ring(world, file, 3_600_000);
    await settle(world, file);
  });

  test('unreachable: a verification is not done, and says what was seen before, and when', async () => {
    const file = await storeAtBoth(world, bytes);
    const before = (await saidOf(file)).pin;
    world.b.peer.onCommand = (turn) => turn.cut();
    const { done, pins } = await verify(file);
    expect({ done, pins: pins[1] }).toEqual({ done: false, pins: before });
    expect((await saidOf(file)).row).toMatchObject({ reason: 'pinning_unavailable' });
  });

  /** Those that do not say that the service is away: a breaker would hold attempts back. */
  const unwilling = told.filter(({ status }) => status === 'failed');

  test.each(unwilling.slice(0, ci ? unwilling.length : 1))(
    '$way, asked for a pin: each attempt waits for its time',
    async ({ answer }) => {
      const { peer } = world.b;
      peer.onCommand = async (turn) => {
        if (turn.command === 'pin/add') return answer(turn);
        (await turn.pass()).deliver();
      };
      peer.seen.length = 0;
      const file = await world.owner.call.store('plain', bytes);
      for (let rings = 0; rings < 3; rings += 1) await ring(world, file, 10_000);
      await expectAtB(file, 'failed');
      // The alarm may have rung by itself, too.
      const asked = peer.seen.filter((command) => command === 'pin/add').length;
      expect(asked).toBeGreaterThan(0);
      expect(asked).toBeLessThan(10);
    },
  );

  test('lying in the first answer: nothing that it does not list is pinned', async () => {
    const lie = async (turn: Turn) => {
      if (turn.command === 'pin/add')
        return turn.answer(200, JSON.stringify({ Pins: [turn.cid] }), { 'content-type': json });
      (await turn.pass()).deliver();
    };
    world.b.peer.onCommand = lie;
    const file = await world.owner.call.store('plain', bytes);
    await ring(world, file, 10_000);
    await expectAtB(file, 'failed');
    expect((await surveyed(file))[1]?.detail).toContain('does not list');
    world.a.peer.onCommand = lie;
    const store = world.owner.call.ask('storePlain', {}, { body: randomBytes(10) });
    expect(await problemOf(store)).toBe('502 pinning_failed');
  });

  test('listing for a moment only: what it no longer lists is seen soon, not in a week', async () => {
    const file = await world.owner.call.store('plain', bytes);
    await settle(world, file);
    await unpinBehindOurBack(world.b, file);
    await ring(world, file, 10_000);
    expect((await saidOf(file)).pin?.status).not.toBe('pinned');
  });

  // It says so whatever the reason is.
  const scheduled = long ? refusals : refusals.slice(0, ci ? 2 : 1);

  test.each(scheduled)('$way: a receipt says scheduled until the removal is done', async ({ way, answer }) => {
    const file = await storeAtBoth(world, bytes);
    world.b.peer.onCommand = answer;
    const path = `/v1/storage/${file.fileId}`;
    const receipt = async () => (await jsonOf<Receipt>(world.owner.call(`${path}/receipt`))).pins;
    await jsonOf<Receipt>(world.owner.call(path, { method: 'DELETE' }));
    const [atA, atB] = ['a', 'b'].map((service) => ({ service, status: 'unpinned' }));
    expect(await receipt()).toEqual([atA, { ...atB, status: 'scheduled' }]);
    // Also what nobody remembers but the rows.
    if (way === 'unreachable') await world.restart();
    world.b.peer.onCommand = undefined;
    await ring(world, file, 2 * 3_600_000);
    expect(await names(world.b)).not.toHaveProperty(file.cid);
    await expect.poll(receipt).toEqual([atA, atB]);
    expect(await (await pinObject(world.service, file.cid)).rows('removal')).toEqual([]);
  });
});

if (kuboProgram() === undefined) test.skip(noKubo);
