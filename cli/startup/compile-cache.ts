/** V8's compiled code of the bundled command line, which Node keeps from one run to the next. */
import { enableCompileCache } from 'node:module';
import { ownCacheFolder } from '../io/cache-folder.ts';

/**
 * Lets Node keep compiled code in the user's cache directory, if there is one in which only this
 * user and root can put files: V8 runs such code without a check that it was made of the source.
 * Never for root, who may have the home directory of a user.
 */
export function keepCompiledCode(process: Pick<NodeJS.Process, 'env' | 'platform' | 'geteuid'>): void {
  const folder = process.geteuid?.() === 0 ? undefined : ownCacheFolder(process, 'compiled');
  if (folder !== undefined) enableCompileCache(folder);
}
