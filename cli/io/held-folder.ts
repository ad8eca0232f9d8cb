/** A folder that one process has at a time. */
import { readdir, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isSealpinError } from '../../shared/errors.ts';
import { quietSqlite } from './quiet-sqlite.ts';
import { errnoOf, writeFailure } from '../errno.ts';
import { makeDataDirectory, makeDirectories } from './paths.ts';
import { isTemporaryName } from './unfinished.ts';

/** The file that is locked; the names of SQLite's own files beside it begin with it. */
export const lockName = 'lock';

/**
 * Creates a folder and holds it until it is released or this process ends. It is removed before the
 * release, if at all.
 * @param dataDir the data directory above it, if there is one, which is created first
 * @returns undefined while another process has it
 * @throws file_unwritable, disk_full
 */
export async function holdFolder(folder: string, dataDir?: string): Promise<{ release(): void } | undefined> {
  const path = join(folder, lockName);
  const inode = async (): Promise<number | undefined> => (await stat(path).catch(() => undefined))?.ino;
  try {
    if (dataDir !== undefined) await makeDataDirectory(dataDir);
    await makeDirectories(folder);
    quietSqlite();
    const { lock } = await import('./lock.ts');
    const before = await inode();
    const held = lock(path);
    const after = await inode();
    if (after !== undefined && (before === undefined || before === after)) return held;
    // Its last holder removed it in this moment.
    held.release();
    return undefined;
  } catch (error) {
    if (isSealpinError(error, 'already_running')) return undefined;
    throw writeFailure(folder, error);
  }
}

/** Recognizes the lock file, an output that is not complete, or one of these names. */
function isKnown(name: string, files: readonly string[]): boolean {
  return name.startsWith(lockName) || isTemporaryName(name) || files.includes(name);
}

/**
 * Checks that everything in a folder was written by this program: a data directory may have been
 * put where somebody already has a folder of that name.
 * @param files names of those that the folder may have
 */
export async function isOwnFolder(folder: string, files: readonly string[]): Promise<boolean> {
  const names = await readdir(folder).catch(() => undefined);
  return names !== undefined && names.every((name) => isKnown(name, files));
}

/** Removes these files from a folder, and it too where nothing else is in it. */
export async function removeFolder(folder: string, files: readonly string[]): Promise<void> {
  for (const name of await readdir(folder)) if (isKnown(name, files)) await rm(join(folder, name), { force: true });
  await rmdir(folder).catch((error: unknown) => {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(errnoOf(error) ?? '')) throw error;
  });
}
