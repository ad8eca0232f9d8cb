/** Shares: who opens them, how often and how long, and what is left of their records. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type {
  NewApiKeyResponse,
  OpenedShare,
  Problem,
  Scope,
  Share,
  ShareReceipt,
  ShareStatus,
} from '../../../shared/api.ts';
import { maxRecordBytes, newShareId, openParcel, sealParcel } from '../../../shared/link/index.ts';
import { adminToken, sharedService, startService, withSettings, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { inOneMinute } from '../one-minute.ts';
import { newOwner, shareObject, type Owner } from '../stored-state.ts';
import { itemOf } from '../../../testkit/present.ts';

const dayMs = 86_400_000;
const minuteMs = 60_000;

let service: Service;
let owner: Owner;
let anybody: Client;
let fileId: string;

beforeAll(async () => {
  service = await sharedService();
  anybody = client(service.url, '');
});
beforeEach(async () => {
  owner = await newOwner(service);
  ({ fileId } = await owner.call.store('encrypted', 'shared'));
});

/** A record that stands nowhere else. */
const newRecord = (bytes = 3000): Buffer => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes)));

async function share(o: Record<string, unknown> = {}, by: Client = owner.call): Promise<Share> {
  const record = newRecord().toString('base64');
  return await by.createShare({ record, files: [fileId], password: false, ...o });
}

const open = (id: string): Promise<Response> => anybody.ask('openShare', { shareId: id });
const look = (id: string): Promise<ShareStatus> => anybody.getShare({ shareId: id });
const revoke = (id: string): Promise<Response> => owner.call.ask('deleteShare', { shareId: id });
const newKey = (o: { scopes: Scope[]; expiresAt?: string; limits?: object }): Promise<NewApiKeyResponse> =>
  owner.call.createKey({ label: 'k', ...o });
const recordOf = async (id: string): Promise<unknown> => (await shareObject(service, id).rows('share'))[0]?.['record'];

describe('a share', () => {
  it('is neither made nor used up where nobody could fetch its files', async () => {
    const closed = { headers: withSettings({ PUBLIC_GATEWAY: 'off' }) };
    const request = { record: newRecord().toString('base64'), files: [fileId], password: false };
    expect(await problemOf(owner.call.ask('createShare', request, closed))).toBe('403 forbidden');
    const { id } = await share({ opens: 1 });
    expect(await problemOf(anybody.ask('openShare', { shareId: id }, closed))).toBe('403 forbidden');
    expect((await look(id)).opensLeft).toBe(1);
    expect((await open(id)).status).toBe(200);
  });

  it('hands its record out as often as it may, and then no more', async () => {
    const record = newRecord(maxRecordBytes);
    const { id, opens, opensLeft } = await share({ record: record.toString('base64'), opens: 2, label: 'for Ann' });
    expect({ opens, opensLeft }).toEqual({ opens: 2, opensLeft: 2 });
    expect(await look(id)).toEqual({
      id,
      state: 'active',
      password: false,
      expiresAt: expect.any(String),
      opensLeft: 2,
    });
    const first = await jsonOf<OpenedShare>(open(id));
    expect(Buffer.compare(Buffer.from(first.record, 'base64'), record)).toBe(0);
    expect(first.opensLeft).toBe(1);
    const last = await jsonOf<OpenedShare>(open(id));
    expect(Buffer.compare(Buffer.from(last.record, 'base64'), record)).toBe(0);
    expect(last.opensLeft).toBe(0);
    expect(await problemOf(open(id))).toBe('410 gone');
    expect(await look(id)).toMatchObject({ state: 'used_up', opensLeft: 0 });
  });

  it('carries a parcel from its sender to who has the link', async () => {
    const { cid } = await owner.call.store('plain', 'x');
    const file = { cid, fileKey: new Uint8Array(32), name: 'n', type: 't', size: 1 };
    const sealed = await sealParcel({ files: [file] });
    const { id } = await share({ record: Buffer.from(sealed.record).toString('base64') });
    const { record } = await jsonOf<OpenedShare>(open(id));
    const parcel = await openParcel(Buffer.from(record, 'base64'), { secret: sealed.secret });
    expect(parcel.files).toMatchObject([{ name: 'n' }]);
  });

  it('lasts 7 days and opens 5 times unless it says otherwise, and tells whether it needs a password', async () => {
    const { id, createdAt, expiresAt, opens } = await share({ password: true });
    expect({ parse: Date.parse(expiresAt) - Date.parse(createdAt), opens }).toEqual({ parse: 7 * dayMs, opens: 5 });
    expect(await look(id)).toMatchObject({ password: true, expiresAt, opensLeft: 5 });
  });

  it('of two that open it at once for the last time, opens for exactly one', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { id } = await share({ opens: 1 });
      const statuses = await Promise.all([open(id), open(id), open(id)].map(async (each) => (await each).status));
      expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 410, 410]);
    }
  });

  it('is not used up by programs that follow links', async () => {
    const { id } = await share({ opens: 1 });
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT']) {
      for (const path of ['', '/open', '/']) {
        if (method !== 'OPTIONS' || path !== '')
          await anybody(`/v1/shares/${id}${path}`, { method, headers: { Purpose: 'prefetch' } });
      }
    }
    expect(await problemOf(anybody(`/v1/shares/${id}/open`))).toBe('405 method_not_allowed');
    expect(await look(id)).toMatchObject({ state: 'active', opensLeft: 1 });
    expect((await open(id)).status).toBe(200);
  });

  it('expires with the clock, before its alarm and with it', async () => {
    for (const pass of ['wait', 'ring'] as const) {
      const { id } = await share({ expiresAt: new Date(Date.now() + 10 * minuteMs).toISOString() });
      const object = shareObject(service, id);
      await object[pass](9 * minuteMs);
      expect((await open(id)).status).toBe(200);
      await object[pass](2 * minuteMs);
      if (pass === 'ring') expect(await recordOf(id)).toBeNull();
      expect(await problemOf(open(id))).toBe('410 gone');
      expect(await look(id)).toMatchObject({ state: 'expired' });
      expect(await recordOf(id)).toBeNull();
      await object.ring(8 * dayMs);
      expect(await problemOf(anybody.ask('getShare', { shareId: id }))).toBe('404 not_found');
      expect(await object.tables()).toBe(0);
    }
  });

  it('is revoked once, with a receipt that says how often it was opened', async () => {
    const { id } = await share();
    await open(id);
    expect(await jsonOf<ShareReceipt>(revoke(id))).toEqual({ id, record: 'destroyed', opened: 1 });
    expect(await problemOf(revoke(id))).toBe('404 not_found');
    expect(await problemOf(open(id))).toBe('410 gone');
    expect(await look(id)).toMatchObject({ state: 'revoked' });
    expect(await recordOf(id)).toBeNull();
  });

  it('ends with the last of its opens, its revocation or its file, and none of its record is left', async () => {
    const used = await share({ opens: 1 });
    await open(used.id);
    const revoked = await share();
    await revoke(revoked.id);
    const ofFile = await share();
    const receipt = await owner.call.deleteFile({ fileId });
    expect(receipt.key).toBe('destroyed');
    // The account does not ask which of them were used up before.
    expect(receipt.shares).toEqual([used, ofFile].map(({ id }) => ({ id, record: 'destroyed' })));
    expect(await look(ofFile.id)).toMatchObject({ state: 'revoked' });
    for (const { id } of [used, revoked, ofFile]) expect(await recordOf(id)).toBeNull();
  });

  it('of several files ends with the first that is deleted, and one of other files stays', async () => {
    const other = await owner.call.store('plain', `other ${fileId}`);
    const both = await share({ files: [fileId, other.fileId] });
    const onlyOther = await share({ files: [other.fileId] });
    await owner.call.deleteFile({ fileId });
    expect((await look(both.id)).state).toBe('revoked');
    expect((await look(onlyOther.id)).state).toBe('active');
    const { shares } = await owner.call.listShares();
    expect(shares.map(({ id }) => id)).toEqual([onlyOther.id]);
  });

  it('ends with the key that made it, with the descendants of a key, and with its account', async () => {
    const parent = await newKey({ scopes: ['share', 'keys'] });
    const child = await client(service.url, parent.apiKey).createKey({ label: 'child', scopes: ['share'] });
    const ofParent = await share({}, client(service.url, parent.apiKey));
    const ofChild = await share({}, client(service.url, child.apiKey));
    const own = await share();
    expect(ofParent.createdBy).toBe(parent.key.id);
    const revoked = await owner.call.revokeKey({ id: parent.key.id, cascade: true });
    expect(revoked.shares?.toSorted((a, b) => a.id.localeCompare(b.id))).toEqual(
      [ofParent, ofChild].map(({ id }) => ({ id, record: 'destroyed' })).toSorted((a, b) => a.id.localeCompare(b.id)),
    );
    expect((await look(ofParent.id)).state).toBe('revoked');
    expect((await look(ofChild.id)).state).toBe('revoked');
    expect((await look(own.id)).state).toBe('active');
    const operator = client(service.url, adminToken);
    const closed = await operator.deleteAccount({ id: owner.id });
    expect(closed).toMatchObject({ files: 1, shares: 1 });
    await expect.poll(async () => (await look(own.id)).state).toBe('revoked');
    expect(await recordOf(own.id)).toBeNull();
  });

  it('does not outlive its key', async () => {
    const expiresAt = new Date(Date.now() + dayMs).toISOString();
    const { apiKey } = await newKey({ scopes: ['share'], expiresAt });
    const call = client(service.url, apiKey);
    expect((await share({}, call)).expiresAt).toBe(expiresAt);
    const later = new Date(Date.now() + 2 * dayMs).toISOString();
    const body = { record: 'AAAA', files: [], password: false, expiresAt: later };
    expect(await problemOf(call.ask('createShare', body))).toBe('403 forbidden');
  });
});

it('the list shows each share as it is, newest first, by cursor', async () => {
  const made = [await share({ label: 'one', opens: 1 }), await share({ label: 'two' }), await share()];
  await open(itemOf(made, 0).id);
  await open(itemOf(made, 1).id);
  const first = await owner.call.listShares({ limit: 2 });
  expect(first.shares).toEqual([made[2], { ...made[1], opensLeft: 4 }]);
  const second = await owner.call.listShares({ limit: 2, cursor: first.cursor });
  expect(second).toEqual({ shares: [{ ...made[0], state: 'used_up', opensLeft: 0 }] });
  const stranger = await newOwner(service);
  expect(await stranger.call.listShares()).toEqual({ shares: [] });
  expect(await problemOf(stranger.call.ask('deleteShare', { shareId: itemOf(made, 1).id }))).toBe('404 not_found');
  expect((await look(itemOf(made, 1).id)).state).toBe('active');
});

it('an unknown share is not found, and asking for it writes nothing', async () => {
  for (const id of [newShareId(), 'x', '0'.repeat(23), '~'.repeat(22), 'z'.repeat(22)]) {
    expect(await problemOf(anybody.ask('getShare', { shareId: id }))).toBe('404 not_found');
    expect(await problemOf(open(id))).toBe('404 not_found');
    expect(await problemOf(revoke(id))).toBe('404 not_found');
    expect(await shareObject(service, id).tables()).toBe(0);
  }
});

it('a key that has made 500 shares makes no more, and the other keys of its account do', async () => {
  const { apiKey, key } = await newKey({ scopes: ['share'] });
  const guest = client(service.url, apiKey);
  await share({}, guest);
  const rows = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 499)
    INSERT INTO share (id, state, api_key, password, opens, created_at, expires_at, due)
    SELECT printf('%022d', i), 'active', '${key.id}', 0, 1, 0, ${Date.now() + dayMs}, ${Date.now() + dayMs} FROM n`;
  await owner.object.change(rows);
  const refused = guest.json('/v1/shares', { record: 'AAAA', files: [fileId], password: false });
  expect(await problemOf(refused)).toBe('413 quota_exceeded');
  expect((await share()).state).toBe('active');
});

it('a share is refused with too much, too long, too often, or for files that are not there', async () => {
  const refused = async (o: Record<string, unknown>): Promise<string> =>
    await problemOf(owner.call.ask('createShare', { record: 'AAAA', files: [fileId], password: false, ...o }));
  const tooLong = Buffer.alloc(maxRecordBytes + 1).toString('base64');
  const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();
  for (const o of [
    { record: tooLong },
    { record: '' },
    { record: 'A' },
    { record: undefined },
    { password: 'secret' },
    { opens: 0 },
    { opens: 101 },
    { opens: 1.5 },
    { expiresAt: soon(-1000) },
    { expiresAt: soon(31 * dayMs) },
    { expiresAt: '2030-02-31T00:00:00Z' },
    { files: ['x'] },
    { files: Array.from({ length: 501 }, () => fileId) },
    { label: '' },
    { secret: 'x' },
  ])
    expect(await refused(o), JSON.stringify(o)).toBe('400 invalid_request');
  const body = JSON.stringify({ record: 'AAAA', files: [fileId], password: false });
  const repeatable = owner.call.ask('createShare', {}, { headers: { 'Idempotency-Key': 'k' }, body });
  expect((await repeatable.then((response) => response.json<Problem>())).detail).toContain('a share of its own');
  expect(await refused({ record: 'A'.repeat(140_000) })).toBe('413 too_large');
  expect(await refused({ files: [crypto.randomUUID()] })).toBe('404 not_found');
  const foreign = await (await newOwner(service)).call.store('plain', 'foreign');
  expect(await refused({ files: [foreign.fileId] })).toBe('404 not_found');
  expect(await owner.object.rows('share')).toEqual([]);
});

it('an account has a limit of shares that have not expired', async () => {
  await owner.object.fillShares(1000, Date.now() - 1);
  await owner.object.fillShares(999, Date.now() + dayMs);
  const { id } = await share();
  const another = { record: 'aGVsbG8=', files: [fileId], password: false };
  expect(await problemOf(owner.call.ask('createShare', another))).toBe('413 quota_exceeded');
  await jsonOf(revoke(id));
  await share();
});

it('a share that exists is never overwritten', async () => {
  const { id } = await share();
  const [before] = await shareObject(service, id).rows('share');
  const made = shareObject(service, id).create(
    { share: id, account: owner.id },
    { record: 'another', password: false, opens: 9, expiresAt: Date.now() + dayMs },
  );
  expect(await made).toMatchObject({ ok: false, code: 'conflict' });
  expect(await shareObject(service, id).rows('share')).toEqual([before]);
});

it('the operator says how long and how often; a limit that is no number is a fault of the configuration', async () => {
  const strict = await startService({ vars: { SHARE_MAX_DAYS: '2', SHARE_MAX_OPENS: '3', RECOVERY_DAYS: '30' } });
  try {
    const call = client(strict.url, (await strict.account()).apiKey);
    const body = { record: 'AAAA', files: [], password: false };
    const made = await call.createShare(body);
    expect(Date.parse(made.expiresAt) - Date.parse(made.createdAt)).toEqual(2 * dayMs);
    expect(made.opens).toBe(3);
    expect(await problemOf(call.ask('createShare', { ...body, opens: 4 }))).toBe('400 invalid_request');
    const expiresAt = new Date(Date.now() + 3 * dayMs).toISOString();
    expect(await problemOf(call.ask('createShare', { ...body, expiresAt }))).toBe('400 invalid_request');
    // The clock of the caller is half an hour fast, and asks for the latest end.
    const fast = new Date(Date.now() + 2 * dayMs + 30 * minuteMs).toISOString();
    const latest = await call.createShare({ ...body, expiresAt: fast });
    expect(Date.parse(latest.expiresAt) - Date.parse(latest.createdAt)).toBe(2 * dayMs);
    const sooner = new Date(Date.now() + dayMs).toISOString();
    const { id } = await call.createShare({ ...body, expiresAt: sooner });
    const changed = await call.changeShare({ shareId: id, expiresAt: fast });
    expect(Date.parse(changed.expiresAt) - Date.parse(changed.createdAt)).toBe(2 * dayMs);
    const receipt = await call.deleteShare({ shareId: made.id });
    const days = (Date.parse(receipt.recoverableUntil ?? '') - Date.now()) / dayMs;
    expect(Math.round(days)).toBe(30);
  } finally {
    await strict.close();
  }
  const wrong = client(service.url, owner.call.apiKey, withSettings({ SHARE_MAX_OPENS: 'many' }));
  const made = wrong.ask('createShare', { record: 'AAAA', files: [], password: false });
  expect(await problemOf(made)).toBe('500 misconfigured');
});

it('requests for shares count for their address, an IPv6 one by its /64', () =>
  inOneMinute(async () => {
    const limited = await startService({
      ratelimits: { ADDRESS_LIMIT: { namespace_id: '1', simple: { limit: 4, period: 60 } } },
    });
    try {
      const id = newShareId();
      const ask = async (address: string, path: string, method: string): Promise<number> =>
        (await fetch(`${limited.url}/v1/shares/${id}${path}`, { method, headers: { 'CF-Connecting-IP': address } }))
          .status;
      for (let each = 0; each < 4; each += 1) {
        const address = `2001:db8:0:1:${each}::${each}`;
        expect(each % 2 === 0 ? await ask(address, '', 'GET') : await ask(address, '/open', 'POST')).toBe(404);
      }
      expect(await ask('2001:db8:0:1:ffff::1', '', 'GET')).toBe(429);
      expect(await ask('2001:db8:0:1:ffff::2', '/open', 'POST')).toBe(429);
      expect(await ask('2001:db8:0:2::1', '/open', 'POST')).toBe(404);
    } finally {
      await limited.close();
    }
  }));
