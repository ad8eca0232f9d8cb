/**
 * The files by which the local service knows what is stored: databases of its objects, KV, and what
 * lies beside them. The bytes of files, which never change, are not among them, and neither is
 * `secrets.json`.
 */
import { constants, copyFileSync, existsSync, readdirSync, statSync } from 'node:fs';
import { basename, join, relative } from 'node:path';

/** The ending of a database; beside it may be a write-ahead log, and SQLite's index of that. */
const databaseSuffix = '.sqlite';
const logSuffix = '-wal';
const indexSuffix = '-shm';

/** Folders below `local/`, with everything in them, and single files. */
const folders = ['state/do', 'state/kv'];
const singles = ['kubo.json', 'origin.json', 'version.json'];

/** Stamps of files by their path: a file with the same stamp has the same content. */
export type Stamps = Readonly<Record<string, string>>;

/**
 * A file of the state. `path` below `local/`; `copy`: the name of its copy, and the length of the
 * write-ahead log beside that; undefined where its stamp is known.
 */
export type StateFile = {
  readonly path: string;
  readonly stamp: string;
  readonly copy?: { readonly name: string; readonly logBytes: number } | undefined;
};

/**
 * All files of the state in one moment. `dir` has the copies, and `node.db`; `pausedMs`: how long
 * the runtime stood still.
 */
export type Snapshot = {
  readonly dir: string;
  readonly takenAt: string;
  readonly pausedMs: number;
  readonly files: readonly StateFile[];
};

/** The path of the index of the embedded node. */
export const indexPath = 'ipfs/node.db';

/** Tells a database from other files, by its path. */
export function isDatabase(path: string): boolean {
  return path.endsWith(databaseSuffix) || path === indexPath;
}

/** Tells a file that workerd had not finished, from its name. */
export function isUnfinished(path: string): boolean {
  return basename(path).startsWith('.');
}

/** The paths below `local/` of all files of the state. */
export function statePaths(local: string): string[] {
  const found = folders
    .map((folder) => join(local, folder))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => relative(local, join(entry.parentPath, entry.name))),
    );
  const own = found.filter((path) => !path.endsWith(logSuffix) && !path.endsWith(indexSuffix) && !isUnfinished(path));
  return [...own, ...singles.filter((path) => existsSync(join(local, path)))];
}

/**
 * Copies the files of the state as they lie there. Nothing may write to them meanwhile, and SQLite
 * is not asked: the copies are what a service leaves that is killed in this moment.
 * @param into an empty folder
 * @param known what need not be copied
 */
export function copyState(local: string, into: string, known: Stamps): StateFile[] {
  return statePaths(local).map((path, index) => {
    const source = join(local, path);
    const stamp = stampOf(source);
    if (known[path] === stamp) return { path, stamp };
    const name = String(index);
    return { path, stamp, copy: { name, logBytes: copyDatabase(source, join(into, name)) } };
  });
}

/**
 * Copies a file, and its write-ahead log if it has one.
 * @param to does not exist
 * @returns the length of the log
 */
export function copyDatabase(from: string, to: string): number {
  const mode = constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL;
  copyFileSync(from, to, mode);
  const logBytes = logBytesOf(from);
  if (logBytes > 0) copyFileSync(from + logSuffix, to + logSuffix, mode);
  return logBytes;
}

/** The names of a database's own files. */
export function databaseFiles(path: string): string[] {
  return [path, path + logSuffix, path + indexSuffix];
}

/** The length of the write-ahead log of a database. */
export function logBytesOf(path: string): number {
  return statSync(path + logSuffix, { throwIfNoEntry: false })?.size ?? 0;
}

/** The stamp of a file as it is, with its write-ahead log. */
export function stampOf(path: string): string {
  const parts = [path, path + logSuffix].map((each) => {
    const stats = statSync(each, { bigint: true, throwIfNoEntry: false });
    return stats === undefined ? '' : `${stats.dev}.${stats.ino}.${stats.size}.${stats.mtimeNs}`;
  });
  return parts.join(' ');
}

/** Time of the last write to the file of a stamp, in ms since 1970. */
export function writtenAt(stamp: string): number {
  const times = stamp.split(' ').map((part) => Number(part.split('.')[3] ?? 0) / 1e6);
  return Math.max(...times);
}
