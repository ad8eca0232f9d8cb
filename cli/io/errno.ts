/** Failures of the operating system, in words. */
import { SealpinError } from '../../shared/errors.ts';

const reading: Readonly<Record<string, string>> = {
  EACCES: 'it may not be read by you',
  EPERM: 'it may not be read by you',
  EISDIR: 'it is a directory',
  ELOOP: 'its symbolic links go in a circle',
  ENAMETOOLONG: 'its name is too long',
  EIO: 'the disk reports an error',
};

const writing: Readonly<Record<string, string>> = {
  EACCES: 'you may not write there',
  EPERM: 'you may not write there',
  EROFS: 'the disk is read-only',
  ENOENT: 'its directory does not exist',
  ENOTDIR: 'what should be its directory is a file',
  EISDIR: 'it is a directory',
  ELOOP: 'its symbolic links go in a circle',
  ENAMETOOLONG: 'its name is too long',
  EFBIG: 'it would be larger than this disk or the limit of the process allows',
  EIO: 'the disk reports an error',
};

/** The `code` of a thrown system error, such as `ENOENT`. */
export function errnoOf(thrown: unknown): string | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
}

/** What a failed read means to people. */
export function readFailure(path: string, thrown: unknown): SealpinError {
  if (thrown instanceof SealpinError) return thrown;
  const errno = errnoOf(thrown) ?? 'unknown';
  if (errno === 'ENOENT' || errno === 'ENOTDIR')
    return new SealpinError('file_not_found', `there is no file ${path}`, { cause: thrown });
  return new SealpinError('file_unreadable', `${path} cannot be read: ${reading[errno] ?? errno}`, { cause: thrown });
}

/** What a failed write means to people. */
export function writeFailure(path: string, thrown: unknown): SealpinError {
  if (thrown instanceof SealpinError) return thrown;
  const errno = errnoOf(thrown) ?? 'unknown';
  if (errno === 'ENOSPC' || errno === 'EDQUOT') {
    return new SealpinError(
      'disk_full',
      `${path} cannot be written: ${errno === 'EDQUOT' ? 'your quota is used up' : 'the disk is full'}`,
      { cause: thrown },
    );
  }
  return new SealpinError('file_unwritable', `${path} cannot be written: ${writing[errno] ?? errno}`, {
    cause: thrown,
  });
}
