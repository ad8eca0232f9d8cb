/** Where the data of one user lives. */
import { mkdir, stat } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { SealpinError } from '../shared/errors.ts';

export type Paths = {
  readonly root: string;
  readonly config: string;
  readonly privateKey: string;
  readonly publicKey: string;
  readonly history: string;
};

/** Every file of ours in a data directory; `local/` in it belongs to the local service. */
export function pathsIn(dataDir: string): Paths {
  return {
    root: dataDir,
    config: join(dataDir, 'config.json'),
    privateKey: join(dataDir, 'private.key'),
    publicKey: join(dataDir, 'public.key'),
    history: join(dataDir, 'history'),
  };
}

/**
 * The data directory: the flag, else `SEALPIN_HOME`, else the platform's (XDG Base Directory Specification 0.8 on Unix; a
 * relative `XDG_DATA_HOME` is ignored, as it demands).
 *
 * @returns an absolute path, which need not exist
 */
export function dataDirectory(o: {
  flag?: string | undefined;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  home: string;
  platform: NodeJS.Platform;
}): string {
  const given = o.flag ?? o.env['SEALPIN_HOME'];
  if (given === '')
    throw new SealpinError('usage', `${o.flag === undefined ? 'SEALPIN_HOME' : '--data-dir'} is empty`, {
      hint: 'name a directory',
    });
  if (given !== undefined) return resolve(o.cwd, given);
  if (o.platform === 'win32') return join(o.env['LOCALAPPDATA'] ?? join(o.home, 'AppData', 'Local'), 'sealpin');
  if (o.platform === 'darwin') return join(o.home, 'Library', 'Application Support', 'sealpin');
  const xdg = o.env['XDG_DATA_HOME'];
  return join(xdg !== undefined && isAbsolute(xdg) ? xdg : join(o.home, '.local', 'share'), 'sealpin');
}

/**
 * Makes the data directory with mode 0700.
 *
 * @returns a warning when one that was there is open to other users, else undefined
 * @throws file_unwritable
 */
export async function makeDataDirectory(dataDir: string): Promise<string | undefined> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const { mode } = await stat(dataDir);
    if (process.platform === 'win32' || (mode & 0o077) === 0) return undefined;
    return `the data directory ${dataDir} is open to other users; close it with: chmod 700 ${dataDir}`;
  } catch (error) {
    throw new SealpinError(
      'file_unwritable',
      `the data directory ${dataDir} cannot be made (${(error as NodeJS.ErrnoException).code})`,
      {
        hint: 'choose another one with --data-dir',
        cause: error,
      },
    );
  }
}
