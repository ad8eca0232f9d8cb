/**
 * The entries of KV that an account keeps there: its place in the operator's list, its origins, and
 * the copies of its API keys. Rows decide what each of them is; nothing but this writes them.
 */
import type { AccountRow } from './account-row.ts';
import type { AccountSettings } from './account-settings.ts';
import { listEntry, originsEntry, type KvEntry } from './account-list.ts';
import { keyEntry, kvKeyName } from './keys/key-cache.ts';
import type { KeyRows } from './keys/key-rows.ts';
import type { KvMessage } from './outbox.ts';

type Rows = { row: AccountRow; settings: AccountSettings; keys: KeyRows };

/**
 * Writes what a message is about as the rows have it when it is delivered, and again where they
 * have changed meanwhile: of two changes at once the later one stays.
 */
export async function writeEntries(store: KVNamespace, rows: Rows, message: KvMessage): Promise<void> {
  for (let before = ''; ;) {
    const entries = kvEntriesOf(rows, message);
    const now = JSON.stringify(entries);
    if (now === before) return;
    for (const { name, value } of entries) await (value === null ? store.delete(name) : store.put(name, value));
    before = now;
  }
}

function kvEntriesOf({ row, settings, keys }: Rows, { op, target }: KvMessage): KvEntry[] {
  const isOpen = row.open !== undefined;
  if (op === 'origins') return [originsEntry(target, isOpen ? settings.get().origins : null)];
  if (op === 'enlist' || op === 'delist') {
    const listed = listEntry(target, isOpen);
    return isOpen ? [listed] : [originsEntry(target, null), listed];
  }
  const key = isOpen ? keys.findByHash(target) : undefined;
  const entry = key && row.id !== undefined ? keyEntry(row.id, { ...key, hash: target }) : undefined;
  return [entry ?? { name: kvKeyName(target), value: null }];
}
