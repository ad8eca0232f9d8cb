/** The backup of an account by the operator's routes, and its restoration into an empty service. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type {
  BackupPage,
  EventList,
  Receipt,
  RestoredPage,
  Share,
  ShareReceipt,
  StoredFile,
} from '../../../shared/api.ts';
import { parseApiKey, unsealPrivateKey } from '../../../shared/crypto/index.ts';
import type { Env } from '../../env.ts';
import { recoverable } from '../../routes/files/recoverable.ts';
import { adminToken, restoreToken, rpcToken, startService, type Service, guarded } from '../../../testkit/service.ts';
import { accountObject, loseHeld, newOwner, sharesBackends, type Owner } from '../stored-state.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

let before: Service;
let after: Service;
let owner: Owner;
let revoked: Client;
let pages: BackupPage[];
let deletedId: string;
const shares: Record<'active' | 'used_up' | 'revoked', Share[]> = { active: [], used_up: [], revoked: [] };
const files: { file: StoredFile; bytes: string }[] = [];
const vars = { SERVICE_ID: 'of-the-test' };
const secretName = 'the-name-that-nobody-sees.txt';

const operator = (service: Service): Client => client(service.url, adminToken);
const restore = (service: Service, page: unknown, id: string, token = restoreToken): Promise<Response> =>
  operator(service).ask(
    'restoreAccount',
    { id },
    { headers: { 'Sealpin-Restore': token }, body: JSON.stringify(page) },
  );
const put = (page: unknown, id = owner.id): Promise<Response> => restore(after, page, id);

/** Lists everything in pages but the account. */
const listed = (of: readonly BackupPage[]): unknown[][] => [
  of.flatMap(({ keys }) => keys),
  of.flatMap((page) => page.files),
  of.flatMap(({ receipts }) => receipts),
  of.flatMap((page) => page.shares),
  of.flatMap(({ events }) => events),
];

const open = (service: Service, { id }: Share): Promise<Response> =>
  client(service.url, '').ask('openShare', { shareId: id });
const recordOf = async (response: Promise<Response>): Promise<string> =>
  (await jsonOf<{ record: string }>(response)).record;

/** Counts the openings of a share that the account knows of. */
async function openingsOf(call: Client, { id }: Share): Promise<number> {
  const { events } = await call.listEvents({ limit: 100 });
  return events.filter(({ action, shareId }) => action === 'share.opened' && shareId === id).length;
}

const bytesIn = (base64: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(base64, 'base64'));

/** All pages of the backup of an account. */
async function backUp(service: Service, id: string, limit: number): Promise<BackupPage[]> {
  const all: BackupPage[] = [];
  let cursor: string | undefined;
  do {
    const page: BackupPage = await operator(service).backUpAccount({ id, limit, cursor });
    expect(listed([page]).flat().length).toBeLessThanOrEqual(limit);
    all.push(page);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return all;
}

beforeAll(async () => {
  before = await startService({ vars, entry: 'worker/test/clock.ts' });
  after = await startService({
    vars,
    entry: 'worker/test/clock.ts',
    beside: before,
  });
  owner = await newOwner(before);
  const made = await owner.call.createKey({ label: 'gone', scopes: ['read', 'write'], limits: { files: 9 } });
  revoked = client(before.url, made.apiKey);
  for (const [index, mode] of (['encrypted', 'plain', 'encrypted', 'plain'] as const).entries()) {
    const bytes = `bytes ${index} ${mode} `.repeat(50);
    const by = index === 0 ? revoked : owner.call;
    files.push({ file: await by.store(mode, bytes, { filename: secretName }), bytes });
  }
  await owner.call.changeFile({ fileId: itemOf(files, 3).file.fileId, tags: ['one'], filename: 'renamed' });
  await owner.call.changeFile({ fileId: itemOf(files, 2).file.fileId, tags: ['two'] });
  await owner.call.revokeKey({ id: made.key.id });
  await operator(before).changeAccount({ id: owner.id, quotaBytes: 1_000_000 });
  deletedId = (await owner.call.store('plain', 'deleted')).fileId;
  await owner.call.deleteFile({ fileId: deletedId });
  for (const [state, opens, opened] of [
    ['active', 3, 1],
    ['used_up', 1, 1],
    ['revoked', 2, 0],
    ['active', 2, 0],
  ] as const) {
    const request = {
      record: btoa(`record ${state} ${opens}`),
      files: [itemOf(files, 1).file.fileId],
      password: true,
      opens,
    };
    const share = await owner.call.createShare({ ...request, label: state });
    for (let times = 0; times < opened; times += 1) await jsonOf(open(before, share));
    if (state === 'revoked') await owner.call.deleteShare({ shareId: share.id });
    shares[state].push(share);
  }
  // An opening is reported to the account afterwards.
  for (const share of [...shares.active.slice(0, 1), ...shares.used_up])
    await vi.waitFor(async () => expect(await openingsOf(owner.call, share)).toBe(1), 10_000);
  pages = await backUp(before, owner.id, 1);
});
afterAll(async () => {
  await after.close();
  await before.close();
});

describe('a backup', () => {
  it('has every key, file, share, receipt and event once, whatever the size of the pages', async () => {
    expect(pages.length).toBe(listed(pages).flat().length);
    expect(
      listed(pages)
        .map((each) => each.length)
        .slice(0, 4),
    ).toEqual([2, 4, 1, 3]);
    for (const limit of long ? [2, 5, 100] : [5]) {
      const all = await backUp(before, owner.id, limit);
      expect(listed(all)).toEqual(listed(pages));
      expect(all.filter(({ account }) => account !== null)).toHaveLength(1);
    }
    expect(pages.flatMap((page) => page.files.map(({ fileId }) => fileId))).toEqual(
      files.map(({ file }) => file.fileId),
    );
  });

  it('has nothing in it that opens a file', async () => {
    const text = JSON.stringify(pages);
    const key = await parseApiKey(owner.call.apiKey);
    const [own] = pages.flatMap(({ keys }) => keys);
    if (key === undefined || typeof own?.sealed !== 'string') throw new Error('the first key can read');
    const spki = bytesIn(pages[0]?.account?.publicKey ?? '');
    const pkcs8 = await unsealPrivateKey(key, { id: own.id, sealed: bytesIn(own.sealed), spki });
    for (const apiKey of [owner.call.apiKey, revoked.apiKey, adminToken, rpcToken])
      for (const part of [apiKey, apiKey.slice(3), apiKey.slice(-50)]) expect(text).not.toContain(part);
    // The 32 bytes of the private key are somewhere in the DER: at no offset are they in the bytes
    // of the backup.
    const secret = Buffer.from(pkcs8).subarray(36, 68);
    const blobs = Array.from(text.matchAll(/"([A-Za-z0-9+/]{20,}={0,2})"/g), ([, base64]) =>
      Buffer.from(base64 ?? '', 'base64'),
    );
    expect(blobs.length).toBeGreaterThan(3);
    expect(Buffer.from(pkcs8).includes(secret)).toBe(true);
    for (const blob of blobs)
      for (let at = 0; at + 16 <= secret.length; at += 8)
        expect(blob.includes(secret.subarray(at, at + 16))).toBe(false);
    // In encrypted mode the name is in the sealed header.
    const sealed = pages.flatMap((page) => page.files).filter(({ mode }) => mode === 'encrypted');
    expect(JSON.stringify(sealed)).not.toContain(secretName);
  });

  it('is for the operator alone, and of an account that exists', async () => {
    expect(await problemOf(owner.call.ask('backUpAccount', { id: owner.id }))).toBe('401 unauthorized');
    expect(await problemOf(owner.call.ask('restoreAccount', { id: owner.id, ...pages[0] }))).toBe('401 unauthorized');
    expect(await problemOf(operator(before).ask('backUpAccount', { id: '0'.repeat(22) }))).toBe('404 not_found');
    const wrong = [{ limit: 101 }, ...['x1', 'f-1', 'r1', 'k01'].map((cursor) => ({ cursor }))];
    for (const query of wrong)
      expect(await problemOf(operator(before).ask('backUpAccount', { id: owner.id, ...query }))).toBe(
        '400 invalid_request',
      );
  });
});

describe('a receipt', () => {
  it('says that backups may outlive what was deleted, once one was fetched', async () => {
    const { id, call } = await newOwner(before);
    const receiptOf = async (): Promise<[Receipt, ShareReceipt]> => {
      const { fileId } = await call.store('encrypted', 'x');
      const share = await call.createShare({ record: 'AAAA', files: [], password: false, opens: 1 });
      return [await call.deleteFile({ fileId }), await call.deleteShare({ shareId: share.id })];
    };
    for (const receipt of await receiptOf())
      expect({ backups: receipt.backups, recoverableUntil: receipt.recoverableUntil }).toEqual({
        backups: undefined,
        recoverableUntil: undefined,
      });
    await backUp(before, id, 100);
    for (const receipt of await receiptOf())
      expect({ backups: receipt.backups, recoverableUntil: receipt.recoverableUntil }).toEqual({
        backups: 'unknown',
        recoverableUntil: undefined,
      });
  });

  it('says until when the platform or a backup could bring it back, whichever is later', () => {
    const day = (days: number): string => new Date(days * 86_400_000).toISOString();
    for (const [RECOVERY_DAYS, BACKUP_DAYS, backedUp, said] of [
      ['30', '', false, { recoverableUntil: day(30) }],
      ['30', '', true, { recoverableUntil: day(30), backups: 'unknown' }],
      ['30', '365', true, { recoverableUntil: day(365) }],
      ['30', '365', false, { recoverableUntil: day(30) }],
      ['30', '7', true, { recoverableUntil: day(30) }],
      ['0', '0', true, {}],
      ['0', '1', true, { recoverableUntil: day(1) }],
      ['0', '3650', true, { recoverableUntil: day(3650) }],
    ] as const)
      expect(recoverable({ RECOVERY_DAYS, BACKUP_DAYS } as Env, backedUp, 0)).toEqual(said);
    for (const BACKUP_DAYS of ['-1', '1.5', '3651', 'a', ' 1', '1e2'])
      expect(() => recoverable({ BACKUP_DAYS } as Env, true)).toThrow(
        expect.objectContaining({ code: 'misconfigured' }),
      );
  });
});

describe.runIf(sharesBackends)('a restoration', () => {
  it('refuses what is not the backup of this account and of this service', async () => {
    const [first] = pages;
    expect(await problemOf(put({ ...first, format: 'sealpin-account-backup/v2' }))).toBe('400 invalid_request');
    expect(await problemOf(put({ ...first, surplus: 1 }))).toBe('400 invalid_request');
    expect(await problemOf(put(first, (await newOwner(before)).id))).toBe('400 invalid_request');
    const other = await put({ ...first, pinsOf: 'another' });
    expect(await other.clone().json()).toMatchObject({ hint: expect.stringContaining('set SERVICE_ID to "another"') });
    expect(await problemOf(other)).toBe('409 conflict');
    expect(await problemOf(put({ ...first, account: null }))).toBe('400 invalid_request');
    expect(await problemOf(put(pages[1]))).toBe('409 conflict');
    expect(await problemOf(operator(after).ask('getAccountSummary', { id: owner.id }))).toBe('404 not_found');
    // The service has this account already.
    const there = restore(before, first, owner.id);
    expect(await problemOf(there)).toBe('409 conflict');
  });

  it('brings back every file under the old keys, page by page', async () => {
    const call = client(after.url, owner.call.apiKey);
    for (const [index, page] of pages.entries()) {
      const ahead = pages[index + 2];
      if (ahead !== undefined && index > 0) expect(await problemOf(put(ahead))).toBe('409 conflict');
      // Its response may have been lost, so each page can be sent again.
      for (const again of page.next === null ? [page] : [page, page, pages[0]]) {
        const restored = await jsonOf<RestoredPage>(put(again));
        expect(restored).toMatchObject({ accountId: owner.id, unpinned: [] });
      }
      if (page.next !== null) expect(await problemOf(call.ask('getAccount'))).toBe('403 account_disabled');
    }
    expect(await problemOf(put(pages[0]))).toBe('409 conflict');

    for (const { file, bytes } of files) expect(String(await call.getFileContent({ fileId: file.fileId }))).toBe(bytes);
    // When a pin was looked at is no part of a backup.
    const unchecked = (name: string, value: unknown): unknown => (name === 'checkedAt' ? undefined : value);
    const theirs = async (from: Client): Promise<unknown[]> => [
      await jsonOf(from('/v1/storage?limit=100')),
      await jsonOf(from('/v1/storage?tag=two')),
      await jsonOf(from('/v1/storage?tag=one')),
      await jsonOf(from('/v1/keys')),
      await jsonOf(from('/v1/account')),
      await jsonOf(from('/v1/shares')),
      await jsonOf(from(`/v1/storage/${deletedId}/receipt`)),
      await jsonOf(from('/v1/events?limit=100')),
    ];
    const [restored, original] = (await Promise.all([call, owner.call].map(theirs))).map((all) =>
      JSON.stringify(all, unchecked),
    );
    expect(restored).toBe(original);
    expect(await problemOf(client(after.url, revoked.apiKey).ask('getAccount'))).toBe('401 unauthorized');
    expect(await backUp(after, owner.id, 1)).toEqual(pages);
    const { accounts } = await operator(after).listAccounts();
    expect(accounts.map(({ id }) => id)).toContain(owner.id);
  });

  it('makes what it restored count: files are deleted with their pins, and new ones are stored', async () => {
    const call = client(after.url, owner.call.apiKey);
    const receipt = await call.deleteFile({ fileId: itemOf(files, 0).file.fileId });
    expect(receipt.pins).toEqual([expect.objectContaining({ status: 'unpinned' })]);
    const { fileId } = await call.store('encrypted', 'new');
    expect(String(await call.getFileContent({ fileId }))).toBe('new');
  });

  it('lets links open as often as they still may, and leaves ended ones dead', async () => {
    const [opened, fresh] = shares.active;
    const [usedUp] = shares.used_up;
    const [revokedOne] = shares.revoked;
    if (opened === undefined || fresh === undefined || usedUp === undefined || revokedOne === undefined)
      throw new Error('there are four shares');
    for (let left = 2; left > 0; left -= 1) expect(await recordOf(open(after, opened))).toBe(btoa('record active 3'));
    expect(await problemOf(open(after, opened))).toBe('410 gone');
    expect(await problemOf(open(after, usedUp))).toBe('410 gone');
    expect(await problemOf(open(after, revokedOne))).toBe('404 not_found');
    const call = client(after.url, owner.call.apiKey);
    await call.deleteShare({ shareId: fresh.id });
    expect(await problemOf(open(after, fresh))).toBe('410 gone');
    // Its openings are counted on from those before, and each is an event.
    await expect.poll(() => openingsOf(call, opened)).toBe(3);
  });

  it('counts what a link was opened before its page came again, and behind the events of the backup', async () => {
    const { id, call } = await newOwner(before);
    const request = { record: btoa('record'), files: [], password: false, opens: 3 };
    const share = await call.createShare(request);
    await call.createShare(request);
    for (const page of await backUp(before, id, 1)) {
      await jsonOf(put(page, id));
      if (page.shares[0]?.id !== share.id) continue;
      expect(await recordOf(open(after, share))).toBe(btoa('record'));
      await jsonOf(put(page, id));
      expect(await client(after.url, '').getShare({ shareId: share.id })).toMatchObject({ opensLeft: 2 });
    }
    await expect.poll(() => openingsOf(client(after.url, call.apiKey), share)).toBe(1);
  });

  it('names files whose bytes the pinning service lost', async () => {
    const lost = await newOwner(before);
    const file = await lost.call.store('plain', 'bytes that get lost');
    const [page] = await backUp(before, lost.id, 100);
    await loseHeld(before, file.cid);
    expect(await jsonOf(put(page, lost.id))).toMatchObject({ unpinned: [file.fileId], files: 1, next: null });
  });

  it('keeps what the operator has set and denied, before any key works', async () => {
    const { id, call } = await newOwner(before);
    const stored = [await call.store('plain', 'denied bytes'), await call.store('plain', 'others')];
    const [denied] = stored;
    // Not in the order of the rows.
    const named = stored.map(({ fileId }) => fileId).toSorted((a, b) => (a < b ? 1 : -1));
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const request = { record: btoa('record'), files: named, password: false, opens: 1, expiresAt };
    await call.createShare(request);
    await operator(before).denyCid({ cid: present(denied).cid });
    const settings = { origins: ['https://a.example'], disabled: true };
    await operator(before).changeAccount({ id, ...settings });
    const [page] = await backUp(before, id, 100);

    const object = accountObject(after, id);
    await object.fail('put', 'before');
    expect(await problemOf(put(page, id))).toBe('503 overloaded');
    expect(await jsonOf(put(page, id))).toMatchObject({ next: null, unpinned: [] });
    const there = client(after.url, call.apiKey);
    expect(await problemOf(there('/v1/account'))).toBe('403 account_disabled');
    await operator(after).changeAccount({ id, disabled: false });
    const from = (Origin: string): Promise<Response> => there('/v1/account', { headers: { Origin } });
    expect(await problemOf(from('https://b.example'))).toBe('403 forbidden');
    // The guard of `sealpin start` lets no other origin through.
    if (!guarded) await jsonOf(from('https://a.example'));
    expect(await problemOf(there(`/v1/storage/${denied?.fileId}/content`))).toBe('410 content_denied');
    expect(await problemOf(there('/v1/storage/plain', { method: 'POST', body: 'denied bytes' }))).toBe('403 forbidden');
    // A link that has expired is told apart for some days.
    await object.ring(2 * 3_600_000);
    expect(await jsonOf(there('/v1/shares'))).toMatchObject({ shares: [{ files: named }] });
  });

  it('is not stopped by what the operator of the new service denies', async () => {
    const { id, call } = await newOwner(before);
    const [denied, other] = [await call.store('plain', 'denied there'), await call.store('plain', 'allowed there')];
    const [page] = await backUp(before, id, 100);
    await operator(after).denyCid({ cid: denied.cid });
    expect(await jsonOf(put(page, id))).toMatchObject({ next: null, unpinned: [], files: 2 });
    const contentOf = (fileId: string): Promise<Response> =>
      client(after.url, call.apiKey).ask('getFileContent', { fileId });
    expect(await problemOf(contentOf(denied.fileId))).toBe('410 content_denied');
    expect((await contentOf(other.fileId)).status).toBe(200);
    await operator(after).ask('allowCid', { cid: denied.cid });
    expect((await contentOf(denied.fileId)).status).toBe(200);
  });

  it('numbers events on where none of the old ones is kept any more', async () => {
    const { id, call } = await newOwner(before);
    await call.store('plain', 'of last year');
    const { cursor } = await call.listEvents();
    await accountObject(before, id).ring(200 * 86_400_000);
    const [page] = await backUp(before, id, 100);
    expect(page?.events).toEqual([]);
    await jsonOf(put(page, id));
    const there = client(after.url, call.apiKey);
    const { fileId } = await there.store('plain', 'of this year');
    const { events } = await jsonOf<EventList>(there(`/v1/events?after=${cursor}`));
    expect(events).toMatchObject([{ action: 'file.stored', fileId }]);
  });

  it('takes its last page twice at once, as after a response that was late', async () => {
    const { id, call } = await newOwner(before);
    const denied = await call.store('plain', 'denied, in two requests');
    await operator(before).denyCid({ cid: denied.cid });
    const [page] = await backUp(before, id, 100);
    const restored = await Promise.all([1, 2].map(() => jsonOf<RestoredPage>(put(page, id))));
    expect(restored).toEqual([1, 2].map(() => expect.objectContaining({ next: null, files: 1, unpinned: [] })));
    expect((await client(after.url, call.apiKey).ask('getAccount')).status).toBe(200);
  });

  it('of files at a service that is not configured fails, and leaves the keys disabled', async () => {
    const { id, call } = await newOwner(before);
    await call.store('plain', 'bytes of elsewhere');
    const [page] = await backUp(before, id, 100);
    const elsewhere = { ...page, files: page?.files.map((each) => ({ ...each, service: 'elsewhere' })) };
    for (const _ of [1, 2]) expect(await problemOf(put(elsewhere, id))).toBe('503 pinning_unavailable');
    expect(await problemOf(client(after.url, call.apiKey).ask('getAccount'))).toBe('403 account_disabled');
  });
});
