/** Headers of files and records of shares that have ended are in no database: their pages are overwritten, and not only given back. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished } from 'vitest';
import { startService } from '../../../testkit/service.ts';
import { newOwner } from '../stored-state.ts';

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
  const [revoked, used] = [await share(2), await share(1)];
  const [deleted, changed] = [await call.store('encrypted', 'x'), await call.store('encrypted', 'x')];
  const headers = (await object.rows('file')).map(({ header }) => Buffer.from(header as ArrayBuffer));
  expect(headers.map(({ length }) => length > 200)).toEqual([true, true]);
  await call.deleteShare({ shareId: revoked });
  await call.openShare({ shareId: used });
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
