/**
 * Headers of files and records of shares that have ended are in no database: their pages are
 * overwritten, and not only given back.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished } from 'vitest';
import { startService } from '../../../testkit/service.ts';
import { newOwner, shareObject } from '../stored-state.ts';

it('nothing of them is left once the logs of the databases are written back', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-records-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const service = await startService({ dir, entry: 'worker/test/clock.ts' });
  const { call, object } = await newOwner(service);
  const record = randomBytes(40_000);
  const share = async (opens: number): Promise<string> => {
    const request = { record: record.toString('base64'), files: [], password: false, opens };
    return (await call.createShare(request)).id;
  };
  const open = async (id: string, isRepeatable = false): Promise<unknown> => {
    const headers = isRepeatable ? { 'Idempotency-Key': randomUUID() } : undefined;
    return await call.openShare({ shareId: id }, { ...(headers && { headers }) });
  };
  const revoke = (id: string): Promise<unknown> => call.deleteShare({ shareId: id });
  const endings: ((id: string) => Promise<unknown>)[] = [
    revoke,
    (id) => open(id),
    (id) => open(id, true).then(() => revoke(id)),
    (id) => open(id, true).then(() => shareObject(service, id).ring(3_600_000)),
  ];
  const [deleted, changed] = [await call.store('encrypted', 'x'), await call.store('encrypted', 'x')];
  const headers = (await object.rows('file')).map(({ header }) => Buffer.from(header as ArrayBuffer));
  expect(headers.map(({ length }) => length > 200)).toEqual([true, true]);
  for (const [index, end] of endings.entries())
    for (let before = 0; before < 4; before += 1) {
      // Each opening may write the row again.
      const id = await share(before + 1);
      for (let each = 0; each < before; each += 1) await open(id, (each + index) % 2 === 0);
      await end(id);
      await shareObject(service, id).ring(3_600_000);
    }
  await call.deleteFile({ fileId: deleted.fileId });
  await call.changeFile({ fileId: changed.fileId, filename: 'x' });
  await service.close();
  // Some bytes of each page, and of each header the end, which no other one has.
  const traces = [
    ...Array.from({ length: 20 }, (_, piece) => record.subarray(piece * 2000, piece * 2000 + 16)),
    ...headers.map((header) => header.subarray(-16)),
  ];
  const names = (await readdir(dir, { recursive: true })).filter((name) => name.endsWith('.sqlite'));
  expect(names.length).toBeGreaterThan(2);
  for (const name of names) {
    const database = new DatabaseSync(join(dir, name));
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
    const bytes = await readFile(join(dir, name));
    expect(traces.map((trace) => bytes.includes(trace)).lastIndexOf(true), name).toBe(-1);
  }
});
