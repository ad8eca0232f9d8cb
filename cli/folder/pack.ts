/** A folder as one tar archive, made while it is read. */
import { realpath } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { createTarPacker, type TarHeader, type TarPackController } from 'modern-tar';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { bytesFrom } from '../io/byte-stream.ts';
import { readFailure } from '../errno.ts';
import { type Input, openInput } from '../io/input.ts';
import { LeavingLinks } from './leaving-links.ts';
import { entriesOf, type FolderEntry } from './entries.ts';
import { type Filter, isIncluded, isLeftOut } from './filter.ts';
import { countText } from '../terminal/size.ts';

/**
 * A block of a tar archive: a header, and what the content of a file is padded to (POSIX.1-2024,
 * pax).
 */
const blockBytes = 512;
const packPieceBytes = 1024 * 1024;
/** Permissions that an archive keeps: no set-user-ID, set-group-ID or sticky bit. */
const permissions = 0o777;

/** A folder without links in its path, and as the user named it. */
type Folder = { readonly root: string; readonly shown: string; readonly filter: Filter | undefined };

/**
 * Opens a folder for reading as a tar archive: paths relative to it, in a fixed order, without
 * owners.
 *
 * The stream fails with file_changed when a file or directory changes while it is read. It and
 * `lookThrough` fail with the codes of `entriesOf`.
 * @throws file_not_found, file_unreadable
 */
export async function openFolder(path: string, context: Context, filter?: Filter): Promise<Input> {
  const root = await realpath(resolve(context.cwd, path)).catch((error: unknown) => {
    throw readFailure(path, error);
  });
  const { readable, controller } = createTarPacker();
  const reader = readable.getReader();
  let isStarted = false;
  // After a failure there is nothing left to cancel, and the reader has got it already.
  const cancel = (reason: unknown): Promise<void> => reader.cancel(reason).catch(() => undefined);
  const stream = bytesFrom({
    async next() {
      if (!isStarted)
        void pack({ root, shown: path, filter }, controller, context).catch((error: unknown) =>
          controller.error(error),
        );
      isStarted = true;
      return (await reader.read()).value;
    },
    cancel,
  });
  let looked: Promise<number> | undefined;
  return {
    name: path,
    bytes: undefined,
    lookThrough: () => (looked ??= lookThrough({ root, shown: path, filter }, context)),
    identity: undefined,
    stream,
    close: () => cancel(undefined),
  };
}

/**
 * Finds out how long the archive will be, but for long names, and warns of links to what will not
 * be in it. Says what is packed, since a folder may be more than was meant.
 */
async function lookThrough({ root, shown, filter }: Folder, { output, signal }: Context): Promise<number> {
  const progress = output.progress(`looking through ${shown}`, undefined, { amount: filesText });
  // Two blocks of zeros end an archive.
  let bytes = 2 * blockBytes;
  const leaving = new LeavingLinks();
  let files = 0;
  for await (const entry of wantedEntries(root, shown, filter)) {
    signal.throwIfAborted();
    bytes += blockBytes;
    if (entry.type === 'file') bytes += Math.ceil(Number(entry.stats.size) / blockBytes) * blockBytes;
    if (entry.type !== 'directory') {
      files += 1;
      progress.add(1);
    }
    if (entry.type === 'symlink' && !entry.isInside) leaving.add(join(shown, entry.path), entry.target);
  }
  progress.done();
  if (files === 0 && filter !== undefined)
    throw new SealpinError('usage', `nothing in ${shown} is left by --include and --exclude`, {
      hint: 'a pattern is relative to the folder',
    });
  output.note(`packing the folder ${basename(root) || root}: ${filesText(files)}`);
  const warning = leaving.warning(shown);
  if (warning !== undefined) output.warn(`${warning}; the links are kept, without what they lead to`);
  return bytes;
}

function filesText(count: number): string {
  return countText(Math.round(count), 'file');
}

/** The entries that a filter leaves; a directory above them comes right before the first one. */
async function* wantedEntries(
  root: string,
  shown: string,
  filter: Filter | undefined,
): AsyncGenerator<FolderEntry, void, undefined> {
  if (filter === undefined) {
    yield* entriesOf(root, shown);
    return;
  }
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

async function pack({ root, shown, filter }: Folder, controller: TarPackController, context: Context): Promise<void> {
  for await (const entry of wantedEntries(root, shown, filter)) {
    if (entry.type === 'file') {
      await packFile(entry, join(shown, entry.path), controller, context);
      continue;
    }
    const isDirectory = entry.type === 'directory';
    const name = isDirectory ? `${entry.path === '' ? '.' : entry.path}/` : entry.path;
    const link = entry.type === 'symlink' ? { linkname: entry.target } : {};
    await controller.add({ ...tarHeader(entry, link.linkname), name, type: entry.type, size: 0, ...link }).close();
  }
  controller.finalize();
}

/**
 * The part of a header that all types share. Owners are left out: the archive is for someone else's
 * machine.
 */
function tarHeader({ path, stats }: FolderEntry, target = ''): Omit<TarHeader, 'name' | 'size'> {
  // What begins a field is taken for the mark of an encoding there, but not in an extended header.
  const isMarked = [path, target].some((text) => text.includes('\uFEFF'));
  return {
    ...(isMarked ? { pax: { path, ...(target === '' ? {} : { linkpath: target }) } } : {}),
    mode: Number(stats.mode) & permissions,
    // The format has no times before 1970.
    mtime: new Date(Math.max(0, Number(stats.mtimeMs))),
    uid: 0,
    gid: 0,
  };
}

async function packFile(
  entry: FolderEntry,
  shown: string,
  controller: TarPackController,
  context: Context,
): Promise<void> {
  const input = await openInput(shown, context);
  try {
    const { identity, bytes } = input;
    // A link or a pipe may have taken its place since it was found.
    if (bytes === undefined || identity?.ino !== entry.stats.ino || identity.dev !== entry.stats.dev)
      throw new SealpinError('file_changed', `${shown} was replaced while the folder was read`);
    const writer = controller.add({ ...tarHeader(entry), name: entry.path, type: 'file', size: bytes }).getWriter();
    const reader = input.stream.getReader({ mode: 'byob' });
    for (let left = bytes; ;) {
      // Of the size that is needed: what waits in the archive keeps the whole buffer. The end is
      // read with one byte.
      const { done, value } = await reader.read(new Uint8Array(Math.max(1, Math.min(left, packPieceBytes))));
      if (done) break;
      left -= value.length;
      await writer.write(value);
    }
    await writer.close();
  } finally {
    await input.close();
  }
}
