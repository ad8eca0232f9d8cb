import { expect, test } from 'vitest';
import { bundledModule, startWorker } from '../../testkit/workerd.ts';
import { Random } from '../host/random.ts';
import { Storage } from '../platform/storage.ts';
import { resultsOf } from './storage-script.ts';

const newStorage = (): Storage =>
  new Storage({ random: new Random('test'), step: () => undefined, changed: () => undefined });

test('the storage of a simulated object gives what that of workerd gives', async () => {
  const contents = await bundledModule('simulation/test/probed-object.ts');
  const worker = await startWorker(() => ({
    modules: [{ type: 'ESModule', path: '/worker.js', contents }],
    durableObjects: { OBJECT: { className: 'ProbedObject', useSQLite: true } },
  }));
  try {
    const results: unknown = await (await fetch(worker.url)).json();
    expect(await resultsOf(newStorage())).toEqual(results);
  } finally {
    await worker.close();
  }
});

test('a crash takes back what was not committed, with the alarm', async () => {
  const storage = newStorage();
  storage.sql.exec('CREATE TABLE t (a)');
  storage.sql.exec('INSERT INTO t VALUES (1)');
  await storage.setAlarm(1);
  storage.commit();
  storage.sql.exec('INSERT INTO t VALUES (2)');
  await storage.setAlarm(2);
  storage.rollback();
  expect(storage.sql.exec('SELECT a FROM t').toArray()).toEqual([{ a: 1 }]);
  expect(await storage.getAlarm()).toBe(1);
});
