/** Room that is set aside on the disk: to forget something the catalog must write, also when the disk is full. */
import { randomBytes } from 'node:crypto';
import { statSync, truncateSync, writeFileSync } from 'node:fs';
import { errnoOf } from '../../errno.ts';

/** Enough for the catalog's log of the removal of a file of 10 GiB. */
const reserveBytes = 4 * 1_048_576;

/** Whether an error says that the disk is full, by the system or by SQLite (SQLITE_FULL, 13). */
export function isFull(thrown: unknown): boolean {
  const errno = errnoOf(thrown);
  return (
    errno === 'ENOSPC' ||
    errno === 'EDQUOT' ||
    (thrown instanceof Error && 'errcode' in thrown && thrown.errcode === 13)
  );
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
