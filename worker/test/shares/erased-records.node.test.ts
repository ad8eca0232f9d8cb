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
  const change = (id: string): Promise<unknown> => call.changeShare({ shareId: id, opens: 90 });
  const endings: ((id: string) => Promise<unknown>)[] = [
    revoke,
    (id) => open(id),
    (id) => open(id, true).then(() => revoke(id)),
    (id) => change(id).then(() => revoke(id)),
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
  const names = [randomBytes(3000), randomBytes(3000), randomBytes(3000)].map((bytes) =>
    Buffer.concat([Buffer.from('sealpin/v1\n'), bytes]),
  );
  const named = [await call.store('plain', 'x'), await call.store('plain', 'x')].map(({ fileId }) => fileId);
  const name = (fileId: string | undefined, details: Buffer | undefined): Promise<unknown> =>
    call.changeFile({ fileId: String(fileId), details: details?.toString('base64') ?? null });
  await name(named[0], names[0]);
  await name(named[0], names[1]);
  await call.deleteFile({ fileId: String(named[0]) });
  await name(named[1], names[2]);
  await name(named[1], undefined);
  await call.deleteFile({ fileId: deleted.fileId });
  await call.changeFile({ fileId: changed.fileId, filename: 'x' });
  await service.close();
  // Some bytes of each page, and of each header the end, which no other one has.
  const traces = [
    ...Array.from({ length: 20 }, (_, piece) => record.subarray(piece * 2000, piece * 2000 + 16)),
    ...headers.map((header) => header.subarray(-16)),
    ...names.flatMap((bytes) => [bytes.subarray(100, 116), bytes.subarray(1500, 1516), bytes.subarray(-16)]),
  ];
  const databases = (await readdir(dir, { recursive: true })).filter((name) => name.endsWith('.sqlite'));
  expect(databases.length).toBeGreaterThan(2);
  for (const path of databases) {
    const database = new DatabaseSync(join(dir, path));
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
    const bytes = await readFile(join(dir, path));
    expect(traces.map((trace) => bytes.includes(trace)).lastIndexOf(true), path).toBe(-1);
  }
});
