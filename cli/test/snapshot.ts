/** Snapshot of a directory tree: to see afterwards that nothing in it has changed. */
import { createHash } from 'node:crypto';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Kind, mode, time of the last change and content of each entry, by its path; the directory itself
 * is the empty path.
 */
export async function snapshotOf(directory: string): Promise<Map<string, string>> {
  const names = await readdir(directory, { recursive: true });
  const entries = ['', ...names].map(async (name): Promise<[string, string]> => {
    const path = join(directory, name);
    const stats = await lstat(path, { bigint: true });
    const about = `${stats.mode.toString(8)} ${stats.mtimeNs} ${stats.ino}`;
    if (stats.isSymbolicLink()) return [name, `${about} -> ${await readlink(path)}`];
    if (!stats.isFile()) return [name, about];
    return [
      name,
      `${about} ${createHash('sha256')
        .update(await readFile(path))
        .digest('hex')}`,
    ];
  });
  return new Map(await Promise.all(entries));
}
