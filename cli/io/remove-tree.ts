/** Removing a directory, however many entries it has. */
import { lstat, opendir, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../errno.ts';

/**
 * Removes a file, or a directory and what is in it, one entry after the other. Symbolic links are
 * not followed. What is not there, or was removed meanwhile, is no failure. (Node's own recursive
 * `rm` begins with all entries of a directory at once, which takes about 2 KB of memory for each.)
 * @throws what the system throws, with its `code`
 */
export async function removeTree(path: string): Promise<void> {
  await didRemove(async () => {
    await ((await lstat(path)).isDirectory() ? removeDirectory(path) : unlink(path));
  });
}

async function removeDirectory(path: string): Promise<void> {
  let removed = 0;
  for await (const entry of await opendir(path)) {
    const inner = join(path, entry.name);
    if (await didRemove(() => (entry.isDirectory() ? removeDirectory(inner) : unlink(inner)))) removed += 1;
  }
  try {
    await rmdir(path);
  } catch (error) {
    // Some file systems skip names while others of the directory are removed.
    if (removed === 0 || !['ENOTEMPTY', 'EEXIST'].includes(errnoOf(error) ?? '')) throw error;
    await removeDirectory(path);
  }
}

async function didRemove(remove: () => Promise<void>): Promise<boolean> {
  try {
    await remove();
    return true;
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    return false;
  }
}
