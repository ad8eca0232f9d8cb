/** Copies of files with bytes, which are checked before they get their name. */
import { constants } from 'node:fs';
import { chmod, copyFile, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { errnoOf, ifMissing, readFailure, writeFailure } from '../../errno.ts';
import { syncFile, temporaryPath } from '../../io/unfinished.ts';
import { isCidOf } from '../../local/node/verify.ts';
import { partSuffix } from '../../local/node/data-file-name.ts';

/** Kinds of damage to a file. */
export type CopyFault = 'missing' | 'damaged';

/** A file with bytes, by its name on the disk, and the CID of what it holds. */
type BlockFile = { readonly id: number; readonly name: string; readonly cid: string };

/** All files that are complete in the index of the embedded node. */
export function blockFilesIn(index: DatabaseSync): BlockFile[] {
  const files = index.prepare('SELECT id, name, cid FROM file WHERE cid IS NOT NULL ORDER BY id');
  return files.all() as unknown as BlockFile[];
}

/** Compares every leaf that a file has by the index with its CID. @param path of its copy */
export async function faultIn(path: string, index: DatabaseSync, { id }: BlockFile): Promise<CopyFault | undefined> {
  const select = index.prepare('SELECT cid, start, bytes FROM block WHERE file = ? AND node IS NULL ORDER BY start');
  const leaves = select.all(id) as { cid: string; start: number; bytes: number }[];
  const file = await open(path, 'r');
  try {
    let buffer = Buffer.alloc(0);
    const { size } = await file.stat();
    for (const { cid, start, bytes } of leaves) {
      if (start + bytes > size) return 'damaged';
      if (buffer.length < bytes) buffer = Buffer.allocUnsafe(bytes);
      const { bytesRead } = await file.read(buffer, 0, bytes, start);
      if (bytesRead !== bytes || !isCidOf(cid, buffer.subarray(0, bytes))) return 'damaged';
    }
    return undefined;
  } catch (error) {
    if (errnoOf(error) === 'EIO') return 'damaged';
    throw readFailure(path, error);
  } finally {
    await file.close();
  }
}

/**
 * Copies a file and checks the copy, which is on the disk when it gets its name, and has none if it
 * is damaged.
 * @param check returns what is wrong with the copy
 * @throws file_unwritable, disk_full, file_unreadable
 */
export async function copyChecked(from: string, to: string, check: (copy: string) => Promise<CopyFault | undefined>) {
  const temporary = temporaryPath(dirname(to));
  try {
    if (!(await didCopy(from, temporary))) return 'missing';
    await chmod(temporary, 0o600);
    const fault = await check(temporary);
    if (fault !== undefined) return fault;
    await syncFile(temporary);
    await rename(temporary, to);
    return undefined;
  } catch (error) {
    throw writeFailure(to, error);
  } finally {
    await rm(temporary, { force: true });
  }
}

async function didCopy(from: string, to: string): Promise<boolean> {
  // A file may keep the suffix after a crash, until the next start.
  for (const path of [from, from + partSuffix]) {
    const isThere = await ifMissing(
      copyFile(path, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE).then(() => true),
      false,
    );
    if (isThere) return true;
  }
  return false;
}
