/**
 * Shares on the disk of the local service: nothing of an ended one, and no file for one that does
 * not exist.
 */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, expect, test } from 'vitest';
import { newShareId } from '../../../shared/link/index.ts';
import { long } from '../../../testkit/long-run.ts';
import { loadRun, localPaths } from '../../local/state.ts';
import { call, everyFile, removeAll, startHere, startLocal, store } from './harness.ts';
import type { RunningHere } from './harness.ts';
import { present } from '../../../testkit/present.ts';

const services: RunningHere[] = [];
afterEach(async () => {
  await removeAll(services.splice(0));
});
async function started(o?: Parameters<typeof startHere>[0]): Promise<RunningHere> {
  const service = await startHere(o);
  services.push(service);
  return service;
}

/** Miniflare's files for the objects of a class. */
async function filesOf(service: RunningHere, className: string): Promise<string[]> {
  const names = await readdir(join(localPaths(service.dataDir).state, `do/sealpin-${className}`)).catch(() => []);
  return names.filter((name) => name !== 'metadata.sqlite' && !name.startsWith('metadata.sqlite-'));
}

type Made = { id: string; record: Buffer };

async function share(service: RunningHere, fileId: string, o: Record<string, unknown> = {}): Promise<Made> {
  const record = Buffer.from(crypto.getRandomValues(new Uint8Array(50_000)));
  const response = await call(service, '/v1/shares', {
    method: 'POST',
    body: JSON.stringify({ record: record.toString('base64'), files: [fileId], password: false, ...o }),
  });
  expect(response.status).toBe(201);
  const { id } = (await response.json()) as { id: string };
  return { id, record };
}

const open = (service: RunningHere, id: string): Promise<Response> =>
  fetch(`${service.url}/v1/shares/${id}/open`, { method: 'POST' });

/**
 * Measures how much of a record the files of the data directory hold, in percent of pieces of it:
 * some from each page of the database.
 */
async function percentLeft(service: RunningHere, { record }: Made): Promise<number> {
  const all = await everyFile(service.dataDir);
  const pieces = long ? 100 : 25;
  let found = 0;
  for (let piece = 0; piece < pieces; piece += 1) {
    const at = Math.floor((piece * record.length) / pieces);
    if (all.includes(record.subarray(at, at + 16))) found += 1;
  }
  return (100 * found) / pieces;
}

test('a share that has ended is in no file when the response comes, nor after a crash', async () => {
  const service = await startLocal();
  services.push(service);
  const bytes = new Uint8Array(10).fill(7);
  const { fileId } = await store(service, 'encrypted', bytes);
  const { fileId: doomed } = await store(service, 'encrypted', bytes);
  const usedUp = await share(service, fileId, { opens: 2 });
  const revoked = await share(service, fileId);
  const ofFile = await share(service, doomed);
  const kept = await share(service, fileId);
  for (const each of [usedUp, revoked, ofFile, kept]) expect(await percentLeft(service, each)).toBeGreaterThan(50);

  expect((await open(service, usedUp.id)).status).toBe(200);
  expect(await percentLeft(service, usedUp)).toBeGreaterThan(50);
  const last = (await (await open(service, usedUp.id)).json()) as { record: string };
  expect(Buffer.compare(Buffer.from(last.record, 'base64'), usedUp.record)).toBe(0);
  expect(await percentLeft(service, usedUp)).toBe(0);

  const receipt = await call(service, `/v1/shares/${revoked.id}`, { method: 'DELETE' });
  expect(await receipt.json()).toEqual({ id: revoked.id, record: 'destroyed', opened: 0 });
  expect(await percentLeft(service, revoked)).toBe(0);

  const deleted = await call(service, `/v1/storage/${doomed}`, { method: 'DELETE' });
  expect(await deleted.json()).toMatchObject({ shares: [{ id: ofFile.id, record: 'destroyed' }] });
  expect(await percentLeft(service, ofFile)).toBe(0);

  const { workerd } = present(await loadRun(service.dataDir));
  await service.end('SIGKILL');
  for (const { pid } of workerd) process.kill(pid, 'SIGKILL');
  const again = await started({ dataDir: service.dataDir });
  for (const each of [usedUp, revoked, ofFile]) {
    expect(await percentLeft(again, each)).toBe(0);
    expect((await open(again, each.id)).status).toBe(410);
  }
  expect((await open(again, kept.id)).status).toBe(200);
  expect(again.stderr()).not.toMatch(/erasure\.late|"error"/);
});

test('requests for shares that do not exist create no file, but those of one object that stands for all', async () => {
  const service = await started();
  const { fileId } = await store(service, 'plain', new Uint8Array(10));
  const { id } = await share(service, fileId);
  expect((await fetch(`${service.url}/v1/shares/${newShareId()}`)).status).toBe(404);
  const own = await filesOf(service, 'Share');
  expect(own.filter((name) => name.endsWith('.sqlite'))).toHaveLength(2);
  for (let each = 0; each < 5; each += 1) {
    const unknown = newShareId();
    for (const method of ['GET', 'HEAD'])
      expect((await fetch(`${service.url}/v1/shares/${unknown}`, { method })).status).toBe(404);
    expect((await open(service, unknown)).status).toBe(404);
    expect((await call(service, `/v1/shares/${unknown}`, { method: 'DELETE' })).status).toBe(404);
  }
  expect(await filesOf(service, 'Share')).toEqual(own);
  expect((await fetch(`${service.url}/v1/shares/${id}`)).status).toBe(200);
  expect((await open(service, id)).status).toBe(200);
  await service.end();
  expect((await filesOf(service, 'Share')).length).toBe(1);
});

test('a data directory from before there were shares starts; its keys keep their scopes', async () => {
  const service = await started();
  const { fileId } = await store(service, 'encrypted', new Uint8Array(10));
  await service.end();
  const state = localPaths(service.dataDir).state;
  await rm(join(state, 'do/sealpin-Share'), { recursive: true, force: true });
  const [name] = (await filesOf(service, 'Account')).filter((each) => each.endsWith('.sqlite'));
  const database = new DatabaseSync(join(state, 'do/sealpin-Account', present(name)));
  database.exec('DROP TABLE share; DROP TABLE share_file; DROP TABLE key_limit');
  database.exec(`UPDATE api_key SET scopes = 'read write delete keys'`);
  database.close();
  const again = await started({ dataDir: service.dataDir });
  expect((await call(again, `/v1/storage/${fileId}`)).status).toBe(200);
  const refused = await call(again, '/v1/shares', { method: 'POST', body: '{}' });
  expect(refused.status).toBe(403);
  expect(((await refused.json()) as { code: string }).code).toBe('insufficient_scope');
  const about = (await (await call(again, '/v1/account')).json()) as { key: { scopes: string[] } };
  expect(about.key.scopes).toEqual(['read', 'write', 'delete', 'keys']);
  expect((await call(again, `/v1/storage/${fileId}`, { method: 'DELETE' })).status).toBe(200);
});
