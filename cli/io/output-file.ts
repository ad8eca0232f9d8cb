/**
 * The output of a command: a file that appears complete or not at all, or standard output. A file
 * is written under a temporary name in the same directory (0600), synced, and then renamed; the
 * directory is synced after it.
 */
import { constants } from 'node:fs';
import { access, type FileHandle, link, lstat, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { BlockWriter } from './block-writer.ts';
import type { Environment } from '../context.ts';
import { errnoOf, writeFailure, ifMissing } from '../errno.ts';
import type { FileIdentity } from './input.ts';
import { write } from '../terminal/output.ts';
import type { Progress } from '../terminal/progress.ts';
import { checkFreeSpace, removeLeftovers, syncDirectory, temporaryPath } from './unfinished.ts';

/** Bytes of a write to the disk. Plaintext in pieces of this size is written without a copy. */
const diskWriteBytes = 1024 * 1024;

/** Destination of a command's result. A file appears complete, by `commit`, or not at all. */
export interface Sink {
  /** The path as given, or `standard output`, for messages. */
  readonly name: string;
  /** Checks that the disk has room for so many bytes. @throws disk_full */
  room(bytes: number): Promise<void>;
  /**
   * Writes bytes. The disk may fail later; `commit` reports that at the latest.
   * @param onWritten gives the memory of the chunk away until it is called: a large chunk is then
   * written without a copy. When it is undefined the chunk may change as soon as the promise
   * resolves
   */
  write(chunk: Uint8Array, onWritten?: () => void): Promise<void>;
  /** Waits until what was written is on the disk, still without its name. */
  settle(): Promise<void>;
  /**
   * Gives the complete file its name, and the time when it last changed, if that is known.
   * @returns its absolute path; undefined for standard output
   */
  commit(modified?: Date): Promise<string | undefined>;
  /** Removes what was written. @returns whether a part of it stays, as on standard output */
  abort(): Promise<boolean>;
}

/** Environment of writing: `-` is its standard output. */
export type Writing = Pick<Environment, 'stdout' | 'cwd'>;

/** Options for opening an output. */
export type SinkOptions = {
  readonly force: boolean;
  readonly environment: Writing;
  /** Permissions of a new file; 0600 unless it may be seen by all. */
  readonly mode?: number;
  /** A file that is being read and so must not be written. */
  readonly input?: FileIdentity | undefined;
  /** Forbids standard output to this command. */
  readonly fileOnly?: boolean;
};

/**
 * Checks that a file can be written, before any work is done for it; nothing is created yet. `-` is
 * standard output.
 *
 * A symbolic link is never followed: it is an existing file, and `force` replaces the link itself.
 * @throws file_exists, file_unwritable, usage when it is also the input
 */
export async function openSink(path: string, o: SinkOptions): Promise<Sink> {
  if (path === '-') return standardOutput(o);
  const target = resolve(o.environment.cwd, path);
  try {
    if (path.endsWith('/') || basename(target) === '') await refuseDirectory(path, target);
    const directory = await stat(dirname(target));
    if (!directory.isDirectory()) throw new SealpinError('file_unwritable', `${dirname(path)} is not a directory`);
    await access(dirname(target), constants.W_OK);
    await refuseTarget(path, target, o);
  } catch (error) {
    throw writeFailure(path, error);
  }
  return new FileSink(path, target, o);
}

/** Refuses a path that only a directory has. @throws file_unwritable */
async function refuseDirectory(path: string, target: string): Promise<never> {
  const found = await ifMissing(stat(target), undefined);
  if (found?.isDirectory() === true)
    throw new SealpinError('file_unwritable', `${path} is a directory`, { hint: 'name a file in it' });
  const detail = found === undefined ? `there is no directory ${path}` : `${path} is not a directory`;
  throw new SealpinError('file_unwritable', detail, {
    hint: 'leave out the slash at the end to name a file, or name a file in a directory that exists',
  });
}

async function refuseTarget(path: string, target: string, o: Pick<SinkOptions, 'force' | 'input' | 'fileOnly'>) {
  const found = await ifMissing(lstat(target), undefined);
  if (found === undefined) return;
  if (o.input !== undefined) {
    // Through links too: an input that goes away while it is read would be lost if anything failed
    // after it.
    const file = await stat(target, { bigint: true }).catch(() => undefined);
    if (file !== undefined && file.dev === o.input.dev && file.ino === o.input.ino)
      throw new SealpinError('usage', `${path} is the input too`, { hint: 'choose another name for the output' });
  }
  if (found.isDirectory())
    throw new SealpinError('file_unwritable', `${path} is a directory`, { hint: 'name a file in it' });
  if (!found.isFile() && !(found.isSymbolicLink() && (await mayBeReplaced(target))))
    throw new SealpinError('file_unwritable', `${path} is not a regular file`, {
      hint: o.fileOnly === true ? 'name a new file' : 'name - for the standard output',
    });
  if (!o.force) throw new SealpinError('file_exists', `${path} exists`);
}

/** Tells a link that somebody made from `/dev/stdout` and links to other devices. */
async function mayBeReplaced(link: string): Promise<boolean> {
  const leadsTo = await stat(link).catch(() => undefined);
  return dirname(link) !== '/dev' && (leadsTo === undefined || leadsTo.isFile() || leadsTo.isDirectory());
}

class FileSink implements Sink {
  readonly name: string;
  readonly #target: string;
  readonly #force: boolean;
  readonly #mode: number;
  readonly #temporary: string;
  #opened: { file: FileHandle; blocks: BlockWriter } | undefined;

  constructor(name: string, target: string, o: Pick<SinkOptions, 'force' | 'mode'>) {
    this.name = name;
    this.#target = target;
    this.#force = o.force;
    this.#mode = o.mode ?? 0o600;
    this.#temporary = temporaryPath(dirname(target));
  }

  async room(bytes: number): Promise<void> {
    await checkFreeSpace(dirname(this.#target), this.name, bytes);
  }

  async write(chunk: Uint8Array, onWritten?: () => void): Promise<void> {
    try {
      const { blocks } = await this.#open();
      if (onWritten !== undefined && chunk.length >= diskWriteBytes) {
        await blocks.writeThrough(chunk, onWritten);
        return;
      }
      for (let done = 0; done < chunk.length;) {
        done += blocks.fill(chunk.subarray(done));
        if (blocks.full()) await blocks.flush();
      }
      onWritten?.();
    } catch (error) {
      throw writeFailure(this.name, error);
    }
  }

  async settle(modified?: Date): Promise<void> {
    try {
      const { file, blocks } = await this.#open();
      await blocks.flush();
      await blocks.drain();
      // A sender may name one that the file system does not have.
      if (modified !== undefined) await file.utimes(modified, modified).catch(() => undefined);
      await file.sync();
    } catch (error) {
      throw writeFailure(this.name, error);
    }
  }

  async commit(modified?: Date): Promise<string> {
    await this.settle(modified);
    try {
      await this.#close();
      await this.#publish();
      await syncDirectory(dirname(this.#target));
      return this.#target;
    } catch (error) {
      throw writeFailure(this.name, error);
    }
  }

  async abort(): Promise<boolean> {
    await this.#close();
    await rm(this.#temporary, { force: true });
    return false;
  }

  async #open(): Promise<{ file: FileHandle; blocks: BlockWriter }> {
    if (this.#opened === undefined) {
      await removeLeftovers(dirname(this.#target));
      const file = await open(
        this.#temporary,
        constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0),
        this.#mode,
      );
      this.#opened = { file, blocks: new BlockWriter(file, diskWriteBytes) };
    }
    return this.#opened;
  }

  async #close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    // It was drained before, unless something failed; then that is reported, and not how the other
    // writes ended.
    await opened?.blocks.drain().catch(() => undefined);
    await opened?.file.close();
  }

  async #publish(): Promise<void> {
    if (!this.#force) {
      try {
        // Unlike a rename, a link never replaces a file that was created in the meantime.
        await link(this.#temporary, this.#target);
        await rm(this.#temporary);
        return;
      } catch (error) {
        if (errnoOf(error) === 'EEXIST')
          throw new SealpinError('file_exists', `${this.name} was created while this was running`, { cause: error });
        // Some file systems (FAT, some network ones) have no hard links.
        if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EACCES'].includes(errnoOf(error) ?? ''))
          throw error;
        await refuseTarget(this.name, this.#target, { force: false });
      }
    }
    await rename(this.#temporary, this.#target);
  }
}

/** Anything but text: control characters other than tab, newline and carriage return. */
const binary = /[^\P{Cc}\t\n\r]/u;

/** Checks that a chunk, or with undefined the end, continues text in UTF-8. */
function isText(decoder: TextDecoder, chunk: Uint8Array | undefined): boolean {
  try {
    return !binary.test(chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true }));
  } catch {
    return false;
  }
}

function standardOutput(o: SinkOptions): Sink {
  const { stdout } = o.environment;
  const decoder = stdout.isTTY && !o.force ? new TextDecoder('utf-8', { fatal: true }) : undefined;
  let isBegun = false;
  const refuseBinary = (chunk?: Uint8Array): void => {
    if (decoder === undefined || isText(decoder, chunk)) return;
    throw new SealpinError('usage', 'it is not text and would go to your terminal', {
      hint: 'name a file, send it into a pipe, or use --force',
    });
  };
  return {
    name: 'standard output',
    room: async () => undefined,
    async write(chunk, onWritten) {
      refuseBinary(chunk);
      isBegun ||= chunk.length > 0;
      await write(stdout, chunk);
      onWritten?.();
    },
    settle: async () => undefined,
    async commit() {
      refuseBinary();
      return undefined;
    },
    abort: async () => isBegun,
  };
}

/**
 * Writes a small file, complete or not at all.
 * @returns its absolute path
 * @throws as `openSink`, disk_full
 */
export async function writeSmall(path: string, bytes: Uint8Array, o: SinkOptions): Promise<string | undefined> {
  const sink = await openSink(path, o);
  try {
    await sink.write(bytes);
    return await sink.commit();
  } finally {
    await sink.abort();
  }
}

/**
 * Writes all of a stream to a sink, without completing it.
 * @param o `onStart` gets the first chunk before it is written, `onWritten` each one once its
 * memory is no longer needed
 * @returns how many bytes were written
 */
export async function writeAll(
  stream: ReadableStream<Uint8Array>,
  sink: Sink,
  o: { progress: Progress; signal: AbortSignal; onStart?(chunk: Uint8Array): void; onWritten(chunk: Uint8Array): void },
): Promise<number> {
  let bytes = 0;
  for await (const chunk of stream) {
    o.signal.throwIfAborted();
    const { length } = chunk;
    if (bytes === 0) o.onStart?.(chunk);
    await sink.write(chunk, () => o.onWritten(chunk));
    bytes += length;
    o.progress.add(length);
  }
  o.progress.done();
  return bytes;
}
