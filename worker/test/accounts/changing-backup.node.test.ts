/** Backups of accounts that change while their pages are read, or while they are restored. */
import { beforeAll, expect, it } from 'vitest';
import type { BackupPage, Receipt, StoredFile } from '../../../shared/api.ts';
import { adminToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { newOwner, pinned, type Owner } from '../stored-state.ts';

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
  const pages: BackupPage[] = [];
  let cursor: string | undefined;
  do {
    const page: BackupPage = await operator().backUpAccount({ id, limit: 1, cursor });
    pages.push(page);
    cursor = page.next ?? undefined;
    const isLast = page[list].length > 0 && page.next?.startsWith(list.charAt(0)) !== true;
    if (isLast) await change();
  } while (cursor !== undefined);
  await operator().deleteAccount({ id });
  await object.ring(longMs);
  for (const page of pages) await jsonOf(restore(id, page));
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

it('an account that is deleted while it is restored leaves no reference', async () => {
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
