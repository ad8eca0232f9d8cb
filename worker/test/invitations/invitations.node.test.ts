/** Invitations: what their keys store and share, and how all of it ends. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Share } from '../../../shared/api.ts';
import { adminToken, restoreToken, startService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { newOwner, pinned, sweep, type Owner } from '../stored-state.ts';
import { metadataOf, mib, patch, random, version } from '../uploads/tus-client.ts';
import { present } from '../../../testkit/present.ts';
import { ask, begin, dayMs, hourMs, invite, minuteMs, request, share, soon, store, type Guest } from './guest.ts';

const shareMaxDays = 20;
let service: Service;
let owner: Owner;
let guest: Guest;
let anybody: Client;
beforeAll(async () => {
  service = await startService({ entry: 'worker/test/clock.ts', vars: { SHARE_MAX_DAYS: String(shareMaxDays) } });
  anybody = client(service.url, '');
  return () => service.close();
});
beforeEach(async () => {
  owner = await newOwner(service);
  guest = await invite(owner.call);
});

const stateOf = async ({ id }: Share): Promise<string> =>
  (await (await anybody.ask('getShare', { shareId: id })).json<{ state?: string }>()).state ?? 'none';
const isThere = async (...fileIds: string[]): Promise<boolean[]> =>
  Promise.all(fileIds.map(async (id) => (await owner.call.ask('getFile', { fileId: id, data: false })).status === 200));
const left = async (call: Client) => (await call.getAccount()).key.left;

describe('the key of an invitation', () => {
  it('has no other scope, and is made by who may store, share and delete', async () => {
    const make = (by: Client, scopes: string[]) => problemOf(by.ask('createKey', { label: 'x', scopes }));
    for (const other of ['read', 'write', 'delete', 'keys', 'share'])
      expect(await make(owner.call, ['send', other])).toBe('400 invalid_request');
    for (const scopes of [
      ['keys'],
      ['keys', 'write', 'share'],
      ['keys', 'share', 'delete'],
      ['keys', 'write', 'delete'],
    ] as const) {
      const maker = await owner.call.withKey(scopes);
      expect(await make(maker, ['send'])).toBe('403 insufficient_scope');
      expect(await problemOf(maker.ask('revokeKey', { id: guest.id }))).toBe('403 insufficient_scope');
    }
    const host = await owner.call.withKey(['keys', 'write', 'share', 'delete']);
    const invited = await invite(host);
    expect(await host.revokeKey({ id: invited.id })).toEqual({ revoked: [invited.id] });
  });

  it('is one of a hundred at most, of those that have not ended', async () => {
    const { id } = await invite(owner.call, { forMs: hourMs });
    const made = Array.from({ length: 98 }, () => owner.call.ask('createKey', { label: 'x', scopes: ['send'] }));
    expect(new Set((await Promise.all(made)).map(({ status }) => status))).toEqual(new Set([201]));
    const more = () => owner.call.ask('createKey', { label: 'x', scopes: ['send'] });
    expect(await problemOf(more())).toBe('413 quota_exceeded');
    expect((await owner.call.ask('createKey', { label: 'x', scopes: ['write'] })).status).toBe(201);
    await owner.call.revokeKey({ id });
    expect((await more()).status).toBe(201);
    expect(await problemOf(more())).toBe('413 quota_exceeded');
  });

  it('tells of the account no more than its public key', async () => {
    const about = await jsonOf<{ account: object }>(guest.ask('getAccount'));
    expect(Object.keys(about).toSorted()).toEqual(['account', 'key']);
    expect(Object.keys(about.account).toSorted()).toEqual(['id', 'publicKey']);
  });
});

describe('what an invitation stores', () => {
  it.each([
    ['no end', undefined, undefined],
    ['an end before now', -minuteMs, '400 invalid_request'],
    ['an end after the longest share', shareMaxDays * dayMs + 2 * hourMs, '400 invalid_request'],
    ['the end of the longest share, by a clock that runs fast', shareMaxDays * dayMs + hourMs / 2, undefined],
    ['the end of the longest share', shareMaxDays * dayMs - minuteMs, undefined],
  ] as const)('has an end: %s', async (_, ms, refused) => {
    const expiresAt = ms === undefined ? undefined : soon(ms);
    const asked = [
      await ask(guest, 'x', expiresAt),
      await guest.ask('storePlain', expiresAt === undefined ? {} : { expiresAt }, {
        body: '{"data":"aGVsbG8=","filename":"x"}',
        headers: { 'Content-Type': 'application/json' },
      }),
      await begin(guest, 5, { expiresAt }),
    ];
    for (const response of asked)
      if (refused === undefined) expect(response.status).toBe(201);
      else expect(await problemOf(response)).toBe(refused);
    const latest = Math.min(ms ?? 7 * dayMs, shareMaxDays * dayMs);
    const ends = (await owner.object.rows('file_detail')).map((row) => Number(row['expires_at']) - Date.now());
    if (refused === undefined) expect(ends.map((end) => Math.abs(end - latest) < minuteMs)).toEqual([true, true, true]);
    if (refused !== undefined) expect(await left(guest)).toEqual({ files: 200, bytes: 1024 ** 3 });
  });

  it('does not outlive it, nor does a link', async () => {
    const brief = await invite(owner.call, { forMs: hourMs });
    expect(await problemOf(ask(brief, 'x', soon(2 * hourMs)))).toBe('403 forbidden');
    expect(await problemOf(begin(brief, 5, { expiresAt: soon(2 * hourMs) }))).toBe('403 forbidden');
    const unsaid = await jsonOf<{ expiresAt: string }>(ask(brief, 'y'), 201);
    expect(Date.parse(unsaid.expiresAt)).toBe(Date.parse((await brief.getAccount()).key.expiresAt ?? ''));
    const { fileId, expiresAt } = await store(brief, 1 / 48);
    expect((await share(brief, [fileId], { expiresAt: soon(2 * hourMs) })).expiresAt).toBe(expiresAt);
  });

  it('ends after a day without a link, and with one at its own end', async () => {
    const [shared, alone] = [await store(guest, 5), await store(guest, 5)];
    const [begun] = [await begin(guest, 5, { expiresAt: soon(5 * dayMs) })];
    await patch(guest, present(begun.headers.get('Location')), 0, random(5));
    await share(guest, [shared.fileId], { expiresAt: soon(5 * dayMs) });
    expect(await owner.object.rows('provisional_file')).toHaveLength(2);
    await owner.object.ring(26 * hourMs);
    expect(await isThere(shared.fileId, alone.fileId)).toEqual([true, false]);
    expect(await owner.object.rows('file')).toHaveLength(1);
    await owner.object.ring(4 * dayMs);
    expect(await isThere(shared.fileId)).toEqual([false]);
    expect(await owner.object.rows('provisional_file')).toEqual([]);
  });

  it('is not left by an upload that never ends: it rests no longer than its file, and than its key', async () => {
    const brief = await invite(owner.call, { forMs: 2 * dayMs });
    const uploads = [
      await begin(guest, mib, { expiresAt: soon(dayMs) }),
      await begin(brief, mib, { expiresAt: soon(2 * dayMs - minuteMs) }),
    ];
    const paths = uploads.map(({ headers }) => present(headers.get('Location')));
    // Its file has no end, as that of no guest.
    const writer = await owner.call.withKey(['write'], { expiresAt: soon(2 * dayMs) });
    const endless = { ...version, 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ filename: 'n' }) };
    expect((await writer('/v1/uploads/plain', { method: 'POST', headers: endless })).status).toBe(201);
    for (const hours of [20, 3])
      for (const [index, call] of [guest, brief].entries()) {
        await owner.object.ring(hours * hourMs);
        await patch(call, present(paths[index]), hours === 20 ? 0 : 1, random(1));
      }
    await owner.object.ring(12 * hourMs);
    expect(await owner.object.rows('upload')).toEqual([]);
  });
});

describe('a link of an invitation', () => {
  it('is listed with its state and ends, and taken back with what was stored for it', async () => {
    const [one, other] = [await store(guest), await store(guest)];
    const made = await share(guest, [one.fileId, other.fileId], { label: 'plans' });
    await anybody.openShare({ shareId: made.id });
    const { shares } = await guest.listShares();
    expect(shares).toEqual([{ ...made, opensLeft: 4 }]);
    const receipt = await guest.deleteShare({ shareId: made.id });
    expect(receipt).toMatchObject({ id: made.id, record: 'destroyed', opened: 1, files: [one.fileId, other.fileId] });
    expect(await stateOf(made)).toBe('revoked');
    expect(await guest.listShares()).toEqual({ shares: [] });
    expect(await isThere(one.fileId, other.fileId)).toEqual([false, false]);
    expect(await left(guest)).toEqual({ files: 200, bytes: 1024 ** 3 });
    await sweep(service, [owner], [one.cid, other.cid]);
    const held = await pinned(service);
    expect([one, other].filter(({ cid }) => held.includes(cid))).toEqual([]);
    expect(await owner.call.getReceipt({ fileId: one.fileId })).toMatchObject({
      reason: 'deleted',
      pins: [{ status: 'unpinned' }],
    });
    expect(await problemOf(guest.ask('deleteShare', { shareId: made.id }))).toBe('404 not_found');
  });

  it('leaves what another link of it has, until that is taken back, too', async () => {
    const { fileId } = await store(guest);
    const [before, after] = [await share(guest, [fileId]), await share(guest, [fileId])];
    expect((await guest.deleteShare({ shareId: before.id })).files).toBeUndefined();
    expect(await stateOf(after)).toBe('active');
    expect(await isThere(fileId)).toEqual([true]);
    expect((await guest.deleteShare({ shareId: after.id })).files).toEqual([fileId]);
    expect(await isThere(fileId)).toEqual([false]);
  });

  it('ends with its files when a host who may delete takes it back; else they stay until their end', async () => {
    const [one, other] = [await store(guest), await store(guest)];
    const [first, second] = [await share(guest, [one.fileId]), await share(guest, [other.fileId])];
    await owner.call.deleteShare({ shareId: first.id });
    await (await owner.call.withKey(['share'])).deleteShare({ shareId: second.id });
    for (const each of [first, second]) expect(await stateOf(each)).toBe('revoked');
    expect(await isThere(one.fileId, other.fileId)).toEqual([false, true]);
  });

  it('names files, since it has no other use', async () => {
    expect(await problemOf(guest.ask('createShare', request([])))).toBe('400 invalid_request');
  });

  it('pages by numbers that count no other link of the account', async () => {
    const { fileId } = await store(guest);
    const made: string[] = [];
    for (let each = 0; each < 7; each += 1) {
      made.unshift((await share(guest, [fileId])).id);
      await share(owner.call, []);
    }
    const listed: string[] = [];
    let cursor: string | undefined;
    const cursors: (string | undefined)[] = [];
    do {
      const page = await guest.listShares({ limit: 3, cursor });
      listed.push(...page.shares.map(({ id }) => id));
      ({ cursor } = page);
      cursors.push(cursor);
    } while (cursor !== undefined);
    expect(listed).toEqual(made);
    expect(cursors).toEqual(['5', '2', undefined]);
  });
});

describe('the end of an invitation', () => {
  it('that is revoked ends links, files, uploads, and what was on its way', async () => {
    const { fileId, cid } = await store(guest);
    const link = await share(guest, [fileId]);
    await begin(guest, mib);
    await owner.object.fail('commit', 'held');
    const late = ask(guest, 'on its way', soon(hourMs));
    await expect.poll(() => owner.object.awaits('commit')).toBe(false);
    expect(await owner.call.revokeKey({ id: guest.id })).toMatchObject({
      revoked: [guest.id],
      shares: [{ id: link.id }],
    });
    await owner.object.fail('commit', 'let go');
    expect(await problemOf(late)).toBe('401 unauthorized');
    expect(await problemOf(guest.ask('listShares'))).toBe('401 unauthorized');
    expect(await stateOf(link)).toBe('revoked');
    expect(await isThere(fileId)).toEqual([false]);
    await sweep(service, [owner], [cid]);
    for (const table of ['file', 'upload', 'part', 'share', 'provisional_file', 'outbox'])
      expect(await owner.object.rows(table), table).toEqual([]);
    expect(await pinned(service)).not.toContain(cid);
    expect(await owner.call.getReceipt({ fileId })).toMatchObject({
      reason: 'expired',
      pins: [{ status: 'unpinned' }],
    });
  });

  it('that is revoked ends files whose end their owner took away', async () => {
    const { fileId } = await store(guest);
    await owner.call.changeFile({ fileId, expiresAt: null });
    await owner.call.revokeKey({ id: guest.id });
    expect(await isThere(fileId)).toEqual([false]);
  });

  it('that is revoked leaves what others stored', async () => {
    const other = await invite(owner.call);
    const kept = [await store(other), await store(owner.call)];
    const link = await share(other, [present(kept[0]).fileId]);
    await store(guest);
    await owner.call.revokeKey({ id: guest.id });
    expect(await isThere(...kept.map(({ fileId }) => fileId))).toEqual([true, true]);
    expect(await stateOf(link)).toBe('active');
  });

  it('comes at its date to what is on its way', async () => {
    const brief = await invite(owner.call, { forMs: hourMs });
    await owner.object.fail('commit', 'held');
    const late = ask(brief, 'on its way', soon(hourMs - minuteMs));
    await expect.poll(() => owner.object.awaits('commit')).toBe(false);
    await owner.object.wait(hourMs);
    await owner.object.fail('commit', 'let go');
    expect(await problemOf(late)).toBe('401 unauthorized');
  });

  it('comes at its date, with its links and files, by the alarm', async () => {
    const brief = await invite(owner.call, { forMs: hourMs });
    const { fileId } = await store(brief, 1 / 25);
    await share(brief, [fileId]);
    await owner.object.ring(hourMs + minuteMs);
    expect(await problemOf(brief.ask('getAccount'))).toBe('401 unauthorized');
    expect(await owner.object.rows('file')).toEqual([]);
  });

  it('comes with a recovery and with the account', async () => {
    const { fileId } = await store(guest);
    const link = await share(guest, [fileId]);
    await client(service.url, adminToken).deleteAccount({ id: owner.id });
    expect(await problemOf(guest.ask('getAccount'))).toBe('401 unauthorized');
    await owner.object.ring(minuteMs);
    expect(await stateOf(link)).toBe('revoked');
  });
});

describe('a backup', () => {
  it('brings invitations to another service, with their links and limits', async () => {
    const { fileId } = await store(guest);
    const link = await share(guest, [fileId]);
    const { call } = owner;
    await call.createShare(request([]));
    const page = await client(service.url, adminToken).backUpAccount({ id: owner.id, limit: 100 });
    const other = await startService({ entry: 'worker/test/clock.ts' });
    try {
      const headers = { 'Sealpin-Restore': restoreToken };
      const restored = client(other.url, adminToken).ask('restoreAccount', { id: owner.id, ...page }, { headers });
      await jsonOf(restored);
      const moved = client(other.url, guest.apiKey);
      expect(await left(moved)).toEqual(await left(guest));
      expect((await moved.listShares()).shares).toMatchObject([{ id: link.id, state: 'active' }]);
      expect(await problemOf(moved.ask('listFiles'))).toBe('403 insufficient_scope');
      expect((await moved.deleteShare({ shareId: link.id })).files).toEqual([fileId]);
    } finally {
      await other.close();
    }
  });
});
