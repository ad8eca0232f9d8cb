/** Room that is set aside on the disk: to forget something the catalog must write, also when the disk is full. */
import { randomBytes } from 'node:crypto';
import { statfsSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf } from '../../io/errno.ts';

/** Enough for the catalog's log of the removal of a file of 10 GiB. */
export const reserveBytes = 4 * 1_048_576;

/** Whether an error says that the disk is full, by the system or by SQLite (SQLITE_FULL, 13). */
export function isFull(thrown: unknown): boolean {
  const errno = errnoOf(thrown);
  return (
    errno === 'ENOSPC' ||
    errno === 'EDQUOT' ||
    (thrown instanceof Error && 'errcode' in thrown && thrown.errcode === 13)
  );
}

/** Bytes that are free for us on the disk of a path. */
export function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}

/** Below this a disk counts as full: rows of the service need more than one page at a time. */
const tightBytes = 1_048_576;

/** How often the disk is looked at. */
const lookMs = 500;

/**
 * Sets room aside for the rows of the service, which runs in another process and cannot ask for it: when the disk is full the room
 * is given up, so that files can still be deleted, and when there is space again it is taken back.
 * @param note gets a sentence when the room is given up
 */
export function keepRoom(path: string, note: (text: string) => void): { close(): void } {
  const reserve = openReserve(path);
  let isHeld = true;
  const timer = setInterval(() => {
    try {
      const free = freeBytes(dirname(path));
      if (isHeld && free < tightBytes) {
        truncateSync(path);
        isHeld = false;
        note('the disk is full: the room that was set aside is given up, so that files can be deleted');
      } else if (!isHeld && free > 4 * reserveBytes) {
        reserve.fill();
        isHeld = true;
      }
    } catch {
      // A disk that does not answer is looked at again.
    }
  }, lookMs);
  timer.unref();
  return { close: () => clearInterval(timer) };
}

/** Sets room aside in a file; what frees space runs through `freeing`, which gives the room up when there is no other. */
export function openReserve(path: string) {
  function fill(): void {
    try {
      // Random, because some file systems keep no room for zeros.
      if (statSync(path, { throwIfNoEntry: false })?.size !== reserveBytes)
        writeFileSync(path, randomBytes(reserveBytes), { mode: 0o600 });
    } catch (cause) {
      // On a disk that is full there is nothing to set aside; the next time that space was freed there may be.
      if (!isFull(cause)) throw cause;
    }
  }

  fill();
  return {
    fill,
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
