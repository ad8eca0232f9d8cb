/**
 * Copies of a restored account in KV: of its API keys, and of the origins whose pages may use them.
 */
import type { BackupKey } from '../../../../shared/api.ts';
import { originsEntry } from '../account-list.ts';
import { reached } from '../delivery.ts';
import { keyEntry } from '../keys/key-cache.ts';
import { writeEntry } from '../kv-entry.ts';
import { parsed } from '../../columns.ts';
import { hiddenKeyColumns, keyColumns } from '../tables.ts';
import type { AccountPage } from './account-backup.ts';
import type { Result } from '../../result.ts';

/**
 * Writes what KV has of a page: before its keys work, since without an entry a page of any origin
 * may use them. Can be repeated.
 * @returns `overloaded`
 */
export async function restoreCopies(store: KVNamespace, { accountId, account, keys }: AccountPage): Promise<Result> {
  return await reached({ event: 'account.restore' }, async () => {
    if (account !== null) await writeEntry(store, originsEntry(accountId, account.origins));
    await Promise.all(keys.map((key) => cacheKey(store, accountId, key)));
    return { ok: true };
  });
}

async function cacheKey(store: KVNamespace, account: string, key: BackupKey): Promise<void> {
  if (key.revokedAt !== null) return;
  await writeEntry(store, keyEntry(account, parsed({ ...keyColumns, ...hiddenKeyColumns }, key)));
}
