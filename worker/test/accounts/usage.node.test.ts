/** Daily usage of API keys: counted in the isolate, kept in the account's object. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { KeyUsage } from '../../../shared/api.ts';
import { newApiKey } from '../../../shared/crypto/index.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { bytesOf, client, problemOf, signedPath } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

const dayMs = 86_400_000;
let service: Service;
let owner: Owner;
let keyId: string;

beforeAll(async () => {
  service = await sharedService();
});
beforeEach(async () => {
  owner = await newOwner(service);
  keyId = (await owner.call.getAccount()).key.id;
});

const today = (afterMs = 0): string => new Date(Date.now() + afterMs).toISOString().slice(0, 10);
const usedBy = async (id: string): Promise<KeyUsage | undefined> =>
  (await owner.call.listUsage()).usage.find((each) => each.keyId === id);

describe('the use of a key', () => {
  it('is its requests and the bytes of their bodies, each counted once', async () => {
    const call = await owner.call.withKey(['write', 'read']);
    const { fileId } = await call.store('plain', 'a'.repeat(1000));
    const streamed = new Blob(['b'.repeat(70_000)]).stream();
    const headers = { 'Content-Type': 'a/b' };
    await call.storePlain({}, { headers, body: streamed, duplex: 'half' });
    await call.getFileContent({ fileId });
    await call(`/v1/storage/${fileId}/content`, { method: 'HEAD' });
    const used = { keyId: call.id, day: today(), requests: 4, bytesIn: 71_000, bytesOut: 1000 };
    expect(await usedBy(call.id)).toEqual(used);
    expect(await usedBy(call.id)).toEqual(used);
    await call.getFileContent({ fileId });
    expect(await usedBy(call.id)).toEqual({ ...used, requests: 5, bytesOut: 2000 });
  });

  it('has no bytes of a body that was refused before it was read, and those of one that was read', async () => {
    const call = await owner.call.withKey(['write']);
    const body = 'd'.repeat(3000);
    const tus = { 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/offset+octet-stream' };
    const refusals = [
      call.ask('storePlain', {}, { headers: { 'Content-Encoding': 'gzip' }, body }),
      call.ask('storeEncrypted', {}, { body }),
      call('/v1/uploads/plain', { method: 'POST', headers: { ...tus, 'Upload-Length': '2999' }, body }),
      call(`/v1/uploads/${crypto.randomUUID()}`, { method: 'PATCH', headers: { ...tus, 'Upload-Offset': '0' }, body }),
      call.ask('createKey', { label: 'x', scopes: ['read'] }),
    ];
    for (const refused of refusals) expect((await refused).status).toBeGreaterThan(399);
    expect(await usedBy(call.id)).toMatchObject({ requests: 5, bytesIn: 0 });
    const before = present(await usedBy(keyId)).bytesIn;
    const json = '{"files": ["x"]}';
    const asked = await owner.call('/v1/storage/delete', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: json,
    });
    expect(asked.status).toBe(400);
    expect(await usedBy(keyId)).toMatchObject({ bytesIn: before + json.length });
  });

  it('has what failed in it, and what a signed URL did for its key', async () => {
    const call = await owner.call.withKey(['read']);
    const { fileId } = await owner.call.store('plain', 'c'.repeat(500));
    expect(await problemOf(call.ask('listKeys'))).toBe('403 insufficient_scope');
    await bytesOf(client(service.url, '')(await signedPath(call.apiKey, { method: 'GET', file: fileId })));
    expect(await usedBy(call.id)).toMatchObject({ requests: 2, bytesOut: 500 });
  });

  it('is written once for many requests', async () => {
    const before = await owner.object.rows('key_usage');
    await Promise.all(Array.from({ length: 20 }, () => owner.call.ask('getAccount')));
    expect(await owner.object.rows('key_usage')).toEqual(before);
    expect((await usedBy(keyId))?.requests).toBe(21);
  });

  it.runIf(long)(
    'reaches the account some seconds later by itself (npm run test:long)',
    async () => {
      const rows = await owner.object.rows('key_usage');
      await owner.call.ask('getAccount');
      await expect.poll(() => owner.object.rows('key_usage'), { timeout: 60_000 }).not.toEqual(rows);
    },
    90_000,
  );

  it('is that of the account’s own keys, whatever key a request claims to have', async () => {
    const stranger = client(service.url, (await newApiKey(owner.id)).text);
    expect(await problemOf(stranger.ask('getAccount'))).toBe('401 unauthorized');
    expect(await problemOf(stranger.ask('listFiles', { limit: 0 }))).toBe('400 invalid_request');
    expect((await owner.call.listUsage()).usage.map((each) => each.keyId)).toEqual([keyId]);
    const nowhere = client(service.url, (await newApiKey('1'.repeat(22))).text);
    expect(await problemOf(nowhere('/v1/storage?limit=0'))).toBe('400 invalid_request');
    expect(await problemOf(nowhere('/v1/usage'))).toBe('401 unauthorized');
  });
});

describe('the list of uses', () => {
  it('has a row for each key and day, the newest first, in pages', async () => {
    const call = await owner.call.withKey(['read']);
    await call.listUsage();
    await owner.call.listUsage();
    await owner.object.ring(dayMs);
    await call.listUsage();
    const { usage, cursor } = await owner.call.listUsage({ limit: 2 });
    const rest = await owner.call.listUsage({ limit: 100, cursor });
    const all = [...usage, ...rest.usage];
    expect(all.map(({ day }) => day)).toEqual([today(dayMs), today(dayMs), today(), today()]);
    expect(new Set(all.map((each) => `${each.day} ${each.keyId}`)).size).toBe(4);
    expect(new Set(all.map((each) => each.keyId))).toEqual(new Set([call.id, keyId]));
    expect(rest.cursor).toBeUndefined();
    expect(await owner.call.listUsage({ limit: 4 })).not.toHaveProperty('cursor');
  });

  it('forgets a day after 90 more of them, by the clock and by the alarm', async () => {
    await owner.call.listUsage();
    const [first] = (await owner.call.listUsage()).usage;
    await owner.object.ring(90 * dayMs);
    expect((await owner.call.listUsage()).usage).toContainEqual(first);
    await owner.object.wait(dayMs);
    expect((await owner.call.listUsage()).usage.map(({ day }) => day)).not.toContain(present(first).day);
    expect(await owner.object.rows('key_usage')).toHaveLength(3);
    await owner.object.ring(0);
    expect(await owner.object.rows('key_usage')).toHaveLength(2);
  });

  it('is for keys with the scope read, and for the operator', async () => {
    const call = await owner.call.withKey(['write', 'keys', 'delete', 'share']);
    expect(await problemOf(call.ask('listUsage'))).toBe('403 insufficient_scope');
    const operator = client(service.url, adminToken);
    const seen = await operator.listAccountUsage({ id: owner.id });
    expect(seen.usage.map((each) => each.keyId)).toContain(keyId);
    expect(await problemOf(owner.call.ask('listAccountUsage', { id: owner.id }))).toBe('401 unauthorized');
    expect(await problemOf(operator.ask('listAccountUsage', { id: '1'.repeat(22) }))).toBe('404 not_found');
  });

  it('goes with the account', async () => {
    await owner.call.listUsage();
    await client(service.url, adminToken).deleteAccount({ id: owner.id });
    expect(await problemOf(owner.call.ask('listUsage'))).toBe('401 unauthorized');
    await owner.object.ring(2 * dayMs);
    expect(await owner.object.tables()).toBe(0);
  });
});
