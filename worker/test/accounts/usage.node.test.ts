/** Daily usage of API keys: counted in the isolate, kept in the account's object. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { KeyUsage, NewApiKeyResponse, Scope, UsageList } from '../../../shared/api.ts';
import { newApiKey } from '../../../shared/crypto/index.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath, type Client } from '../client.ts';
import { newOwner, type Owner } from '../stored-state.ts';

const long = process.env['SEALPIN_LONG'] === '1';
const dayMs = 86_400_000;
let service: Service;
let owner: Owner;
let keyId: string;

beforeAll(async () => {
  service = await sharedService();
});
beforeEach(async () => {
  owner = await newOwner(service);
  keyId = (await jsonOf<{ key: { id: string } }>(owner.call('/v1/account'))).key.id;
});

const page = (query = '', by: Client = owner.call): Promise<UsageList> => jsonOf<UsageList>(by(`/v1/usage${query}`));
const today = (afterMs = 0): string => new Date(Date.now() + afterMs).toISOString().slice(0, 10);
const newKey = async (scopes: Scope[]): Promise<{ id: string; call: Client }> => {
  const { key, apiKey } = await jsonOf<NewApiKeyResponse>(owner.call.json('/v1/keys', { label: 'k', scopes }), 201);
  return { id: key.id, call: client(service.url, apiKey) };
};
const usedBy = async (id: string): Promise<KeyUsage | undefined> =>
  (await page()).usage.find((each) => each.keyId === id);

describe('the use of a key', () => {
  it('is its requests and the bytes of their bodies, each counted once', async () => {
    const { id, call } = await newKey(['write', 'read']);
    const { fileId } = await call.store('plain', 'a'.repeat(1000));
    const streamed = new Blob(['b'.repeat(70_000)]).stream();
    const headers = { 'Content-Type': 'a/b' };
    await jsonOf(call('/v1/storage/plain', { method: 'POST', headers, body: streamed, duplex: 'half' }), 201);
    await bytesOf(call(`/v1/storage/${fileId}/content`));
    await call(`/v1/storage/${fileId}/content`, { method: 'HEAD' });
    const used = { keyId: id, day: today(), requests: 4, bytesIn: 71_000, bytesOut: 1000 };
    expect(await usedBy(id)).toEqual(used);
    expect(await usedBy(id)).toEqual(used);
    await bytesOf(call(`/v1/storage/${fileId}/content`));
    expect(await usedBy(id)).toEqual({ ...used, requests: 5, bytesOut: 2000 });
  });

  it('has what failed in it, and what a signed URL did for its key', async () => {
    const { id, call } = await newKey(['read']);
    const { fileId } = await owner.call.store('plain', 'c'.repeat(500));
    expect(await problemOf(call('/v1/keys'))).toEqual([403, 'insufficient_scope']);
    await bytesOf(client(service.url, '')(await signedPath(call.apiKey, { method: 'GET', file: fileId })));
    expect(await usedBy(id)).toMatchObject({ requests: 2, bytesOut: 500 });
  });

  it('is written once for many requests', async () => {
    const before = await owner.object.rows('key_usage');
    await Promise.all(Array.from({ length: 20 }, () => owner.call('/v1/account')));
    expect(await owner.object.rows('key_usage')).toEqual(before);
    expect((await usedBy(keyId))?.requests).toBe(21);
  });

  it.runIf(long)(
    'reaches the account some seconds later by itself (npm run test:long)',
    async () => {
      const rows = await owner.object.rows('key_usage');
      await owner.call('/v1/account');
      await expect.poll(() => owner.object.rows('key_usage'), { timeout: 60_000 }).not.toEqual(rows);
    },
    90_000,
  );

  it('is that of the account’s own keys, whatever key a request claims to have', async () => {
    const stranger = client(service.url, (await newApiKey(owner.id)).text);
    expect(await problemOf(stranger('/v1/account'))).toEqual([401, 'unauthorized']);
    expect(await problemOf(stranger('/v1/storage?limit=0'))).toEqual([400, 'invalid_request']);
    expect((await page()).usage.map((each) => each.keyId)).toEqual([keyId]);
    const nowhere = client(service.url, (await newApiKey('1'.repeat(22))).text);
    expect(await problemOf(nowhere('/v1/storage?limit=0'))).toEqual([400, 'invalid_request']);
    expect(await problemOf(nowhere('/v1/usage'))).toEqual([401, 'unauthorized']);
  });
});

describe('the list of uses', () => {
  it('has a row for each key and day, the newest first, in pages', async () => {
    const { id, call } = await newKey(['read']);
    await page('', call);
    await page();
    await owner.object.ring(dayMs);
    await page('', call);
    const { usage, cursor } = await page('?limit=2');
    const rest = await page(`?limit=100&cursor=${cursor ?? ''}`);
    const all = [...usage, ...rest.usage];
    expect(all.map(({ day }) => day)).toEqual([today(dayMs), today(dayMs), today(), today()]);
    expect(new Set(all.map((each) => `${each.day} ${each.keyId}`)).size).toBe(4);
    expect(new Set(all.map((each) => each.keyId))).toEqual(new Set([id, keyId]));
    expect(rest.cursor).toBeUndefined();
    expect(await page('?limit=4')).not.toHaveProperty('cursor');
  });

  it('forgets a day after 90 more of them, by the clock and by the alarm', async () => {
    await page();
    const [first] = (await page()).usage;
    await owner.object.ring(90 * dayMs);
    expect((await page()).usage).toContainEqual(first);
    await owner.object.wait(dayMs);
    expect((await page()).usage.map(({ day }) => day)).not.toContain(first!.day);
    expect(await owner.object.rows('key_usage')).toHaveLength(3);
    await owner.object.ring(0);
    expect(await owner.object.rows('key_usage')).toHaveLength(2);
  });

  it('is for keys with the scope read, and for the operator', async () => {
    const { call } = await newKey(['write', 'keys', 'delete', 'share']);
    expect(await problemOf(call('/v1/usage'))).toEqual([403, 'insufficient_scope']);
    const operator = client(service.url, adminToken);
    const seen = await jsonOf<UsageList>(operator(`/v1/operator/accounts/${owner.id}/usage`));
    expect(seen.usage.map((each) => each.keyId)).toContain(keyId);
    expect(await problemOf(owner.call(`/v1/operator/accounts/${owner.id}/usage`))).toEqual([401, 'unauthorized']);
    expect(await problemOf(operator(`/v1/operator/accounts/${'1'.repeat(22)}/usage`))).toEqual([404, 'not_found']);
  });

  it('goes with the account', async () => {
    await page();
    await jsonOf(client(service.url, adminToken)(`/v1/operator/accounts/${owner.id}`, { method: 'DELETE' }));
    expect(await problemOf(owner.call('/v1/usage'))).toEqual([401, 'unauthorized']);
    await owner.object.ring(2 * dayMs);
    expect(await owner.object.tables()).toBe(0);
  });
});
