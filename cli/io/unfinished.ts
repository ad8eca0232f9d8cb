/** Outputs under a temporary name until they are complete. A killed process leaves them behind. */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { lstat, open, readdir, statfs } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { sizeText } from '../terminal/size.ts';
import { errnoOf, ifMissing } from '../errno.ts';
import { removeTree } from './remove-tree.ts';

/**
 * Stands for where a process ID means one process: of machines and containers that share a disk,
 * several may have one hostname. What one has not is left out.
 */
const marks = [() => readFileSync('/etc/machine-id', 'utf8'), () => readlinkSync('/proc/self/ns/pid'), hostname];
const machine = createHash('sha256').update(marks.map(ifAny).join('\0')).digest('hex').slice(0, 8);

function ifAny(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}

const temporaryName = /^\.sealpin-([0-9a-f]{8})-([0-9]+)-[0-9a-f]{16}\.tmp$/;

/** Recognizes the name of an output that is not complete, of this machine or another one. */
export function isTemporaryName(name: string): boolean {
  return temporaryName.test(name);
}

/** A new name in a directory, for an output that is not complete yet. */
export function temporaryPath(directory: string): string {
  return join(directory, `.sealpin-${machine}-${process.pid}-${randomBytes(8).toString('hex')}.tmp`);
}

/**
 * Removes temporary files and directories of killed processes of this user and machine, outside of
 * any container or in this one, and no others.
 */
export async function removeLeftovers(directory: string): Promise<void> {
  const names = await readdir(directory).catch((error: unknown) => {
    // A directory may be writable without being readable.
    if (errnoOf(error) === 'EACCES') return [];
    throw error;
  });
  for (const name of names) {
    const [, itsMachine, pid] = temporaryName.exec(name) ?? [];
    if (itsMachine !== machine || isAlive(Number(pid))) continue;
    const path = join(directory, name);
    try {
      if (await isOurs(path)) await removeTree(path);
    } catch (error) {
      // The directory may not let go of it: it stays.
      if (!['EPERM', 'EACCES'].includes(errnoOf(error) ?? '')) throw error;
    }
  }
}

/**
 * Tells whether nobody else can have put anything into what has a temporary name: another user
 * could lead the removal to files of this one, by a link that takes the place of a folder.
 */
async function isOurs(path: string): Promise<boolean> {
  const stats = await ifMissing(lstat(path), undefined);
  if (stats === undefined || process.geteuid === undefined) return stats !== undefined;
  return stats.uid === process.geteuid() && (!stats.isDirectory() || (stats.mode & 0o077) === 0);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) !== 'ESRCH';
  }
}

/** Checks that the disk under a directory has room for an output of this name. @throws disk_full */
export async function checkFreeSpace(directory: string, name: string, bytes: number): Promise<void> {
  // Some file systems do not report their size.
  const disk = await statfs(directory).catch(() => undefined);
  if (disk === undefined || disk.blocks === 0) return;
  const free = (process.getuid?.() === 0 ? disk.bfree : disk.bavail) * disk.bsize;
  if (bytes > free)
    throw new SealpinError('disk_full', `${name} needs up to ${sizeText(bytes)}, and ${sizeText(free)} are free there`);
}

/** Syncs a directory, so that the names in it survive a power loss. */
export async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  await syncFile(path, 'r').catch((error: unknown) => {
    // Some network file systems cannot sync a directory.
    if (!['EINVAL', 'ENOTSUP', 'EBADF'].includes(errnoOf(error) ?? '')) throw error;
  });
}

/** Waits until the content of a file is on the disk. @param flags 'r' where it is only read */
export async function syncFile(path: string, flags: 'r' | 'r+' = 'r+'): Promise<void> {
  const file = await open(path, flags);
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Syncs a directory and all below it. */
export async function syncTree(path: string): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true });
  for (const entry of entries) if (entry.isDirectory()) await syncTree(join(path, entry.name));
  await syncDirectory(path);
}
