/** A pin that fewer peers of a Cluster hold than it asks for, on the rows of an object of pins in SQLite. */
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished } from 'vitest';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import type { Env } from '../../env.ts';
import { Breakers } from '../../objects/pin/breakers.ts';
import { Migrations } from '../../objects/pin/migrations.ts';
import { backendPin } from '../../objects/pin/backend-pin.ts';
import { nothingToRead, PinRows } from '../../objects/pin/pin-rows.ts';
import { PinWork } from '../../objects/pin/pin-work.ts';
import { storedPin } from '../../routes/files/file-backends.ts';
import { storageOf } from '../sqlite-storage.ts';

const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const { signal } = new AbortController();

it.each([
  ['pin_error', `POST /pins/${cid}/recover`],
  ['cluster_error', `POST /pins/${cid}`],
])('is shown as such, and made again, where a peer says %s', async (second, request) => {
  let isBack = false;
  const asked: string[] = [];
  const { url, close } = await startLoopbackServer((incoming, response) => {
    const { pathname } = new URL(incoming.url ?? '', 'http://peer');
    const name = `${incoming.method} ${pathname}`;
    if (incoming.method === 'POST') asked.push(name);
    const peers = { a: { status: 'pinned' }, b: { status: isBack ? 'pinned' : second, error: 'no\u0007 route' } };
    const pin = { name: 'sealpin:us', replication_factor_min: 2 };
    response.end(JSON.stringify(name === `GET /pins/${cid}` ? { peer_map: peers } : pin));
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
  const work = new PinWork({ env, rows, breakers: new Breakers(sql), migrations, now, removed: () => undefined });
  rows.add(cid, 'many', 'live', nowMs);
  rows.change({ cid, service: 'many' }, nothingToRead);
  const look = async () => {
    await work.next(rows.find(cid, 'many')!, signal);
    const row = rows.find(cid, 'many')!;
    return { row, status: storedPin(backendPin(row)).status };
  };

  const first = await look();
  expect(first).toMatchObject({
    row: { state: 'live', reason: 'underreplicated', checked_at: nowMs },
    status: 'pinning',
  });
  expect(first.row.detail).toBe(`pinned, ${second} (no\\u{7} route)`);
  expect(asked).toEqual([request]);
  expect(first.row.due! - nowMs).toBeLessThanOrEqual(60_000);
  nowMs = first.row.due!;
  const second_ = await look();
  expect(second_.status).toBe('pinning');
  isBack = true;
  nowMs = second_.row.due!;
  expect(await look()).toMatchObject({ row: { reason: null, detail: null, attempts: 0 }, status: 'pinned' });
  expect(asked).toEqual([request, request]);
});
