/**
 * A pin that fewer peers of a Cluster hold than it asks for, on the rows of an object of pins in
 * SQLite.
 */
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import type { Env } from '../../env.ts';
import { Breakers } from '../../objects/pin/breakers.ts';
import { Migrations } from '../../objects/pin/migrations.ts';
import { backendPin } from '../../objects/pin/pin-survey.ts';
import { nothingToRead, PinRows } from '../../objects/pin/pin-rows.ts';
import { CidQueue } from '../../objects/pin/cid-queue.ts';
import { StoredPins } from '../../objects/pin/stores/stored-pins.ts';
import { PinWork } from '../../objects/pin/pin-work.ts';
import { storedPin } from '../../routes/files/file-backends.ts';
import { storageOf } from '../sqlite-storage.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const { signal } = new AbortController();

const hourMs = 3_600_000;
/** The address of a pin in the REST API, with its CID as a group. */
const pinPath = /^\/pins\/(\w+)(\/recover)?$/;

// What is lacking is logged, line by line.
beforeEach(() => {
  const log = vi.spyOn(console, 'log').mockReturnValue();
  onTestFinished(() => log.mockRestore());
});

/** The rows of an object, whose pins are at a Cluster of which a test says what its peers say. */
async function startCluster(secondOf: (cid: string) => string) {
  const asked: string[] = [];
  const { url, close } = await startLoopbackServer((incoming, response) => {
    const { pathname } = new URL(incoming.url ?? '', 'http://peer');
    const name = `${incoming.method} ${pathname}`;
    asked.push(name);
    const [, cid = ''] = pinPath.exec(pathname) ?? [];
    const peers = { a: { status: 'pinned' }, b: { status: secondOf(cid), error: 'no\u0007 route' } };
    const pin = { name: 'sealpin:us', replication_factor_min: 2 };
    response.end(JSON.stringify(incoming.method === 'GET' && cid !== '' ? { peer_map: peers } : pin));
  });
  onTestFinished(close);
  let nowMs = 1_000_000;
  const now = () => nowMs;
  const services = [{ id: 'many', type: 'cluster', peers: [{ url, ipfs: url }] }];
  const env = { PINNING_SERVICES: JSON.stringify(services), SERVICE_ID: 'us' } as unknown as Env;
  const sql = storageOf(new DatabaseSync(':memory:'));
  const rows = new PinRows(sql);
  rows.create();
  const migrations = new Migrations(sql, { rows, now });
  const breakers = new Breakers(sql);
  const shard = () => Promise.reject(new Error('no object store is configured'));
  const work = new PinWork({
    env,
    rows,
    breakers,
    migrations,
    stored: new StoredPins({ env, rows, queue: new CidQueue(), shard, now }),
    now,
    removed: () => undefined,
    refused: () => undefined,
    uploadsOf: () => ({ storing: () => shard() }),
  });
  const row = (cid: string) => present(rows.find(cid, 'many'));
  return {
    asked,
    now,
    row,
    /** Adds a pin that is asked for at a time. */
    add(cid: string, due: number): void {
      rows.add(cid, 'many', 'live', due);
      rows.change({ cid, service: 'many' }, { checked_at: nowMs });
    },
    /** Looks at a pin. */
    async look(cid: string) {
      await work.next(row(cid), signal);
      return { row: row(cid), status: storedPin(backendPin(row(cid))).status };
    },
    ask: (cid: string) => rows.change({ cid, service: 'many' }, { ...nothingToRead, due: nowMs }),
    waitUntil: (time: number) => (nowMs = time),
    /** Does what the alarm does, for some time. @returns the time of each look */
    async pass(ms: number): Promise<number[]> {
      const end = nowMs + ms;
      const looks: number[] = [];
      for (;;) {
        const next = Math.max(nowMs, breakers.next(rows) ?? Infinity);
        if (next > end) break;
        nowMs = next;
        await work.next(present(breakers.dueRow(rows, nowMs)), signal);
        looks.push(nowMs);
      }
      nowMs = end;
      return looks;
    },
  };
}

it.each([
  ['pin_error', `POST /pins/${cid}/recover`],
  ['cluster_error', `POST /pins/${cid}`],
])('is shown as such, and made again, where a peer says %s', async (second, request) => {
  let isBack = false;
  const { asked, look, ...object } = await startCluster(() => (isBack ? 'pinned' : second));
  const posts = () => asked.filter((name) => name.startsWith('POST'));
  object.add(cid, object.now());
  object.ask(cid);

  const first = await look(cid);
  expect(first).toMatchObject({
    row: { state: 'live', reason: 'underreplicated', checked_at: object.now() },
    status: 'pinning',
  });
  expect(first.row.detail).toBe(`pinned, ${second} (no\\u{7} route)`);
  expect(posts()).toEqual([request]);
  expect(present(first.row.due) - object.now()).toBeLessThanOrEqual(90_000);
  object.waitUntil(present(first.row.due));
  const again = await look(cid);
  expect(again.status).toBe('pinning');
  isBack = true;
  object.waitUntil(present(again.row.due));
  expect(await look(cid)).toMatchObject({ row: { reason: null, detail: null, attempts: 0 }, status: 'pinned' });
  expect(posts()).toEqual([request, request]);
});

inCi('of many pins is looked at by few while a peer is away, and all are in order soon after it is back', async () => {
  const count = long ? 150 : 60;
  const cids = await Promise.all(Array.from({ length: count }, (_, n) => cidOfBytes(Buffer.from(String(n)))));
  let second = 'pinned';
  const object = await startCluster(() => second);
  // A week in which each is due once; one of them is asked for now.
  for (const [n, each] of cids.entries()) object.add(each, object.now() + 30 * hourMs + n * hourMs);
  const reasons = () => cids.map((each) => object.row(each).reason);
  second = 'cluster_error';
  object.ask(itemOf(cids, 0));
  await object.look(itemOf(cids, 0));
  expect(reasons().filter((reason) => reason !== null)).toEqual(['underreplicated']);

  // One seen has the others asked for within a day.
  await object.pass(24 * hourMs);
  expect(new Set(reasons())).toEqual(new Set(['underreplicated']));

  const looks = await object.pass(48 * hourMs);
  // Each once a day, and some each hour.
  expect(looks.length).toBeLessThan(2 * count + 4 * 48 + 50);
  expect(looks.length).toBeGreaterThan(count);
  const perHour = new Map<number, number>();
  for (const time of looks) perHour.set(Math.floor(time / hourMs), 1 + (perHour.get(Math.floor(time / hourMs)) ?? 0));
  expect(Math.max(...perHour.values())).toBeLessThan(count / 3);

  // A peer that is back says something else: from then on minutes count.
  second = 'pin_error';
  object.asked.length = 0;
  await object.pass(3 * hourMs);
  const recovered = Map.groupBy(
    object.asked.filter((name) => /^POST .*\/recover$/.test(name)),
    (name) => name,
  );
  expect(Math.max(...[...recovered.values()].map(({ length }) => length))).toBeGreaterThan(5);
  second = 'pinned';
  // An hour and a half until the next scout, and ten seconds for each.
  const woken = await object.pass(1.5 * hourMs + count * 10_000);
  expect(new Set(reasons())).toEqual(new Set([null]));
  expect(woken.length).toBeLessThan(2 * count);
});
