/**
 * What the command line and the gauges of pins say of files while one backend of two fails: as
 * `truth.node.test.ts` for the API.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Health, StoredFile } from '../../../shared/api.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { kuboProgram, noKubo } from '../../../testkit/programs/kubo.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { adminToken, metricsToken } from '../../../testkit/service.ts';
import { temporaryDirectory } from '../../../testkit/temporary-directory.ts';
import { client } from '../../../testkit/api-client.ts';
import { ring, settle, startTwoBackends, storeAtBoth, type World } from './two-backends.ts';
import { full, losses, refusals, writes } from './ways-to-fail.ts';
import { exitOf } from '../../../shared/errors.ts';
import { present } from '../../../testkit/present.ts';

let world: World;

/** Node 24 may hang as it ends, all output written, while V8 compiles in another thread. */
const alone = '--single-threaded';

/** Runs a command line, which prints JSON. */
async function sealpin(...args: readonly string[]): Promise<{ exit: number | null; said: unknown }> {
  const home = await temporaryDirectory();
  const service = { SEALPIN_SERVICE: world.service.url, SEALPIN_API_KEY: world.owner.call.apiKey };
  const env = { ...bareEnv(), HOME: home, SEALPIN_HOME: home, ...service };
  return await new Promise((resolve) => {
    const child = execFile(process.execPath, [alone, entry, ...args, '--json'], { env }, (_, stdout, stderr) =>
      resolve({ exit: child.exitCode, said: JSON.parse(stdout || stderr) }),
    );
  });
}

/** Number of pins at each backend in each state, as the metrics have it. */
async function gauges(): Promise<Record<string, number>> {
  const metrics = await (await client(world.service.url, metricsToken).ask('getMetrics')).text();
  const samples = metrics.matchAll(/^sealpin_pins\{service="(.)",state="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries(Array.from(samples, ([, service, state, count]) => [`${service} ${state}`, Number(count)]));
}

/** The same numbers with other ones for some states. */
function changed(before: Record<string, number>, by: Record<string, number>): Record<string, number> {
  const after = { ...before };
  for (const [name, count] of Object.entries(by)) after[name] = (after[name] ?? 0) + count;
  return after;
}

/**
 * Compares what is said while the file can still be read: the account has it, and all of its blocks
 * are intact.
 */
async function expectReadable({ fileId, cid }: StoredFile, status: Status): Promise<void> {
  await expectStatus(status);
  const [list, verified, all] = await Promise.all([
    sealpin('list', '--limit', '1'),
    sealpin('verify', fileId),
    sealpin('verify', '--all'),
  ]);
  expect(list).toMatchObject({ exit: 0, said: { files: [{ fileId, blobId: cid, state: 'stored', mode: 'plain' }] } });
  expect(verified).toEqual({ exit: 0, said: { blobId: cid, size: 1_500_000, opened: false } });
  expect(all).toMatchObject({ exit: 0, said: { bad: [] } });
}

/** Health of the service, and what `status` then says. */
type Status = { health: (number | string)[]; exit: number; said: object };

/** Compares what the command line says of the service, once its health is that. */
async function expectStatus({ health, ...said }: Status): Promise<void> {
  const asked = async () => {
    const answer = await world.owner.call.ask('getHealth');
    return [answer.status, (await answer.json<Health>()).status];
  };
  await expect.poll(asked, slow).toEqual(health);
  expect(await sealpin('status')).toMatchObject(said);
}

const slow = { timeout: 30_000, interval: 200 };
const degraded = { health: [200, 'degraded'], exit: 0, said: { remote: { status: 'degraded' } } };
const works = { health: [200, 'ok'], exit: 0, said: { remote: { status: 'ok' } } };
/** It does not say that nothing can be stored or read: the other backend does both. */
const unavailable = {
  health: [503, 'degraded'],
  exit: 6,
  said: {
    code: 'pinning_unavailable',
    detail: expect.stringMatching(/ is degraded: a part of it does not respond, so some requests can fail$/) as unknown,
  },
};

/** One way for each state, or all: a change of health is seen after 5 s, twice for each. */
const ways = long
  ? refusals
  : refusals.filter(({ way }) => ci && (way === 'unreachable' || way.startsWith('repeating')));

/** In CI, one that removes a pin, and one that leaves it. */
const lost = long ? losses : losses.filter((_, at) => at === 0 || at === 2);

describe.skipIf(kuboProgram() === undefined)('a backend that fails', () => {
  beforeAll(async () => {
    world = await startTwoBackends();
  });
  afterAll(() => world.close());
  beforeEach(() => {
    world.b.peer.onCommand = undefined;
  });

  test.each([
    ...ways.map(({ way, answer, reason }) => ({
      way,
      answer,
      status: unavailable,
      state: reason === 'pinning_failed' ? 'failed' : 'wanted',
    })),
    { way: 'full for what is written', answer: writes(full), status: degraded, state: 'copying' },
  ])('$way: the service is degraded, the file can be read, and its copy is counted as $state', async (each) => {
    const before = await gauges();
    world.b.peer.onCommand = each.answer;
    const file = await world.owner.call.store('plain', randomBytes(1_500_000));
    await ring(world, file, 10_000);
    await expectReadable(file, each.status);
    await expect.poll(gauges, slow).toEqual(changed(before, { 'a live': 1, [`b ${each.state}`]: 1 }));
    world.b.peer.onCommand = undefined;
    await client(world.service.url, adminToken).repairPins();
    await settle(world, file);
    await expectStatus(works);
    expect(await gauges()).toEqual(changed(before, { 'a live': 1, 'b live': 1 }));
  });

  inCi.each(lost)('$way: the file can be read, and its pin is counted as what it is', async ({ lose, status }) => {
    const before = await gauges();
    const bytes = randomBytes(1_500_000);
    const file = await storeAtBoth(world, bytes);
    await lose(world.b, file, bytes);
    await world.owner.call.ask('verifyFile', { fileId: file.fileId });
    // The alarm may have begun to copy it.
    const states = status === 'lost' ? ['lost', 'copying'] : ['live'];
    const expected = states.map((state) => changed(before, { 'a live': 1, [`b ${state}`]: 1 }));
    expect(expected).toContainEqual(await gauges());
    await expectReadable(file, works);
    await settle(world, file);
  });

  inCi.each(lost.slice(0, 3))('$way at both: verification fails, and says why', async ({ lose, reason }) => {
    const before = await gauges();
    const bytes = randomBytes(1_500_000);
    const file = await storeAtBoth(world, bytes);
    const { fileId } = file;
    for (const backend of [world.a, world.b]) await lose(backend, file, bytes);
    const [verified, all] = await Promise.all([sealpin('verify', fileId), sealpin('verify', '--all')]);
    expect(verified).toMatchObject({ exit: exitOf({ code: present(reason) }), said: { code: reason } });
    expect(all).toMatchObject({ exit: exitOf({ code: present(reason) }), said: { bad: [{ fileId, code: reason }] } });
    await world.owner.call.ask('deleteFile', { fileId });
    await ring(world, file, 2 * 3_600_000);
    await expect.poll(gauges, slow).toEqual(before);
  });
});

if (kuboProgram() === undefined) test.skip(noKubo);
