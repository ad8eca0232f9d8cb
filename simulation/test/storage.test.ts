import { expect, test } from 'vitest';
import { encodeIndex } from '../../worker/backends/objects/object-index.ts';
import { bundledModule, startWorker } from '../../testkit/workerd.ts';
import { Random } from '../host/random.ts';
import { Scheduler } from '../host/scheduler.ts';
import { Behaviour } from '../platform/behaviour.ts';
import { SimulatedBucket } from '../platform/simulated-bucket.ts';
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

test('a simulated bucket has a file while it has each object that the index names, as it was', () => {
  const id = '0123456789abcdef'.repeat(2);
  const objects = [
    { n: 1, bytes: 3 },
    { n: 12, bytes: 4 },
  ];
  const index = encodeIndex({ id, size: 7, objects, leaves: { digests: new Uint8Array(32) }, nodes: [] });
  const keys = [`p/data/${id}/00000001`, `p/data/${id}/00000012`, 'p/cid/bafy'];
  const bucketOf = (): SimulatedBucket => {
    const scheduler = new Scheduler('bucket');
    const bucket = new SimulatedBucket(new Behaviour('b', scheduler), () => undefined);
    for (const [at, key] of keys.entries())
      bucket.objects.set(key, { bytes: at === 2 ? index : new Uint8Array(objects[at]?.bytes ?? 0), at: 0 });
    return bucket;
  };
  const whole = bucketOf();
  expect(whole.holdsWell('bafy')).toBe(true);
  expect(whole.holds('bafz')).toBe(false);
  for (const key of keys) {
    const [without, changed] = [bucketOf(), bucketOf()];
    without.remove(key);
    changed.damage(key);
    expect(without.holds('bafy'), key).toBe(false);
    expect(changed.holds('bafy'), key).toBe(true);
    expect(changed.holdsWell('bafy'), key).toBe(false);
  }
});
