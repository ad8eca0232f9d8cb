/** Failures of the operating system, as errors for people. */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { SealpinError } from '../shared/errors.ts';

const reading: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a directory',
  ELOOP: 'symbolic link loop',
  ENAMETOOLONG: 'its name is too long',
  EIO: 'the disk reported an error',
};

const writing: Readonly<Record<string, string>> = {
  ...reading,
  EROFS: 'the disk is read-only',
  ENOTDIR: 'a part of its path is a file',
  EFBIG: 'larger than the disk or the limit of the process allows',
  ENOSPC: 'the disk is full',
  EDQUOT: 'your quota is used up',
};

/** Some file systems, such as /proc, answer ENOENT where a directory takes no new files. */
function missing(thrown: unknown): string {
  const { syscall = '', path = '' } = thrown as NodeJS.ErrnoException;
  const isMaking = syscall === 'open' || syscall === 'mkdir';
  return isMaking && existsSync(dirname(path))
    ? 'nothing can be made in its directory'
    : 'its directory does not exist';
}

/** The `code` of a thrown system error, such as `ENOENT`. */
export function errnoOf(thrown: unknown): string | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
}

/** Awaits some work of the system; where it finds no such file, `other` stands for its result. */
export async function ifMissing<T, U>(work: Promise<T>, other: U): Promise<T | U> {
  return work.catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return other;
    throw error;
  });
}

/** The operations of the system that only look. */
const looks = ['open', 'read', 'access', 'stat', 'lstat', 'scandir', 'readlink', 'realpath'];

/** Primary result codes of SQLite (https://sqlite.org/rescode.html). */
export const sqliteCodes = { busy: 5, readOnly: 8, ioError: 10, corrupt: 11, full: 13, cannotOpen: 14, noDatabase: 26 };

const databaseFaults: Readonly<Record<number, string>> = {
  [sqliteCodes.readOnly]: 'it is read-only',
  [sqliteCodes.ioError]: 'the disk reported an error',
  [sqliteCodes.full]: 'the disk is full',
  // A write-ahead log is not even read where its index cannot be made.
  [sqliteCodes.cannotOpen]: 'it is missing, or on a read-only disk',
};

/** The primary result code of an error of SQLite; undefined for any other. */
export function sqliteCodeOf(thrown: unknown): number | undefined {
  return thrown instanceof Error && 'errcode' in thrown ? Number(thrown.errcode) & 0xff : undefined;
}

/** Recognizes an error by which SQLite reports a damaged file. */
export function isDamage(thrown: unknown): boolean {
  const code = sqliteCodeOf(thrown);
  return code === sqliteCodes.corrupt || code === sqliteCodes.noDatabase;
}

/** A failure of the system that nobody expected, for people; undefined for anything else. */
export function systemFailure(thrown: unknown): SealpinError | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const cause = { cause: thrown };
  const databaseFault = databaseFaults[sqliteCodeOf(thrown) ?? 0];
  if (databaseFault !== undefined) {
    const code = sqliteCodeOf(thrown) === sqliteCodes.full ? 'disk_full' : 'file_unwritable';
    return new SealpinError(code, `a database cannot be used: ${databaseFault}`, cause);
  }
  const errno = errnoOf(thrown) ?? '';
  if (!('syscall' in thrown) || !('path' in thrown) || typeof thrown.path !== 'string') return undefined;
  // What Node says of a folder below one that is on a read-only disk.
  if (errno === 'ENOENT' && thrown.syscall === 'mkdir')
    return new SealpinError(
      'file_unwritable',
      `${thrown.path} cannot be made: the disk is read-only, or the folder above it is gone`,
      cause,
    );
  const isLook = looks.includes(String(thrown.syscall));
  if (isLook && Object.hasOwn(reading, errno)) return readFailure(thrown.path, thrown);
  const isWrite = ['EROFS', 'ENOSPC', 'EDQUOT'].includes(errno) || (!isLook && Object.hasOwn(writing, errno));
  return isWrite ? writeFailure(thrown.path, thrown) : undefined;
}

/** The error for a file of the local service whose content cannot be used. */
export function damagedFile(path: string, cause?: unknown): SealpinError {
  return new SealpinError('config_invalid', `${path} is damaged`, {
    hint: 'restore a backup of it; nothing was changed',
    cause,
  });
}

/** A failed read of a path: file_not_found, file_unreadable. A SealpinError stays as it is. */
export function readFailure(path: string, thrown: unknown): SealpinError {
  if (thrown instanceof SealpinError) return thrown;
  const errno = errnoOf(thrown) ?? 'unknown';
  if (errno === 'ENOENT' || errno === 'ENOTDIR')
    return new SealpinError('file_not_found', `there is no file ${path}`, { cause: thrown });
  return new SealpinError('file_unreadable', `${path} cannot be read: ${reading[errno] ?? errno}`, { cause: thrown });
}

/** Makes a handler for `catch` that throws the `readFailure` of a path. */
export function failRead(path: string): (thrown: unknown) => never {
  return (thrown) => {
    throw readFailure(path, thrown);
  };
}

/** Makes a handler for `catch` that throws the `writeFailure` of a path. */
export function failWrite(path: string): (thrown: unknown) => never {
  return (thrown) => {
    throw writeFailure(path, thrown);
  };
}

/** A failed write to a path: disk_full, file_unwritable. A SealpinError stays as it is. */
export function writeFailure(path: string, thrown: unknown): SealpinError {
  if (thrown instanceof SealpinError) return thrown;
  const errno = errnoOf(thrown) ?? 'unknown';
  const sqliteCode = sqliteCodeOf(thrown) ?? 0;
  const why = databaseFaults[sqliteCode] ?? (errno === 'ENOENT' ? missing(thrown) : (writing[errno] ?? errno));
  const isFull = errno === 'ENOSPC' || errno === 'EDQUOT' || sqliteCode === sqliteCodes.full;
  const code = isFull ? 'disk_full' : 'file_unwritable';
  return new SealpinError(code, `${path} cannot be written: ${why}`, { cause: thrown });
}
