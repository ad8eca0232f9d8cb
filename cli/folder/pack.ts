/** A folder as one tar archive, made while it is read. */
import * as fs from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { bytesFrom } from '../io/byte-stream.ts';
import { readFailure } from '../errno.ts';
import { hasChanged, type Input, otherLength, readFlags } from '../io/input.ts';
import { leavingWarning } from './archive-path.ts';
import { entriesOf, type FolderEntry } from './entries.ts';
import { type Filter, hasPatterns, isIncluded, isLeftOut } from './filter.ts';
import { countText } from '../terminal/size.ts';
import { blockBytes, padded, tarHeader } from './tar-header.ts';

/** Whole blocks. */
const packPieceBytes = 1024 * 1024;
/** Bytes that are read at once, without a thread. */
const unthreadedReadBytes = 64 * 1024;
/** Permissions that an archive keeps: no set-user-ID, set-group-ID or sticky bit. */
const permissions = 0o777;

const notInFolder = 'leave it out with --exclude, and pipe it into a command of its own';

const read = promisify(fs.read);

/** A folder without links in its path, and as the user named it. */
type Folder = { readonly root: string; readonly shown: string; readonly filter: Filter };

/**
 * Opens a folder for reading as a tar archive: paths relative to it, in a fixed order, without
 * owners.
 *
 * The stream fails with file_changed when a file or directory changes while it is read. It and
 * `lookThrough` fail with the codes of `entriesOf`.
 * @throws file_not_found, file_unreadable
 */
export async function openFolder(path: string, context: Context, filter: Filter): Promise<Input> {
  const root = await promisify(fs.realpath)(resolve(context.cwd, path)).catch((error: unknown) => {
    throw readFailure(path, error);
  });
  const folder = { root, shown: path, filter };
  const pieces = archive(folder);
  const close = async (): Promise<void> => void (await pieces.return(undefined));
  const stream = bytesFrom({ next: async () => (await pieces.next()).value, cancel: close });
  let looked: Promise<number> | undefined;
  return {
    name: path,
    bytes: undefined,
    lookThrough: () => (looked ??= lookThrough(folder, context)),
    identity: undefined,
    stream,
    close,
  };
}

/**
 * Finds out how long the archive will be, but for long names, and warns of links to what will not
 * be in it. Says what is packed, since a folder may be more than was meant.
 */
async function lookThrough(folder: Folder, { output, signal }: Context): Promise<number> {
  const { root, shown, filter } = folder;
  const progress = output.progress(`looking through ${shown}`, undefined, { amount: filesText });
  // Two blocks of zeros end an archive.
  let bytes = 2 * blockBytes;
  let leaving: { name: string; target: string } | undefined;
  let leavingLinks = 0;
  let files = 0;
  for await (const entry of wantedEntries(folder)) {
    signal.throwIfAborted();
    bytes += blockBytes;
    if (entry.type === 'file') bytes += padded(Number(entry.stats.size));
    if (entry.type !== 'directory') {
      files += 1;
      progress.add(1);
    }
    if (entry.type !== 'symlink' || entry.isInside) continue;
    leaving ??= { name: join(shown, entry.path), target: entry.target };
    leavingLinks += 1;
  }
  progress.done();
  if (files === 0 && hasPatterns(filter))
    throw new SealpinError('usage', `nothing in ${shown} is left by --include and --exclude`, {
      hint: 'a pattern is relative to the folder',
    });
  output.note(`packing the folder ${basename(root) || root}: ${filesText(files)}`);
  const warning = leavingWarning(shown, leavingLinks, leaving);
  if (warning !== undefined) output.warn(`${warning}; the links are kept, without what they lead to`);
  return bytes;
}

function filesText(count: number): string {
  return countText(Math.round(count), 'file');
}

/** The entries that a filter leaves; a directory above them comes right before the first one. */
async function* wantedEntries({ root, shown, filter }: Folder): AsyncGenerator<FolderEntry, void, undefined> {
  let held: FolderEntry[] = [];
  for await (const entry of entriesOf(root, shown, (path, isDirectory) => isLeftOut(filter, path, isDirectory))) {
    const { path, type } = entry;
    held = held.filter((above) => path.startsWith(`${above.path}/`));
    if (type === 'directory' && path !== '' && !isIncluded(filter, path, true)) held.push(entry);
    else {
      yield* held.splice(0);
      yield entry;
    }
  }
}

/** The archive in pieces, each of which is there until the next one is asked for. */
async function* archive(folder: Folder): AsyncGenerator<Uint8Array, undefined> {
  const { root, shown } = folder;
  const piece = Buffer.allocUnsafeSlow(packPieceBytes);
  let filled = 0;
  for await (const entry of wantedEntries(folder)) {
    const header = tarHeaderOf(entry);
    if (filled + header.length > piece.length) {
      yield piece.subarray(0, filled);
      filled = 0;
    }
    piece.set(header, filled);
    filled += header.length;
    if (entry.type !== 'file') continue;
    const name = join(shown, entry.path);
    let descriptor;
    try {
      descriptor = fs.openSync(`${root}/${entry.path}`, readFlags);
      let left = Number(entry.stats.size);
      while (left > 0) {
        if (filled === piece.length) {
          yield piece;
          filled = 0;
        }
        const part = piece.subarray(filled, filled + left);
        // A thread for a few bytes costs more than to read them.
        const count =
          part.length > unthreadedReadBytes
            ? (await read(descriptor, part, 0, part.length, null)).bytesRead
            : fs.readSync(descriptor, part);
        if (count === 0) break;
        filled += count;
        left -= count;
      }
      // Before its stats, which then tell whether it has grown.
      const isLonger = fs.readSync(descriptor, new Uint8Array(1)) > 0;
      refuseChanged(name, entry.stats, fs.fstatSync(descriptor, { bigint: true }));
      if (left > 0 || isLonger) throw otherLength(name, notInFolder);
    } catch (error) {
      throw readFailure(name, error);
    } finally {
      if (descriptor !== undefined) fs.closeSync(descriptor);
    }
    // A piece is whole blocks, and so the rest of this one is in it.
    piece.fill(0, filled, padded(filled));
    filled = padded(filled);
  }
  yield piece.subarray(0, filled);
  // Two blocks of zeros end an archive.
  yield new Uint8Array(2 * blockBytes);
  return undefined;
}

/** Refuses a file that a link or a pipe may have taken the place of. @throws file_changed */
function refuseChanged(name: string, found: fs.BigIntStats, read: fs.BigIntStats): void {
  if (read.ino !== found.ino || read.dev !== found.dev)
    throw new SealpinError('file_changed', `${name} was replaced while the folder was read`);
  if (hasChanged(found, read)) throw new SealpinError('file_changed', `${name} changed while it was read`);
}

function tarHeaderOf(entry: FolderEntry): Uint8Array {
  const { path, type, stats } = entry;
  return tarHeader({
    path: type === 'directory' ? `${path === '' ? '.' : path}/` : path,
    target: type === 'symlink' ? entry.target : '',
    type,
    mode: Number(stats.mode) & permissions,
    bytes: type === 'file' ? Number(stats.size) : 0,
    seconds: Math.floor(Number(stats.mtimeMs) / 1000),
  });
}
