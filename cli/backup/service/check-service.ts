/** Checking the backup of a service where it lies: no service is asked, and nothing is changed. */
import { join } from 'node:path';
import type { Context } from '../../context.ts';
import { forEachOf } from '../../files/side-by-side.ts';
import {
  blockEntries,
  digestOfFile,
  partEntries,
  type BackupFolderFile,
  requireManifest,
  type ServiceFolder,
} from './service-folder.ts';

/** A file of a backup that is damaged or missing: its path in the folder, and what it is of. */
export type BadFile = Pick<BackupFolderFile, 'path' | 'of'> & { readonly why: string };

/**
 * Reads everything in a backup, and compares it with its SHA-256.
 * @returns what it has, and each file that is not intact
 * @throws file_not_found when the folder is none, config_invalid, file_unreadable
 */
export async function checkService(folder: ServiceFolder, context: Context) {
  const manifest = await requireManifest(folder, context);
  const bad = await faultyFiles(folder, [...partEntries(manifest), ...blockEntries(manifest)], context);
  return { takenAt: manifest.takenAt, files: manifest.blocks.length, bad };
}

/** Those of some files of a backup that are damaged or missing. */
export async function faultyFiles({ root }: ServiceFolder, entries: readonly BackupFolderFile[], { signal }: Context) {
  const bad: BadFile[] = [];
  await forEachOf(entries, async ({ path, of, sha256 }) => {
    signal.throwIfAborted();
    const why = await faultOf(join(root, path), sha256);
    if (why !== undefined) bad.push({ path, of, why });
  });
  return bad;
}

/** Compares a file with its SHA-256. A symbolic link counts as missing. */
export async function faultOf(path: string, sha256: string): Promise<'missing' | 'damaged' | undefined> {
  const found = await digestOfFile(path);
  if (found?.digest === sha256) return undefined;
  return found === undefined ? 'missing' : 'damaged';
}
