/** The entries of a folder, in an order that depends on their names alone. */
import { lstat, readdir, readlink } from 'node:fs/promises';
import type { BigIntStats } from 'node:fs';
import { join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { errnoOf, readFailure } from '../errno.ts';
import { isInside } from './archive-path.ts';

type FoundEntry = {
  /** Relative to the folder, with `/`; empty for the folder itself. */
  readonly path: string;
  readonly stats: BigIntStats;
};
export type FolderEntry = FoundEntry &
  (
    | { readonly type: 'file' | 'directory' }
    | {
        readonly type: 'symlink';
        readonly target: string;
        /** Confirms that the target stays in the folder. */
        readonly isInside: boolean;
      }
  );

type Listing = { readonly path: string; readonly stats: BigIntStats; readonly names: string[] };

/** Replacement character that Node's decoder puts where bytes are not UTF-8. */
const replacement = '\uFFFD';

/**
 * Walks a folder: a directory comes before what is in it, names in the order of their UTF-16 code
 * units. Symbolic links are not followed. In memory are the names of the directories on the way to
 * the current entry.
 * @param root absolute, without symbolic links
 * @param shown the folder as the user named it, for messages
 * @param isLeftOut names what is not wanted, with all below it
 * @throws file_unreadable also for sockets, devices, FIFOs, and names and targets that are not
 * UTF-8; file_changed when a directory changes while it is read, or an entry is gone
 */
export async function* entriesOf(
  root: string,
  shown: string,
  isLeftOut: (path: string, isDirectory: boolean) => boolean = () => false,
): AsyncGenerator<FolderEntry> {
  const inspect = async <T>(path: string, call: (absolute: string) => Promise<T>): Promise<T> => {
    const name = join(shown, path);
    try {
      return await call(join(root, path));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT')
        throw new SealpinError('file_changed', `${name} was removed while the folder was read`, { cause: error });
      throw readFailure(name, error);
    }
  };
  const statsOf = (path: string): Promise<BigIntStats> => inspect(path, (at) => lstat(at, { bigint: true }));
  const list = async (path: string, stats: BigIntStats): Promise<Listing> => {
    const names = await inspect(path, (at) => readdir(at));
    // The default order of strings, backwards: the next name is the last one.
    return { path, stats, names: names.toSorted().toReversed() };
  };

  const rootStats = await statsOf('');
  yield { type: 'directory', path: '', stats: rootStats };
  const open = [await list('', rootStats)];
  for (let current = open.at(-1); current !== undefined; current = open.at(-1)) {
    const name = current.names.pop();
    if (name === undefined) {
      const after = await statsOf(current.path);
      if (after.mtimeNs !== current.stats.mtimeNs || after.ino !== current.stats.ino)
        throw new SealpinError('file_changed', `${join(shown, current.path)} changed while it was read`);
      open.pop();
      continue;
    }
    const path = current.path === '' ? name : `${current.path}/${name}`;
    if (name.includes(replacement))
      throw new SealpinError('file_unreadable', `the name of ${join(shown, path)} is not UTF-8`, { hint: 'rename it' });
    const stats = await statsOf(path);
    if (isLeftOut(path, stats.isDirectory())) continue;
    if (stats.isFile()) yield { type: 'file', path, stats };
    else if (stats.isDirectory()) {
      yield { type: 'directory', path, stats };
      open.push(await list(path, stats));
    } else if (stats.isSymbolicLink()) {
      const target = await inspect(path, (at) => readlink(at));
      if (target.includes(replacement))
        throw new SealpinError('file_unreadable', `the target of the link ${join(shown, path)} is not UTF-8`, {
          hint: 'remove the link',
        });
      yield { type: 'symlink', path, stats, target, isInside: isInside(target, path.split('/').length - 1) };
    } else
      throw new SealpinError('file_unreadable', `${join(shown, path)} is ${kindOf(stats)}, which cannot be archived`, {
        hint: 'move it out of the folder, or remove it',
      });
  }
}

function kindOf(stats: BigIntStats): string {
  if (stats.isSocket()) return 'a socket';
  return stats.isFIFO() ? 'a named pipe' : 'a device';
}
