/** `service.log`: stderr in the background, rotated in place since it cannot change its file. */
import { copyFileSync, fstatSync, ftruncateSync, rmSync, statSync } from 'node:fs';

/** Bytes of the log and, at most, of the one before it (`service.log.1`). */
const maxLogBytes = 10 * 2 ** 20;

const stderr = 2;

/** Checks that the stderr of this process is the file at `path`. */
function isStderr(path: string): boolean {
  try {
    const [own, named] = [fstatSync(stderr), statSync(path)];
    return own.ino === named.ino && own.dev === named.dev;
  } catch {
    return false; // no such file
  }
}

/**
 * Moves the previous log aside, and keeps the log small from then on. Does nothing if stderr goes
 * elsewhere. The file must be open for appending. The caller holds the lock of the data directory.
 * @param path of the log
 * @returns a function to call before each line
 */
export function keepLog(path: string, maxBytes = maxLogBytes): () => void {
  if (!isStderr(path)) return () => undefined;
  const old = `${path}.1`;
  const rotate = (): boolean => {
    if (!succeeds(() => copyFileSync(path, old))) {
      succeeds(() => rmSync(old, { force: true }));
      return false;
    }
    return succeeds(() => ftruncateSync(stderr));
  };
  if (fstatSync(stderr).size > 0) rotate();
  return () => {
    // Without room for a copy, the lines that come are worth more than those that went.
    if (fstatSync(stderr).size >= maxBytes && !rotate()) succeeds(() => ftruncateSync(stderr));
  };
}

/** Does what the service goes on without, on a disk that is full or broken. */
function succeeds(work: () => void): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
