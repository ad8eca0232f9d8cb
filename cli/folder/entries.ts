/** The entries of a folder, in an order that depends on their names alone. */
import { type BigIntStats, lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { SealpinError } from '../../shared/errors.ts';
import { errnoOf, readFailure } from '../errno.ts';
import { hasChanged } from '../io/input.ts';
import { isInside, shortName } from './archive-path.ts';

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

/**
 * A folder is read by calls that wait, since each of them is short, and on a thread it would cost
 * twenty times as much. After so many entries others may have waited for so many ms.
 */
const turnEntries = 64;
const turnMs = 10;

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
  const inspect = inspector(root, shown);
  const statsOf = (path: string): BigIntStats => inspect(path, (at) => lstatSync(at, { bigint: true }));
  const list = (path: string, stats: BigIntStats): Listing => {
    const names = inspect(path, (at) => readdirSync(at));
    // The default order of strings, backwards: the next name is the last one.
    return { path, stats, names: names.toSorted().toReversed() };
  };
  const follow = (path: string): string => {
    const target = inspect(path, (at) => readlinkSync(at));
    if (!target.includes(replacement)) return target;
    throw new SealpinError('file_unreadable', `the target of the link ${join(shown, path)} is not UTF-8`, {
      hint: 'remove the link',
    });
  };

  const rootStats = statsOf('');
  yield { type: 'directory', path: '', stats: rootStats };
  const isDue = turns();
  const open = [list('', rootStats)];
  for (let current = open.at(-1); current !== undefined; current = open.at(-1)) {
    if (isDue()) await turn();
    const name = current.names.pop();
    if (name === undefined) {
      const after = statsOf(current.path);
      if (hasChanged(current.stats, after) || after.ino !== current.stats.ino)
        throw new SealpinError('file_changed', `${join(shown, current.path)} changed while it was read`);
      open.pop();
      continue;
    }
    const path = current.path === '' ? name : `${current.path}/${name}`;
    if (name.includes(replacement))
      throw new SealpinError('file_unreadable', `the name of ${join(shown, path)} is not UTF-8`, { hint: 'rename it' });
    const stats = statsOf(path);
    if (isLeftOut(path, stats.isDirectory())) continue;
    if (stats.isFile()) yield { type: 'file', path, stats };
    else if (stats.isDirectory()) {
      yield { type: 'directory', path, stats };
      open.push(list(path, stats));
    } else if (stats.isSymbolicLink()) {
      const target = follow(path);
      yield { type: 'symlink', path, stats, target, isInside: isInside(target, path.split('/').length - 1) };
    } else
      throw new SealpinError(
        'file_unreadable',
        `${join(shown, path)} is ${specialFileKind(stats)}, which cannot be archived`,
        { hint: 'move it out of the folder, or remove it' },
      );
  }
}

/** Makes calls of the system for paths in a folder, and says of a failure where it was. */
function inspector(root: string, shown: string) {
  return <T>(path: string, call: (absolute: string) => T): T => {
    try {
      return call(`${root}/${path}`);
    } catch (error) {
      const name = join(shown, path);
      if (errnoOf(error) === 'ENOENT')
        throw new SealpinError('file_changed', `${name} was removed while the folder was read`, { cause: error });
      if (errnoOf(error) === 'ENAMETOOLONG')
        throw new SealpinError('file_unreadable', `the path ${shortName(name)} is too long`, {
          hint: 'leave out a folder above it with --exclude, or move it up',
          cause: error,
        });
      throw readFailure(name, error);
    }
  };
}

/** Tells, when it is asked once for each entry, whether others have waited for long. */
function turns(): () => boolean {
  let entries = 0;
  let last = performance.now();
  return () => {
    entries += 1;
    if (entries % turnEntries > 0 || performance.now() < last + turnMs) return false;
    last = performance.now();
    return true;
  };
}

function specialFileKind(stats: BigIntStats): string {
  if (stats.isSocket()) return 'a socket';
  return stats.isFIFO() ? 'a named pipe' : 'a device';
}
