/** An entry of KV, as an account's object writes it. */

/** An entry of KV; null: there is none of this name. */
export type KvEntry = { name: string; value: string | null };

/** Writes or removes an entry. */
export async function writeEntry(store: KVNamespace, { name, value }: KvEntry): Promise<void> {
  if (value === null) await store.delete(name);
  else await store.put(name, value);
}
