/** Backups of accounts that change while their pages are read, or while they are restored. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { BackupPage, Receipt, StoredFile } from '../../../shared/api.ts';
import { adminToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';
import { generateKeyPair, open, parseIdentities } from '../../../shared/crypto/index.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath } from '../../../testkit/api-client.ts';
import { dayMs, minuteMs, share, store } from '../invitations/guest.ts';
import { accountObject, newOwner, pinned, type Owner } from '../stored-state.ts';
import { inCi } from '../../../testkit/long-run.ts';

const longMs = 4 * 3_600_000;

let service: Service;
const operator = () => client(service.url, adminToken);

beforeAll(async () => {
  service = await sharedService();
});

/**
 * Backs an account up page by page, deletes it, and restores it.
 * @param change is done once the last page with items of a list is read
 */
async function restoredAfter(
  { id, object }: Owner,
  change: () => Promise<unknown>,
  list: 'keys' | 'files',
): Promise<void> {
  const pages = await backUp(id, async (page) => {
    const isLast = page[list].length > 0 && page.next?.startsWith(list.charAt(0)) !== true;
    if (isLast) await change();
  });
  await operator().deleteAccount({ id });
  await object.ring(longMs);
  for (const page of pages) await jsonOf(restore(id, page));
}

/** Reads the pages of a backup, with one item each. */
async function backUp(id: string, each: (page: BackupPage) => Promise<unknown>): Promise<BackupPage[]> {
  const pages: BackupPage[] = [];
  let cursor: string | undefined;
  do {
    const page: BackupPage = await operator().backUpAccount({ id, limit: 1, cursor });
    pages.push(page);
    cursor = page.next ?? undefined;
    await each(page);
  } while (cursor !== undefined);
  return pages;
}

/**
 * Backs an account up, deletes and restores it.
 * @param meanwhile is done after each page but the last
 */
async function restoredWith({ id, object }: Owner, meanwhile: () => Promise<unknown>): Promise<void> {
  const pages = await backUp(id, async () => undefined);
  await operator().deleteAccount({ id });
  await object.ring(longMs);
  for (const page of pages) {
    await jsonOf(restore(id, page));
    if (page.next !== null) await meanwhile();
  }
}

const restore = (id: string, page: BackupPage): Promise<Response> =>
  operator().ask(
    'restoreAccount',
    { id },
    { headers: { 'Sealpin-Restore': restoreToken }, body: JSON.stringify(page) },
  );

it('a file that was deleted after its page was read is there again, and can be deleted again', async () => {
  const owner = await newOwner(service);
  // Pages of receipts follow those of files.
  const before = await owner.call.store('plain', `deleted before the backup of ${owner.id}`);
  await owner.call.deleteFile({ fileId: before.fileId });
  const { fileId } = await owner.call.store('plain', `kept by the backup of ${owner.id}`);
  await restoredAfter(owner, () => owner.call.deleteFile({ fileId }), 'files');
  expect(await problemOf(owner.call.ask('getReceipt', { fileId }))).toBe('404 not_found');
  const receipt = await owner.call.deleteFile({ fileId });
  expect(receipt.reason).toBe('deleted');
  expect((await jsonOf<Receipt>(owner.call.ask('getReceipt', { fileId }))).deletedAt).toBe(receipt.deletedAt);
});

it('what counts for the limits of a key is what was restored', async () => {
  const owner = await newOwner(service);
  const limits = { files: 2 };
  const limited = await owner.call.createKey({ label: 'limited', scopes: ['read', 'write', 'delete'], limits });
  const by = client(service.url, limited.apiKey);
  const store = (name: string): Promise<Response> => by.ask('storePlain', {}, { body: `${name} of ${owner.id}` });
  const { fileId } = await jsonOf<StoredFile>(store('deleted after the page of the key was read'), 201);
  await restoredAfter(owner, () => by.deleteFile({ fileId }), 'keys');
  expect((await store('first')).status).toBe(201);
  expect((await store('second')).status).toBe(201);
  expect(await problemOf(store('third'))).toBe('413 quota_exceeded');
});

inCi('an account that is deleted while it is restored leaves no reference', async () => {
  const owner = await newOwner(service);
  const { cid } = await owner.call.store('plain', `restored while ${owner.id} is deleted`);
  const page: BackupPage = await operator().backUpAccount({ id: owner.id, limit: 100 });
  await operator().deleteAccount({ id: owner.id });
  await owner.object.ring(longMs);
  await owner.object.fail('addReference', 'late');
  const restoring = restore(owner.id, page);
  await expect.poll(() => owner.object.awaits('addReference')).toBe(false);
  await operator().deleteAccount({ id: owner.id });
  await owner.object.ring(0);
  expect(await problemOf(restoring)).toBe('404 not_found');
  await owner.object.ring(longMs);
  expect(await pinned(service)).not.toContain(cid);
  expect(await owner.object.tables()).toBe(0);
});

describe('while an account is restored', () => {
  it.each([
    [false, true],
    [false, false],
    [true, false],
    [true, true],
    [true, undefined],
  ])('its keys wait for the last page (disabled: %j), and then for the operator (set to %j)', async (before, set) => {
    const owner = await newOwner(service);
    await owner.call.store('plain', `of ${owner.id}`);
    await operator().changeAccount({ id: owner.id, disabled: before });
    await restoredWith(owner, async () => {
      if (set !== undefined) await operator().changeAccount({ id: owner.id, label: 'new', disabled: set });
      expect(await problemOf(owner.call.ask('getAccount'))).toBe('403 account_disabled');
    });
    expect((await owner.call.ask('getAccount')).status).toBe((set ?? before) ? 403 : 200);
    expect(await operator().getAccountSummary({ id: owner.id })).toMatchObject({ disabled: set ?? before });
  });

  it('nobody recovers or backs up the part that is there, and a recovery then ends all keys', async () => {
    const pair = await generateKeyPair();
    const { account, apiKey } = await operator().createAccount({ label: 'team', recovery: pair.publicPem });
    const { id } = account;
    const call = client(service.url, apiKey);
    const keys = [call, await call.withKey(['read']), await call.withKey(['write'])];
    const file = await bytesOf(client(service.url).ask('getRecoveryFile', { id }));
    const opened = await open(new Blob([file]).stream());
    if (opened.kind !== 'age') throw new Error(opened.kind);
    const privateKey = await new Response(await opened.decrypt(parseIdentities(pair.privatePem))).text();
    const recover = (): Promise<Response> => client(service.url).ask('recoverAccount', { id, privateKey });
    await restoredWith({ id, call, object: accountObject(service, id) }, async () => {
      expect(await problemOf(recover())).toBe('403 account_disabled');
      expect(await problemOf(client(service.url).ask('getRecoveryFile', { id }))).toBe('403 account_disabled');
      expect(await problemOf(operator().ask('backUpAccount', { id }))).toBe('409 conflict');
      expect(await problemOf(call.ask('rotateAccount', { publicKey: account.publicKey }))).toBe('403 account_disabled');
      const signed = await signedPath(apiKey, { method: 'POST', mode: 'plain', jti: crypto.randomUUID() });
      expect(await problemOf(call(signed, { method: 'POST', body: 'x' }))).toBe('403 account_disabled');
    });
    expect((await recover()).status).toBe(201);
    const after = await Promise.all(keys.map((key) => problemOf(key.ask('getAccount'))));
    expect(after).toEqual(keys.map(() => '401 unauthorized'));
  });

  it('its alarm leaves the part that is there alone, and sends what it owes', async () => {
    const owner = await newOwner(service);
    const { fileId, cid } = await store(owner.call, minuteMs / dayMs);
    const { id } = await share(owner.call, [fileId]);
    await restoredWith(owner, async () => {
      await operator().changeAccount({ id: owner.id, origins: null });
      await owner.object.ring(minuteMs);
      expect(await owner.object.rows('outbox')).toEqual([]);
      expect(await owner.object.rows('receipt')).toEqual([]);
    });
    await owner.object.ring(minuteMs);
    const receipt = await owner.call.getReceipt({ fileId });
    expect(receipt).toMatchObject({ reason: 'expired', shares: [{ id }] });
    expect(await pinned(service)).not.toContain(cid);
  });
});
