/**
 * Memory of this browser, where it is told to: for links, which files they lead to, and when, but
 * never a link itself, which opens them; for senders, names by their keys. An API key only where
 * that is asked for, too.
 */

/** A link that was made. `opens`: how often in all, as the service said last; sizes in bytes. */
export type KeptLink = {
  readonly shareId: string;
  readonly files: readonly { readonly name: string; readonly size: number }[];
  readonly createdAt: string;
  readonly opens: number;
};

/** A key that signs (`sealpin-signer1…`), and what the reader calls its owner. */
export type KeptSigner = { readonly signer: string; readonly name: string };

const databaseName = 'sealpin-links';
const stores = { link: { keyPath: 'shareId' }, credential: {}, signer: { keyPath: 'signer' } };
const keyName = 'key';

function requestResult<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.addEventListener('success', () => resolve(request.result));
    request.addEventListener('error', () => reject(request.error ?? new Error('the browser keeps nothing')));
  });
}

/** Opens the database. @param create undefined is returned where there is none without it */
async function openDatabase(create: boolean): Promise<IDBDatabase | undefined> {
  // To open it would make it. WebKit lists one whose making was aborted, with version 0.
  const isKept = ({ name, version = 0 }: IDBDatabaseInfo): boolean => name === databaseName && version > 0;
  if (!create && !(await indexedDB.databases()).some(isKept)) return undefined;
  const request = indexedDB.open(databaseName, 2);
  request.addEventListener('upgradeneeded', () => {
    const missing = Object.entries(stores).filter(([name]) => !request.result.objectStoreNames.contains(name));
    for (const [name, options] of missing) request.result.createObjectStore(name, options);
  });
  return await requestResult(request);
}

/** Runs a request in a transaction of its own. @returns once what it writes is kept */
async function inStore<T>(
  name: keyof typeof stores,
  mode: 'readonly' | 'readwrite',
  work: (store: IDBObjectStore) => IDBRequest<T>,
  create = false,
): Promise<T | undefined> {
  const database = await openDatabase(create);
  if (database === undefined) return undefined;
  try {
    const transaction = database.transaction(name, mode);
    const complete = new Promise<void>((resolve, reject) => {
      transaction.addEventListener('complete', () => resolve());
      transaction.addEventListener('abort', () => reject(transaction.error ?? new Error('the browser keeps nothing')));
    });
    const [result] = await Promise.all([requestResult(work(transaction.objectStore(name))), complete]);
    return result;
  } finally {
    // An open database would keep another tab from forgetting it.
    database.close();
  }
}

export async function keepLink(link: KeptLink): Promise<void> {
  await inStore('link', 'readwrite', (store) => store.put(link), true);
}

/**
 * Notes how often a link opens in all, where it is still kept. Where that fails the older number
 * stays: the link itself is changed.
 */
export async function noteOpens(shareId: string, opens: number): Promise<void> {
  await inStore<IDBCursorWithValue | null>('link', 'readwrite', (store) => {
    const request = store.openCursor(shareId);
    request.addEventListener('success', () => request.result?.update({ ...(request.result.value as KeptLink), opens }));
    return request;
  }).catch(() => undefined);
}

export async function forgetLink(shareId: string): Promise<void> {
  await inStore('link', 'readwrite', (store) => store.delete(shareId));
}

/** All that are kept, the newest first. */
export async function keptLinks(): Promise<KeptLink[]> {
  const links = (await inStore<KeptLink[]>('link', 'readonly', (store) => store.getAll())) ?? [];
  return links.sort((one, other) => (one.createdAt < other.createdAt ? 1 : -1));
}

/** Keeps an API key, or the link of an invitation. */
export async function keepKey(text: string): Promise<void> {
  await inStore('credential', 'readwrite', (store) => store.put(text, keyName), true);
}

export function keptKey(): Promise<string | undefined> {
  return inStore<string | undefined>('credential', 'readonly', (store) => store.get(keyName));
}

/** Keeps a name for a key. @param before key of that name, which it takes the place of */
export async function keepSigner(signer: KeptSigner, before?: string): Promise<void> {
  await inStore('signer', 'readwrite', (store) => store.put(signer), true);
  if (before !== undefined && before !== signer.signer)
    await inStore('signer', 'readwrite', (store) => store.delete(before));
}

export async function keptSigners(): Promise<KeptSigner[]> {
  return (await inStore<KeptSigner[]>('signer', 'readonly', (store) => store.getAll())) ?? [];
}

/** Removes all of it. @returns once the browser has */
export async function forgetEverything(): Promise<void> {
  await requestResult(indexedDB.deleteDatabase(databaseName));
}
