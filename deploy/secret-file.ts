/** Files for secrets, which only their owner may read. */
import { open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf, writeFailure } from '../cli/errno.ts';
import { syncDirectory } from '../cli/io/unfinished.ts';
import { SealpinError } from '../shared/errors.ts';

/**
 * Creates a file for a secret, and reserves room for it on the disk: spaces, which are overwritten
 * in place. A secret that somebody else makes and shows once is asked for after that.
 * @param flag the flag that names another file @param bytes of the longest secret
 * @throws usage where it exists, or cannot be made; disk_full, file_unwritable
 */
export async function newSecretFile(path: string, flag: string, bytes: number) {
  const hint = `name another file with ${flag}`;
  const file = await open(path, 'wx', 0o600).catch((cause: unknown) => {
    const why = errnoOf(cause) === 'EEXIST' ? 'exists, and stays as it is' : `cannot be made (${errnoOf(cause)})`;
    throw new SealpinError('usage', `${path} ${why}`, { hint, cause });
  });
  const discard = async (): Promise<void> => {
    await file.close();
    await rm(path);
  };
  const attempt = async (change: () => Promise<void>): Promise<void> => {
    try {
      await change();
      await file.sync();
    } catch (cause) {
      await discard();
      const { code, message } = writeFailure(path, cause);
      throw new SealpinError(code, message, { hint, cause });
    }
  };
  const write = async (line: Buffer): Promise<void> => {
    for (let done = 0; done < line.length;)
      done += (await file.write(line, done, line.length - done, done)).bytesWritten;
  };
  await attempt(async () => {
    await write(Buffer.alloc(bytes + 1, ' '));
    await syncDirectory(dirname(path));
  });
  return {
    /**
     * Writes the secret and closes the file; where that fails, the file is removed.
     * @param secret ASCII, at most as long as the room
     * @throws disk_full, file_unwritable
     */
    async fill(secret: string): Promise<void> {
      const line = Buffer.from(`${secret}\n`);
      await attempt(async () => {
        await write(line);
        await file.truncate(line.length);
      });
      await file.close();
    },
    /** Removes the file. */
    discard,
  };
}
