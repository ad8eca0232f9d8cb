/** Files for secrets, which only their owner may read. */
import { open, type FileHandle } from 'node:fs/promises';
import { errnoOf } from '../cli/io/errno.ts';
import { SealpinError } from '../shared/errors.ts';

/**
 * Creates a file for a secret.
 * @param flag the flag that names another file
 * @throws usage where it exists, or cannot be made
 */
export async function newSecretFile(path: string, flag: string): Promise<FileHandle> {
  try {
    return await open(path, 'wx', 0o600);
  } catch (cause) {
    const why = errnoOf(cause) === 'EEXIST' ? 'exists, and stays as it is' : `cannot be made (${errnoOf(cause)})`;
    throw new SealpinError('usage', `${path} ${why}`, { hint: `name another file with ${flag}`, cause });
  }
}
