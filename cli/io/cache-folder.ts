/** Folders for code in the user's cache directory. */
import { mkdirSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';

/**
 * A folder of the user's cache directory in which only this user and root can put files, so that
 * code from there can be run; undefined where there is none.
 * @param name below `sealpin`; created where it is missing
 * @param o.always creates the cache directory, too
 */
export function ownCacheFolder(
  { env, platform, geteuid }: Pick<NodeJS.Process, 'env' | 'platform' | 'geteuid'>,
  name: string,
  { always = false }: { always?: boolean } = {},
): string | undefined {
  const user = geteuid?.();
  if (user === undefined) return undefined; // Windows has none
  // XDG Base Directory Specification 0.8, which demands that a relative path is ignored.
  const xdg = env['XDG_CACHE_HOME'] ?? '';
  const caches = isAbsolute(xdg) ? xdg : join(homedir(), platform === 'darwin' ? 'Library/Caches' : '.cache');
  const isOutOfReach = (path: string): boolean => {
    const { uid, mode } = statSync(path);
    // In a sticky folder, only its owner can move an entry
    const isShared = (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
    return (uid === user || uid === 0) && !isShared && (path === dirname(path) || isOutOfReach(dirname(path)));
  };
  try {
    if (always) mkdirSync(caches, { recursive: true, mode: 0o700 });
    if (!isOutOfReach(realpathSync.native(caches))) return undefined;
    mkdirSync(join(caches, 'sealpin', name), { recursive: true, mode: 0o700 });
    const folder = realpathSync.native(join(caches, 'sealpin', name));
    const { uid, mode } = statSync(folder);
    return uid === user && (mode & 0o077) === 0 && isOutOfReach(dirname(folder)) ? folder : undefined;
  } catch {
    return undefined;
  }
}
