/**
 * Extracting a tar archive that anyone may have written. It goes into a temporary directory of our
 * own, where nothing that the archive made is ever followed or replaced, and gets its name when all
 * of it is there. No link in it leads out of it while something is still written: such links come
 * last.
 */
import * as fs from 'node:fs';
import {
  chmod,
  link,
  lstat,
  mkdir,
  readdir,
  readlink,
  rename,
  rmdir,
  stat,
  symlink,
  unlink,
  utimes,
} from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { ParsedTarEntry, TarHeader } from 'modern-tar';
import { SealpinError } from '../../shared/errors.ts';
import type { Environment } from '../context.ts';
import { errnoOf, ifMissing, writeFailure } from '../errno.ts';
import { removeTree } from '../io/remove-tree.ts';
import { checkFreeSpace, removeLeftovers, syncDirectory, temporaryPath } from '../io/unfinished.ts';
import { checkTarget, isInside, namesOf, shortName, UnsafePath, leavingWarning } from './archive-path.ts';
import { entriesIn, wrongKind } from './part.ts';

/** Permissions that an archive may set, below the umask: no set-user-ID, set-group-ID, sticky. */
const permissions = 0o777;
/** The user can always get into what was extracted, and remove it. */
const ownDirectory = 0o700;
/** Files that are synced and closed while the next ones are written. */
const maxClosing = 16;
/** A larger file is written on a thread. */
const unthreadedWriteBytes = 64 * 1024;
/**
 * Times that every file system of Linux has, from 1901, and the end of the year 9999, in
 * milliseconds since 1970.
 */
const earliestMs = -(2 ** 31) * 1000;
const latestMs = 253_402_300_799_000;

const { closeSync, constants, futimesSync, openSync, writeSync } = fs;
const datasync = promisify(fs.fdatasync);
const write = promisify(fs.write);

/** A directory that entries are written into; its time is set again when that has ended. */
type Directory = { readonly name: string; readonly path: string; mtime: Date };

/** A link that may lead out. Until the end, a link to itself has its place, which leads nowhere. */
type Leaving = { readonly name: string; readonly path: string; readonly target: string };

/**
 * Checks that a directory can be created. An empty one may exist, where it can be replaced.
 * @throws file_exists, file_unwritable
 */
export async function openExtraction(path: string, environment: Pick<Environment, 'cwd'>): Promise<Extraction> {
  const target = resolve(environment.cwd, path);
  await refuseTarget(path, target, environment.cwd);
  return new Extraction(path, target);
}

async function refuseTarget(path: string, target: string, cwd: string): Promise<void> {
  const refuse = (why: string, hint = newName): never => {
    throw new SealpinError('file_exists', `${path} ${why}`, { hint });
  };
  try {
    const found = await ifMissing(lstat(target), undefined);
    if (found === undefined) return;
    if (found.isSymbolicLink()) refuse('is a symbolic link', 'name what it leads to, or a new directory');
    if (!found.isDirectory()) refuse('exists');
    if ((await readdir(target)).length > 0) refuse('exists and is not empty');
    // What is extracted takes the place of an empty directory.
    const [parent, current] = [await stat(dirname(target)), await stat(cwd)];
    if (found.dev === current.dev && found.ino === current.ino)
      refuse('is the current directory, which is not replaced', inIt);
    if (found.dev !== parent.dev) refuse('is where a disk is mounted, which cannot be replaced', inIt);
  } catch (error) {
    throw writeFailure(path, error);
  }
}

const inIt = 'name a new directory in it';
const newName = 'choose a new name: an archive is not extracted over what is there';

export class Extraction {
  /** The path as given, for messages. */
  readonly name: string;
  readonly #target: string;
  readonly #temporary: string;
  readonly #open: Directory[] = [];
  /** By their path. */
  readonly #leaving = new Map<string, Leaving>();
  #root: Directory;
  readonly #closing = new Set<Promise<void>>();
  #failure: { readonly cause: unknown } | undefined;
  /** The directories that were made, where the disk takes several names for one. */
  #made: Set<string> | undefined;
  /** Mode of a new directory for which all permissions are asked: some are masked. */
  #newMode = 0;

  constructor(name: string, target: string) {
    this.name = name;
    this.#target = target;
    this.#temporary = temporaryPath(dirname(target));
    this.#root = { name: '', path: this.#temporary, mtime: new Date() };
  }

  /** @throws disk_full when the disk has no room for so many bytes */
  async room(bytes: number): Promise<void> {
    await checkFreeSpace(dirname(this.#target), this.name, bytes);
  }

  /**
   * Writes all that is in an archive, and reads the stream to its end.
   * @param signal stops it
   * @param part only this folder of it
   * @returns counts, and a warning about links that may lead out of the directory
   * @throws archive_invalid for what is not a tar archive, or would write outside of the directory;
   * usage for a part that is no folder; file_unwritable, disk_full and the errors of the stream
   */
  async unpack(archive: ReadableStream<Uint8Array>, signal: AbortSignal, part?: readonly string[]) {
    let files = 0;
    let bytes = 0;
    try {
      await removeLeftovers(dirname(this.#target));
      await mkdir(this.#temporary, { mode: ownDirectory });
      const { folds, mode } = await tryDisk(this.#temporary);
      if (folds) this.#made = new Set();
      this.#newMode = mode;
    } catch (error) {
      throw writeFailure(this.name, error);
    }
    try {
      for await (const entry of entriesIn(archive, part)) {
        signal.throwIfAborted();
        const { name, type } = entry.header;
        if (part !== undefined && name === '' && type !== 'directory') throw wrongKind(part, entry.header);
        await this.#entry(entry);
        if (entry.header.type !== 'directory') files += 1;
        bytes += entry.header.size;
      }
      while (this.#open.length > 0) await this.#leave();
      await this.#closed(0);
      for (const leaving of this.#leaving.values()) await completeLink(leaving);
    } catch (error) {
      throw archiveFailure(error, signal);
    }
    const [first] = this.#leaving.values();
    return { files, bytes, warning: leavingWarning(this.name, this.#leaving.size, first) };
  }

  /** Gives the directory its name. @returns its absolute path */
  async commit(): Promise<string> {
    try {
      await utimes(this.#temporary, this.#root.mtime, this.#root.mtime);
      // An empty directory only is replaced: the system refuses any other.
      await rename(this.#temporary, this.#target);
      await syncDirectory(dirname(this.#target));
      return this.#target;
    } catch (error) {
      if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(errnoOf(error) ?? ''))
        throw new SealpinError('file_exists', `${this.name} was created while this was running`, {
          hint: newName,
          cause: error,
        });
      throw writeFailure(this.name, error);
    }
  }

  /** Removes what was written. */
  async abort(): Promise<void> {
    await Promise.all(this.#closing);
    await removeTree(this.#temporary);
  }

  async #entry({ header, body }: ParsedTarEntry): Promise<void> {
    try {
      const names = namesOf(header.name);
      const last = names.pop();
      if (last === undefined) {
        if (header.type !== 'directory') throw new UnsafePath('it has no name');
        this.#root.mtime = entryTime(header);
        return;
      }
      await this.#enter(names);
      const path = join(this.#here.path, last);
      const { type, linkname = '' } = header;
      if (type === 'directory') await this.#directory(last, path, header);
      else if (type === 'file') await this.#file(path, header, body);
      else if (type === 'link') await this.#link(path, header.name, linkname);
      else if (type !== 'symlink') throw new UnsafePath('it is neither a file, a directory nor a link');
      else await this.#symlink(path, header.name, linkname);
    } catch (error) {
      throw entryFailure(header.name, error);
    }
  }

  get #here(): Directory {
    return this.#open.at(-1) ?? this.#root;
  }

  /**
   * Makes a directory the current one, and creates what is missing of it. Each part of its path is
   * a real directory.
   */
  async #enter(names: readonly string[]): Promise<void> {
    const shared = names.findIndex((name, index) => this.#open[index]?.name !== name);
    const kept = shared < 0 ? names.length : shared;
    while (this.#open.length > kept) await this.#leave();
    for (const name of names.slice(kept)) {
      const path = join(this.#here.path, name);
      const mtime = (await this.#make(path, ownDirectory)) ? new Date() : (await directoryStats(path)).mtime;
      this.#open.push({ name, path, mtime });
    }
  }

  /** @returns whether the directory is new; else something of its name is there */
  async #make(path: string, mode: number): Promise<boolean> {
    try {
      await mkdir(path, { mode });
      this.#made?.add(path);
      return true;
    } catch (error) {
      // An archive may name a directory twice, or after what is in it, but always alike.
      if (errnoOf(error) !== 'EEXIST' || this.#made?.has(path) === false) throw error;
      return false;
    }
  }

  /** Sets the time of the current directory, which changed with each entry in it. */
  async #leave(): Promise<void> {
    const left = this.#open.pop();
    if (left !== undefined) await utimes(left.path, left.mtime, left.mtime);
  }

  async #directory(name: string, path: string, header: TarHeader): Promise<void> {
    const mode = permissionsOf(header) | ownDirectory;
    if (!(await this.#make(path, mode))) {
      // The first of what is in it made it, with other permissions.
      await directoryStats(path);
      await chmod(path, this.#newMode & ~(permissions ^ mode));
    }
    this.#open.push({ name, path, mtime: entryTime(header) });
  }

  async #file(path: string, header: TarHeader, body: ReadableStream<Uint8Array>): Promise<void> {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);
    const file = openSync(path, flags, permissionsOf(header));
    try {
      for await (const chunk of body) await writeWhole(file, chunk, header.size);
      const mtime = entryTime(header);
      futimesSync(file, mtime, mtime);
    } catch (error) {
      closeSync(file);
      throw error;
    }
    // An empty file has nothing but its name and times, which the directory's sync takes along.
    if (header.size === 0) return closeSync(file);
    const closing = datasync(file)
      .finally(() => closeSync(file))
      .catch((cause: unknown) => {
        this.#failure ??= { cause: writeFailure(header.name, cause) };
      });
    this.#closing.add(closing);
    void closing.then(() => this.#closing.delete(closing));
    await this.#closed(maxClosing);
  }

  async #symlink(path: string, name: string, target: string): Promise<void> {
    checkTarget(target);
    const stays = isInside(target, this.#open.length);
    await symlink(stays ? target : basename(path), path);
    if (!stays) this.#leaving.set(path, { name, path, target });
  }

  /** Makes another name of a file before it. A symbolic link is made again, which is the same. */
  async #link(path: string, name: string, linkname: string): Promise<void> {
    const { path: existing, isFile } = await this.#existing(linkname);
    if (isFile) await link(existing, path);
    else await this.#symlink(path, name, this.#leaving.get(existing)?.target ?? (await readlink(existing)));
  }

  /** Waits until no more than so many files are being closed. */
  async #closed(count: number): Promise<void> {
    while (this.#closing.size > count) await Promise.race(this.#closing);
    if (this.#failure !== undefined) throw this.#failure.cause;
  }

  /** A file or symbolic link that was extracted before, to which no symbolic link leads. */
  async #existing(target: string): Promise<{ readonly path: string; readonly isFile: boolean }> {
    const names = namesOf(target);
    let path = this.#temporary;
    for (const name of names.slice(0, -1)) {
      path = join(path, name);
      // What is missing has nothing in it.
      await ifMissing(directoryStats(path), undefined);
    }
    path = join(path, names.at(-1) ?? '');
    const stats = await lstat(path).catch(() => undefined);
    if (stats?.isFile() !== true && stats?.isSymbolicLink() !== true)
      throw new UnsafePath(`it is a link to ${shortName(target)}, which is no file before it`);
    return { path, isFile: stats.isFile() };
  }
}

/** Puts a link that leads out into its place; its directory keeps its time. */
async function completeLink({ name, path, target }: Leaving): Promise<void> {
  try {
    const directory = dirname(path);
    const { mtime } = await directoryStats(directory);
    await unlink(path);
    await symlink(target, path);
    await utimes(directory, mtime, mtime);
  } catch (error) {
    throw entryFailure(name, error);
  }
}

/**
 * Tries a directory of our own. `folds`: whether its disk takes a name in other letters, or in
 * another Unicode form, for the same; `mode`: of a directory that may have all permissions.
 */
async function tryDisk(directory: string): Promise<{ readonly folds: boolean; readonly mode: number }> {
  const path = join(directory, 'caf\u00E9');
  await mkdir(path, { mode: permissions });
  const { mode } = await lstat(path);
  const others = ['CAF\u00C9', 'cafe\u0301'].map((name) => ifMissing(lstat(join(directory, name)), undefined));
  const found = await Promise.all(others);
  await rmdir(path);
  return { folds: found.some((stats) => stats !== undefined), mode };
}

async function directoryStats(path: string): Promise<{ readonly mtime: Date }> {
  const stats = await lstat(path);
  if (!stats.isDirectory()) throw new UnsafePath('its path goes through a link or a file');
  return stats;
}

/** Writes a chunk of a file; a thread for each small file would cost more than to write it. */
async function writeWhole(file: number, chunk: Uint8Array, fileBytes: number): Promise<void> {
  for (let done = 0; done < chunk.length;)
    done +=
      fileBytes > unthreadedWriteBytes
        ? (await write(file, chunk, done, chunk.length - done, null)).bytesWritten
        : writeSync(file, chunk, done);
}

function permissionsOf({ mode = 0 }: TarHeader): number {
  return mode & permissions;
}

/** Time of an entry, as far as a file system can have it. */
export function entryTime({ mtime }: Pick<TarHeader, 'mtime'>): Date {
  const time = mtime?.getTime() ?? Number.NaN;
  return new Date(Number.isNaN(time) ? 0 : Math.min(Math.max(time, earliestMs), latestMs));
}

/** Explains why an entry cannot be extracted, with its name. */
function entryFailure(name: string, error: unknown): unknown {
  if (error instanceof SealpinError) return error;
  const shown = shortName(name);
  if (error instanceof UnsafePath) return unsafe(shown, error.message, error);
  const errno = errnoOf(error);
  if (errno === undefined) return error;
  if (errno === 'EEXIST')
    return unsafe(shown, 'something of that name is there already, perhaps in other letters or another form', error);
  return writeFailure(shown, error);
}

function unsafe(name: string, why: string, cause: unknown): SealpinError {
  return new SealpinError('archive_invalid', `${name} in the archive is not extracted: ${why}`, { cause });
}

/** The failures of the parser have no class of their own; those of the stream are ours. */
export function archiveFailure(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof SealpinError || !(error instanceof Error) || errnoOf(error) !== undefined)
    return error;
  return new SealpinError('archive_invalid', 'it is not a tar archive, or one that is damaged', { cause: error });
}
