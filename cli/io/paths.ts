/** Locations of one user's data. */
import { mkdir, rmdir, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { errnoOf } from '../errno.ts';

/** The files in a data directory; its `local/` belongs to the local service. */
export function pathsIn(dataDir: string) {
  return {
    config: join(dataDir, 'config.json'),
    privateKey: join(dataDir, 'private.key'),
    publicKey: join(dataDir, 'public.key'),
    history: join(dataDir, 'history'),
    oneKeyNoted: join(dataDir, 'one-key-noted'),
    uploads: join(dataDir, 'uploads'),
    downloads: join(dataDir, 'downloads'),
  };
}

/**
 * The data directory: the flag, else `SEALPIN_HOME`, else the platform's (XDG Base Directory
 * Specification 0.8 on Unix; a relative `XDG_DATA_HOME` is ignored, as it demands). An empty
 * variable counts as unset.
 * @returns an absolute path, which need not exist
 * @throws usage where the system names no home directory
 */
export function dataDirectory(o: {
  flag?: string | undefined;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  home: string;
  platform: NodeJS.Platform;
}): string {
  const given = o.flag ?? (o.env['SEALPIN_HOME'] || undefined);
  if (given !== undefined) return resolve(o.cwd, given);
  const ofPlatform = o.platform === 'win32' ? o.env['LOCALAPPDATA'] : o.env['XDG_DATA_HOME'];
  const named = o.platform === 'darwin' ? undefined : ofPlatform;
  if (named !== undefined && isAbsolute(named)) return join(named, 'sealpin');
  // With an empty HOME, keys would go into the current directory.
  if (!isAbsolute(o.home))
    throw new SealpinError('usage', 'the system names no home directory', {
      hint: 'set HOME, or name a data directory with --data-dir or SEALPIN_HOME',
    });
  if (o.platform === 'win32') return join(o.home, 'AppData', 'Local', 'sealpin');
  return o.platform === 'darwin'
    ? join(o.home, 'Library', 'Application Support', 'sealpin')
    : join(o.home, '.local', 'share', 'sealpin');
}

/**
 * Creates a directory and its missing parents, with mode 0700, in at most two calls each. (Node's
 * own recursive `mkdir` never returns where a directory answers ENOENT for a child of an existing
 * parent, as /proc does.)
 * @param path absolute
 * @param make creates one directory; for tests
 * @returns those that were made, the outermost first; after a failure, none is left
 */
export async function makeDirectories(
  path: string,
  make: (path: string) => Promise<unknown> = (one) => mkdir(one, { mode: 0o700 }),
): Promise<readonly string[]> {
  const create = async (): Promise<readonly string[] | undefined> => {
    try {
      await make(path);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return undefined;
      if (errnoOf(error) !== 'EEXIST') throw error;
      // Another process may have been quicker.
      if (!(await stat(path)).isDirectory()) throw Object.assign(new Error(`${path} is a file`), { code: 'ENOTDIR' });
      return [];
    }
    return [path];
  };
  const made = await create();
  if (made !== undefined) return made;
  const above = dirname(path) === path ? [] : await makeDirectories(dirname(path), make);
  return removingOnFailure(above, async () => {
    const own = await create();
    if (own !== undefined) return [...above, ...own];
    throw Object.assign(new Error(`${path} cannot be created`), { code: 'ENOENT', syscall: 'mkdir', path });
  });
}

/**
 * Runs what writes into a directory, which is made where it is missing. After a failure nothing of
 * what was made stays in which nothing is.
 * @param path absolute
 * @param fail throws the error for a directory that cannot be made
 */
export async function intoDirectory<T>(
  path: string,
  fail: (thrown: unknown) => never,
  use: () => Promise<T>,
): Promise<T> {
  return removingOnFailure(await makeDirectories(path).catch(fail), use);
}

async function removingOnFailure<T>(made: readonly string[], use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    for (const path of made.toReversed()) await rmdir(path).catch(() => undefined);
    throw error;
  }
}

/**
 * Creates the data directory (0700).
 * @returns a warning when others can open it
 * @throws file_unwritable
 */
export async function makeDataDirectory(dataDir: string): Promise<string | undefined> {
  await makeDirectories(dataDir).catch(failDataDirectory(dataDir));
  const { mode } = await stat(dataDir).catch(failDataDirectory(dataDir));
  if (process.platform === 'win32' || (mode & 0o077) === 0) return undefined;
  return `the data directory ${dataDir} is accessible to other users; fix it with: chmod 700 ${dataDir}`;
}

/** Makes a handler for `catch` of what makes the data directory. */
export function failDataDirectory(dataDir: string): (thrown: unknown) => never {
  return (cause) => {
    const detail = `the data directory ${dataDir} cannot be created (${errnoOf(cause) ?? String(cause)})`;
    throw new SealpinError('file_unwritable', detail, { hint: 'choose another one with --data-dir', cause });
  };
}
