/** V8's compiled code of the bundled command line, which Node keeps from one run to the next. */
import { mkdirSync, realpathSync, statSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';

/**
 * Lets Node keep compiled code in the user's cache directory, if there is one in which only this
 * user and root can put files: V8 runs such code without a check that it was made of the source.
 * Never for root, who may have the home directory of a user.
 */
export function keepCompiledCode({ env, platform, geteuid }: NodeJS.Process): void {
  const user = geteuid?.() ?? 0; // Windows has none
  if (user === 0) return;
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
    if (!isOutOfReach(realpathSync.native(caches))) return;
    mkdirSync(join(caches, 'sealpin', 'compiled'), { recursive: true, mode: 0o700 });
    const folder = realpathSync.native(join(caches, 'sealpin', 'compiled'));
    const { uid, mode } = statSync(folder);
    if (uid === user && (mode & 0o077) === 0 && isOutOfReach(dirname(folder))) enableCompileCache(folder);
  } catch {} // a command needs no compiled code
}
