/**
 * Shares on the disk of the local service: nothing of an ended one, and no file for one that does
 * not exist.
 */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'vitest';
import { newShareId } from '../../../shared/link/index.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { readState, localPaths } from '../../local/state.ts';
import { api, endedAfterEach, ask, everyFile, store } from './harness.ts';
import type { RunningHere } from './harness.ts';
import { client, problemOf } from '../../../testkit/api-client.ts';
import { present } from '../../../testkit/present.ts';

const { started, startedHere } = endedAfterEach();

/** Miniflare's files for the objects of a class. */
async function filesOf(service: RunningHere, className: string): Promise<string[]> {
  const names = await readdir(join(localPaths(service.dataDir).state, `do/sealpin-${className}`)).catch(() => []);
  return names.filter((name) => name !== 'metadata.sqlite' && !name.startsWith('metadata.sqlite-'));
}

type Made = { id: string; record: Buffer };

async function share(service: RunningHere, fileId: string, o: Record<string, unknown> = {}): Promise<Made> {
  const record = Buffer.from(crypto.getRandomValues(new Uint8Array(50_000)));
  const asked = { record: record.toString('base64'), files: [fileId], password: false, ...o };
  return { id: (await api(service).createShare(asked)).id, record };
}

const open = (service: RunningHere, shareId: string): Promise<Response> =>
  client(service.url).ask('openShare', { shareId });

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

inCi('a share that has ended is in no file when the response comes, nor after a crash', async () => {
  const service = await started();
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

  const receipt = await ask(service, 'deleteShare', { shareId: revoked.id });
  expect(await receipt.json()).toEqual({ id: revoked.id, record: 'destroyed', opened: 0 });
  expect(await percentLeft(service, revoked)).toBe(0);

  const deleted = await ask(service, 'deleteFile', { fileId: doomed });
  expect(await deleted.json()).toMatchObject({ shares: [{ id: ofFile.id, record: 'destroyed' }] });
  expect(await percentLeft(service, ofFile)).toBe(0);

  const { workerd } = present(await readState(service.dataDir, 'run'));
  await service.end('SIGKILL');
  for (const { pid } of workerd) process.kill(pid, 'SIGKILL');
  const again = await startedHere({ dataDir: service.dataDir });
  for (const each of [usedUp, revoked, ofFile]) {
    expect(await percentLeft(again, each)).toBe(0);
    expect((await open(again, each.id)).status).toBe(410);
  }
  expect((await open(again, kept.id)).status).toBe(200);
  expect(again.stderr()).not.toMatch(/erasure\.late|"error"/);
});

inCi('requests for shares that do not exist create no file, but those of one object that stands for all', async () => {
  const service = await startedHere();
  const { fileId } = await store(service, 'plain', new Uint8Array(10));
  const { id } = await share(service, fileId);
  expect((await client(service.url).ask('getShare', { shareId: newShareId() })).status).toBe(404);
  const own = await filesOf(service, 'Share');
  expect(own.filter((name) => name.endsWith('.sqlite'))).toHaveLength(2);
  for (let each = 0; each < 5; each += 1) {
    const unknown = newShareId();
    for (const method of ['GET', 'HEAD'])
      expect((await client(service.url).ask('getShare', { shareId: unknown }, { method })).status).toBe(404);
    expect((await open(service, unknown)).status).toBe(404);
    expect((await ask(service, 'deleteShare', { shareId: unknown })).status).toBe(404);
  }
  expect(await filesOf(service, 'Share')).toEqual(own);
  expect((await client(service.url).ask('getShare', { shareId: id })).status).toBe(200);
  expect((await open(service, id)).status).toBe(200);
  await service.end();
  expect((await filesOf(service, 'Share')).length).toBe(1);
});

inCi('a data directory from before there were shares starts; its keys keep their scopes', async () => {
  const service = await startedHere();
  const { fileId } = await store(service, 'encrypted', new Uint8Array(10));
  await service.end();
  const state = localPaths(service.dataDir).state;
  await rm(join(state, 'do/sealpin-Share'), { recursive: true, force: true });
  const [name] = (await filesOf(service, 'Account')).filter((each) => each.endsWith('.sqlite'));
  const database = new DatabaseSync(join(state, 'do/sealpin-Account', present(name)));
  database.exec('DROP TABLE share; DROP TABLE share_file; DROP TABLE key_limit');
  database.exec(`UPDATE api_key SET scopes = 'read write delete keys'`);
  database.close();
  const again = await startedHere({ dataDir: service.dataDir });
  expect((await ask(again, 'getFile', { fileId })).status).toBe(200);
  expect(await problemOf(ask(again, 'createShare'))).toBe('403 insufficient_scope');
  expect((await api(again).getAccount()).key.scopes).toEqual(['read', 'write', 'delete', 'keys']);
  expect((await ask(again, 'deleteFile', { fileId })).status).toBe(200);
});
