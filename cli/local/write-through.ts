/**
 * Writing through to the disk what workerd and Miniflare leave to the system. SQLite does it for
 * the Durable Objects; what is left are the values in KV, each in a file of its own, and folders.
 */
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ifMissing } from '../errno.ts';
import { syncFile } from '../io/unfinished.ts';

async function sync(path: string): Promise<void> {
  await ifMissing(syncFile(path, 'r'), undefined); // KV removes what it has replaced
}

/** Makes every folder below one durable, with the names in it, and the one around it. */
export async function syncFolders(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
  await Promise.all([dirname(folder), folder, ...folders].map(sync));
}

/** Returns what makes durable what KV holds. @param stateDir folder of KV and Durable Objects */
export function kvWriter(stateDir: string): () => Promise<void> {
  const namespace = join(stateDir, 'kv', 'API_KEYS');
  const blobs = join(namespace, 'blobs');
  // A file is written once, under a name of its own.
  let written = new Set<string>();
  return async () => {
    const names = (await ifMissing(readdir(blobs), [])).filter((name) => !name.startsWith('.'));
    await Promise.all(names.filter((name) => !written.has(name)).map((name) => sync(join(blobs, name))));
    await Promise.all([blobs, namespace, dirname(namespace)].map(sync));
    written = new Set(names);
  };
}
