/** Space reserved on the disk: to delete a file, the catalog must write, also on a full one. */
import { randomBytes } from 'node:crypto';
import { statfsSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { SealpinError } from '../../../shared/errors.ts';
import { errnoOf, sqliteCodeOf, sqliteCodes } from '../../errno.ts';

/** Enough for the catalog's log of the removal of a file of 10 GiB. */
const reserveBytes = 4 * 1_048_576;

/** Recognizes an error of a full disk, by the system or by SQLite. */
export function isFull(thrown: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(errnoOf(thrown) ?? '') || sqliteCodeOf(thrown) === sqliteCodes.full;
}

/** Bytes that this process may still write to the disk of a path. */
export function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}

/** The error of a service that cannot start on its disk. */
export function noRoomToStart(dataDir: string, cause?: unknown): SealpinError {
  return new SealpinError('disk_full', `the disk of ${dataDir} is full: the service needs some room to start`, {
    cause,
  });
}

/** A disk with less counts as full: the service writes more than one page at a time. */
const tightBytes = 1_048_576;

/** Space for deletions on a full disk, once the reserve is released; new files do not get it. */
export const lastBytes = tightBytes + reserveBytes;

/** Interval of the checks of the disk. */
const reserveCheckMs = 500;

/**
 * Reserves space for the rows of the service, which runs in another process and cannot ask for it.
 * When the disk is full the space is released, so that files can still be deleted, and when there
 * is enough again it is reserved again.
 * @param note called with a sentence when the space is released
 */
export function reserveDiskSpace(path: string, note: (text: string) => void): { close(): void } {
  const reserve = openReserve(path);
  let isHeld = true;
  const timer = setInterval(() => {
    try {
      const free = freeBytes(dirname(path));
      if (isHeld && free < tightBytes) {
        truncateSync(path);
        isHeld = false;
        note('the disk is full: the reserved space is released, so that files can be deleted');
      } else if (!isHeld && free > 4 * reserveBytes) {
        reserve.fill();
        isHeld = true;
      }
    } catch {
      // The next check tries again.
    }
  }, reserveCheckMs);
  timer.unref();
  return { close: () => clearInterval(timer) };
}

/** Opens the reserve, a file of random bytes at `path`, and fills it. */
export function openReserve(path: string) {
  function fill(): void {
    try {
      // Random, because some file systems keep no room for zeros.
      if (statSync(path, { throwIfNoEntry: false })?.size !== reserveBytes)
        writeFileSync(path, randomBytes(reserveBytes), { mode: 0o600 });
    } catch (cause) {
      // A full disk has nothing to reserve; there may be space after the next deletion.
      if (!isFull(cause)) throw cause;
    }
  }

  fill();
  return {
    /** Reserves the space again, if the disk has it. */
    fill,
    /** Runs work that frees space; on a full disk the reserve is released for it. */
    freeing<T>(work: () => T): T {
      try {
        return work();
      } catch (cause) {
        if (!isFull(cause)) throw cause;
        truncateSync(path);
        return work();
      }
    },
  };
}
