/** What adapters and tests rely on, asked of the stores that stand in for those of others. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { keysOf, sendS3, versionsOf, type Bucket } from '../object-stores/s3-requests.ts';
import { hasVersitygw, noVersitygw, startVersitygw, type Versitygw } from '../object-stores/versitygw.ts';

async function started(o: Parameters<typeof startVersitygw>[0] = {}): Promise<Versitygw> {
  const store = await startVersitygw(o);
  onTestFinished(() => store.close());
  return store;
}

const statusOf = async (...request: Parameters<typeof sendS3>): Promise<number> => (await sendS3(...request)).status;

/** Removes every version of every object; the statuses of the answers. */
async function removeVersions(bucket: Bucket): Promise<Set<number>> {
  const statuses = new Set<number>();
  for (const { key, version } of await versionsOf(bucket))
    statuses.add(await statusOf(bucket, 'DELETE', key, { query: { versionId: version } }));
  return statuses;
}

describe.skipIf(!hasVersitygw())('versitygw', () => {
  test('stores a key once, however many send it, and gives any range of it', async () => {
    const store = await started();
    const once = { body: 'hello world', headers: { 'if-none-match': '*' } };
    const statuses = await Promise.all(Array.from({ length: 20 }, () => statusOf(store, 'PUT', 'data/a/00000', once)));
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, ...Array<number>(19).fill(412)]);
    const range = await sendS3(store, 'GET', 'data/a/00000', { headers: { range: 'bytes=6-7' } });
    expect(range.status).toBe(206);
    expect(range.headers.get('content-range')).toBe('bytes 6-7/11');
    expect(await range.text()).toBe('wo');
    expect(await statusOf(store, 'GET', 'data/a/00000', { headers: { range: 'bytes=11-' } })).toBe(416);
    expect(await statusOf(store, 'GET', 'data/a/00001')).toBe(404);
  });

  test('lists keys in their order, page by page', async () => {
    const store = await started();
    const keys = ['cid/b', 'data/a/00000', 'data/a/00001', 'data/b/00000'];
    for (const key of keys.toReversed()) await sendS3(store, 'PUT', key, { body: key });
    expect(await keysOf(store)).toEqual(keys);
    expect(await keysOf(store, 'data/', 1)).toEqual(keys.slice(1));
  });

  test('refuses a wrong secret, region, clock, bucket and MD5', async () => {
    const store = await started();
    const key = 'data/a/00000';
    expect(await statusOf({ ...store, secret: 'another' }, 'GET', key)).toBe(403);
    expect(await statusOf({ ...store, region: 'eu-west-1' }, 'GET', key)).toBe(400);
    expect(await statusOf(store, 'GET', key, { at: new Date(Date.now() - 20 * 60_000) })).toBe(403);
    expect(await statusOf({ ...store, bucket: 'another' }, 'GET', key)).toBe(404);
    const md5 = { 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg==' };
    expect(await statusOf(store, 'PUT', key, { body: 'x', headers: md5 })).toBe(400);
    expect(await keysOf(store)).toEqual([]);
  });

  test('keeps its objects when it is killed, and only reads when it is told to', async () => {
    const store = await started();
    await sendS3(store, 'PUT', 'cid/a', { body: 'x' });
    await store.kill();
    await expect(sendS3(store, 'GET', 'cid/a')).rejects.toThrow('fetch failed');
    await store.start({ isReadOnly: true });
    expect(await (await sendS3(store, 'GET', 'cid/a')).text()).toBe('x');
    expect(await statusOf(store, 'PUT', 'cid/b', { body: 'x' })).toBe(403);
    expect(await statusOf(store, 'DELETE', 'cid/a')).toBe(403);
    expect(existsSync(join(store.folder, 'cid/a'))).toBe(true);
  });

  test('keeps versions of removed objects until each is removed', async () => {
    const store = await started({ keeps: 'versions' });
    for (const body of ['one', 'two']) await sendS3(store, 'PUT', 'cid/a', { body });
    expect(await statusOf(store, 'DELETE', 'cid/a')).toBe(204);
    expect(await statusOf(store, 'GET', 'cid/a')).toBe(404);
    expect(await keysOf(store)).toEqual([]);
    expect(await versionsOf(store)).toHaveLength(3);
    expect(await removeVersions(store)).toEqual(new Set([204]));
    expect(await versionsOf(store)).toEqual([]);
  });

  test('keeps versions that are locked', async () => {
    const store = await started({ keeps: 'locked' });
    await sendS3(store, 'PUT', 'cid/a', { body: 'one' });
    expect(await removeVersions(store)).toEqual(new Set([403]));
    expect(await versionsOf(store)).toHaveLength(1);
  });

  test('has other buckets, with objects of their own', async () => {
    const store = await started();
    const other = await store.addBucket('another-bucket');
    await sendS3(other, 'PUT', 'cid/a', { body: 'x' });
    expect(await keysOf(store)).toEqual([]);
    expect(await keysOf(other)).toEqual(['cid/a']);
  });
});
if (!hasVersitygw()) test.skip(noVersitygw);
