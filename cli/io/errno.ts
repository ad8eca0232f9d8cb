/** Failures of the operating system, as errors for people. */
import { SealpinError } from '../../shared/errors.ts';

const reading: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a directory',
  ELOOP: 'symbolic link loop',
  ENAMETOOLONG: 'its name is too long',
  EIO: 'the disk reported an error',
};

const writing: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the disk is read-only',
  ENOENT: 'its directory does not exist, or nothing can be created there',
  ENOTDIR: 'a part of its path is a file',
  EISDIR: 'it is a directory',
  ELOOP: 'symbolic link loop',
  ENAMETOOLONG: 'its name is too long',
  EFBIG: 'larger than the disk or the limit of the process allows',
  EIO: 'the disk reported an error',
};

/** The `code` of a thrown system error, such as `ENOENT`. */
export function errnoOf(thrown: unknown): string | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
}

/**
 * A failed read, as an error for people.
 *
 * @param path as it was given
 * @returns file_not_found, file_unreadable; a SealpinError unchanged
 */
export function readFailure(path: string, thrown: unknown): SealpinError {
  if (thrown instanceof SealpinError) return thrown;
  const errno = errnoOf(thrown) ?? 'unknown';
  if (errno === 'ENOENT' || errno === 'ENOTDIR')
    return new SealpinError('file_not_found', `there is no file ${path}`, { cause: thrown });
  return new SealpinError('file_unreadable', `${path} cannot be read: ${reading[errno] ?? errno}`, { cause: thrown });
}

/**
 * A failed write, as an error for people.
 *
 * @param path as it was given
 * @returns disk_full, file_unwritable; a SealpinError unchanged
 */
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
