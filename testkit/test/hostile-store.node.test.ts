/**
 * The store between an adapter and a real one: what each of its faults does to the answer, and to
 * the store behind it.
 */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  answersAsBefore,
  answersLate,
  doesAndRefuses,
  failsWith200,
  flips,
  refuses,
  resizes,
  startHostileStore,
  type HostileStore,
} from '../object-stores/hostile-store.ts';
import { keysOf, sendS3 } from '../object-stores/s3-requests.ts';
import { hasVersitygw, noVersitygw, startVersitygw, type Versitygw } from '../object-stores/versitygw.ts';

let store: Versitygw;
let hostile: HostileStore;
const key = 'data/a/00000000';
const once = { body: 'hello world', headers: { 'if-none-match': '*' } };

const asked = async (...request: Parameters<typeof sendS3>): Promise<[number, string]> => {
  const response = await sendS3(...request);
  return [response.status, await response.text()];
};
const codeOf = (xml: string): string | undefined => /<Code>(\w+)</.exec(xml)?.[1];

describe.skipIf(!hasVersitygw())('a hostile store', () => {
  beforeAll(async () => {
    store = await startVersitygw();
  });
  beforeEach(async () => {
    for (const each of await keysOf(store)) await sendS3(store, 'DELETE', each);
    hostile = await startHostileStore(store);
    onTestFinished(() => hostile.close());
  });
  afterAll(() => store?.close());

  test('passes signed requests on without rules, and tells what was asked', async () => {
    expect((await asked(hostile, 'PUT', key, once))[0]).toBe(200);
    expect(await asked(hostile, 'GET', key)).toEqual([200, 'hello world']);
    expect(await keysOf(hostile)).toEqual([key]);
    expect(hostile.requests).toEqual([
      { method: 'PUT', key },
      { method: 'GET', key },
      { method: 'GET', key: '?list-type=2&max-keys=1000&prefix=' },
    ]);
  });

  test('chooses by method, key and number, the first rule that fits', async () => {
    hostile.obey(
      { method: 'GET', key: /^data\//, nth: [2, 3], fault: refuses('SlowDown') },
      { method: 'GET', nth: 1, fault: refuses('InternalError') },
    );
    await sendS3(hostile, 'PUT', key, once);
    const statuses: number[] = [];
    for (let i = 0; i < 5; i += 1) statuses.push((await asked(hostile, 'GET', key))[0]);
    expect(statuses).toEqual([500, 503, 503, 200, 200]);
    hostile.obey({ key: /^cid\//, fault: refuses('AccessDenied', { 'retry-after': '7' }) });
    const refused = await sendS3(hostile, 'GET', 'cid/a');
    expect(refused.status).toBe(403);
    expect(refused.headers.get('retry-after')).toBe('7');
    expect(codeOf(await refused.text())).toBe('AccessDenied');
    expect((await asked(hostile, 'GET', key))[0]).toBe(200);
  });

  test('refuses without the store, or after it has done it', async () => {
    hostile.obey(
      { method: 'PUT', nth: 1, fault: refuses('SlowDown') },
      { method: 'PUT', fault: doesAndRefuses('SlowDown') },
    );
    expect((await asked(hostile, 'PUT', key, once))[0]).toBe(503);
    expect(await keysOf(store)).toEqual([]);
    const [status, text] = await asked(hostile, 'PUT', key, once);
    expect(status).toBe(503);
    expect(codeOf(text)).toBe('SlowDown');
    expect(await keysOf(store)).toEqual([key]);
  });

  test('says 200 with an error inside, and has done nothing', async () => {
    hostile.obey({ method: 'PUT', fault: failsWith200('InternalError') });
    const [status, text] = await asked(hostile, 'PUT', key, once);
    expect(status).toBe(200);
    expect(codeOf(text)).toBe('InternalError');
    expect(await keysOf(store)).toEqual([]);
  });

  test('lets a request arrive twice', async () => {
    hostile.obey({ fault: { kind: 'twice' } });
    expect((await asked(hostile, 'PUT', key, once))[0]).toBe(412);
    expect(await asked(store, 'GET', key)).toEqual([200, 'hello world']);
  });

  test('loses an answer, and breaks off an upload, which stays as far as it came unless it has a digest', async () => {
    hostile.obey({ nth: 1, fault: { kind: 'swallow' } }, { fault: { kind: 'break', afterBytes: 100_000 } });
    await expect(sendS3(hostile, 'PUT', key, once)).rejects.toThrow('fetch failed');
    expect(await keysOf(store)).toEqual([key]);
    const body = new Uint8Array(1_000_000);
    const md5 = { 'content-md5': createHash('md5').update(body).digest('base64') };
    await expect(sendS3(hostile, 'PUT', 'data/c/00000000', { body, headers: md5 })).rejects.toThrow('fetch failed');
    await expect(sendS3(hostile, 'PUT', 'data/b/00000000', { body })).rejects.toThrow('fetch failed');
    await expect.poll(() => keysOf(store)).toEqual([key, 'data/b/00000000']);
    const stored = await sendS3(store, 'HEAD', 'data/b/00000000');
    expect(Number(stored.headers.get('content-length'))).toBeLessThan(body.length);
  });

  test('answers late, before or after the store has done it', async () => {
    const gate = Promise.withResolvers<void>();
    hostile.obey(
      { nth: 1, fault: { kind: 'late', until: gate.promise, next: refuses('RequestTimeout') } },
      { nth: 1, fault: answersLate(gate.promise) },
    );
    const [before, after] = [asked(hostile, 'PUT', key, once), asked(hostile, 'PUT', 'cid/a', once)];
    const both = Promise.all([before, after]).then(() => 'answered');
    await expect.poll(() => keysOf(store)).toEqual(['cid/a']);
    expect(await Promise.race([both, Promise.resolve('late')])).toBe('late');
    gate.resolve();
    expect({ before: (await before)[0], after: (await after)[0] }).toEqual({ before: 400, after: 200 });
    expect(await keysOf(store)).toEqual(['cid/a']);
  });

  test('gives other bytes, too few, too many, and a body that breaks off', async () => {
    await sendS3(store, 'PUT', key, once);
    hostile.obey(
      { nth: 1, fault: flips(4) },
      { nth: 1, fault: resizes(-3) },
      { nth: 1, fault: resizes(2) },
      { fault: { kind: 'cut', afterBytes: 5 } },
    );
    expect(await asked(hostile, 'GET', key)).toEqual([200, 'helln world']);
    const short = await sendS3(hostile, 'GET', key, { headers: { range: 'bytes=0-7' } });
    expect(short.status).toBe(206);
    expect(short.headers.get('content-length')).toBe('5');
    expect(await short.text()).toBe('hello');
    expect(await asked(hostile, 'GET', key)).toEqual([200, 'hello world\0\0']);
    await expect(asked(hostile, 'GET', key)).rejects.toThrow('terminated');
  });

  test('says another length of an object that it is asked about', async () => {
    await sendS3(store, 'PUT', key, once);
    hostile.obey({ method: 'HEAD', fault: resizes(-1) });
    expect((await sendS3(hostile, 'HEAD', key)).headers.get('content-length')).toBe('10');
  });

  test('gives an old listing', async () => {
    hostile.obey({ key: /^\?.*list-type=2/, fault: answersAsBefore() });
    expect(await keysOf(hostile)).toEqual([]);
    await sendS3(hostile, 'PUT', key, once);
    expect(await keysOf(hostile)).toEqual([]);
    expect(await keysOf(store)).toEqual([key]);
    hostile.obey();
    expect(await keysOf(hostile)).toEqual([key]);
  });

  test('changes and loses an object that it had acknowledged', async () => {
    await sendS3(hostile, 'PUT', key, once);
    const before = (await sendS3(store, 'HEAD', key)).headers;
    await store.damage(key, 4);
    const after = await sendS3(hostile, 'GET', key);
    expect(await after.text()).toBe('helln world');
    for (const name of ['etag', 'last-modified']) expect(after.headers.get(name), name).toBe(before.get(name));
    await store.lose(key);
    expect((await asked(hostile, 'GET', key))[0]).toBe(404);
  });
});
if (!hasVersitygw()) test.skip(noVersitygw);
