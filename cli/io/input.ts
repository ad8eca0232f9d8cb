/** The input of a command: a file, a pipe or standard input, as a stream of bytes. */
import * as fs from 'node:fs';
import { Socket } from 'node:net';
import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import type { Environment } from '../context.ts';
import { failRead, readFailure } from '../errno.ts';

const inputPieceBytes = 1024 * 1024;
const { constants } = fs;

// Bare descriptors and not file handles: that of a FIFO is handed over to a socket, which closes
// it.
const openDescriptor = promisify(fs.open);
const close = promisify(fs.close);
const read = promisify(fs.read);
/** Without O_NONBLOCK, opening a FIFO without a writer could not even be interrupted. */
export const readFlags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
const statOf = (descriptor: number): Promise<fs.BigIntStats> => promisify(fs.fstat)(descriptor, { bigint: true });

/** A file or pipe that is open for reading. */
export type Input = {
  /** The path as given, or `standard input`, for messages. */
  readonly name: string;
  /** Its length; undefined when it is not known before its end. */
  readonly bytes: number | undefined;
  /**
   * Looks through a folder once, and refuses what cannot be archived. Returns about how long it
   * will be.
   */
  readonly lookThrough?: () => Promise<number>;
  /** Identity and time of the file; undefined for a pipe. */
  readonly identity: FileIdentity | undefined;
  readonly stream: ReadableStream<Uint8Array>;
  close(): Promise<void>;
};

/**
 * `mtimeNs`: when its content changed last, as programs set it; `ctimeNs`: when anything of it did,
 * by the system. In nanoseconds since 1970. `nlink`: how many names it has.
 */
export type FileIdentity = Readonly<Record<'dev' | 'ino' | 'mtimeNs' | 'ctimeNs' | 'nlink', bigint>>;

/** Time of the last change of a file; undefined for a pipe and for a folder. */
export function modifiedOf({ identity }: Input): Date | undefined {
  return identity === undefined ? undefined : new Date(Number(identity.mtimeNs / 1_000_000n));
}

/** Inputs of reading. `signal`: ends the wait for a pipe into which nobody writes. */
export type Reading = Pick<Environment, 'stdin' | 'cwd' | 'signal'>;

/**
 * Opens a file for reading; `-` is standard input, and a FIFO is read like it.
 *
 * The stream of a regular file fails with file_changed when the file changes before its end is
 * read; that of a pipe with the reason of the signal.
 * @throws file_not_found, file_unreadable, usage when standard input is a terminal
 */
export async function openInput(path: string, environment: Reading): Promise<Input> {
  if (path === '-') {
    if (environment.stdin.isTTY)
      throw new SealpinError('usage', 'standard input is a terminal', {
        hint: 'pipe something into sealpin, or name a file',
      });
    return piped('standard input', environment.stdin, environment.signal);
  }
  const descriptor = await openDescriptor(resolve(environment.cwd, path), readFlags).catch(failRead(path));
  try {
    const stats = await statOf(descriptor);
    // A socket waits for the writer without holding one of the process's few threads, as a read of
    // a FIFO would.
    if (stats.isFIFO())
      return piped(path, new Socket({ fd: descriptor, readable: true, writable: false }), environment.signal);
    if (!stats.isFile())
      throw new SealpinError(
        'file_unreadable',
        `${path} is ${stats.isDirectory() ? 'a directory' : 'not a regular file'}`,
        { hint: stats.isDirectory() ? 'name a file in it' : 'pipe it into sealpin and name - as the file' },
      );
    return regular(path, descriptor, stats);
  } catch (error) {
    await close(descriptor);
    throw error;
  }
}

function piped(name: string, readable: Readable, signal: AbortSignal): Input {
  const stream = webStreamOf(readable, name, signal);
  return { name, bytes: undefined, identity: undefined, stream, close: async () => void readable.destroy() };
}

function regular(path: string, descriptor: number, before: fs.BigIntStats): Input {
  const bytes = Number(before.size);
  let position = 0;
  const changed = (how: string): SealpinError => new SealpinError('file_changed', `${path} ${how} while it was read`);
  const stream = new ReadableStream({
    type: 'bytes',
    autoAllocateChunkSize: inputPieceBytes,
    async pull(controller) {
      try {
        const request = controller.byobRequest;
        const view = request?.view;
        // With `autoAllocateChunkSize` every pull has a request (Streams standard,
        // ReadableByteStreamControllerCallPullIfNeeded).
        if (!(view instanceof Uint8Array)) throw new TypeError('a pull without a buffer to fill');
        const { bytesRead } = await read(descriptor, view, 0, view.length, position);
        position += bytesRead;
        if (bytesRead > 0 && position <= bytes) return request?.respond(bytesRead);
        const after = await statOf(descriptor);
        const isSame = !hasChanged(before, after);
        if (isSame && position !== bytes) throw otherLength(path, 'pipe it into sealpin and name - as the file');
        if (position > bytes) throw changed('grew');
        if (position < bytes || after.size < before.size) throw changed('shrank');
        if (!isSame) throw changed('changed');
        controller.close();
        return request?.respond(0);
      } catch (error) {
        return controller.error(readFailure(path, error));
      }
    },
  });
  return { name: path, bytes, identity: before, stream, close: () => close(descriptor) };
}

/** Tells by size and times whether the content of a file or directory may have changed. */
export function hasChanged(before: fs.BigIntStats, after: fs.BigIntStats): boolean {
  if (after.size !== before.size || after.mtimeNs !== before.mtimeNs) return true;
  // Programs can set mtime back, and not ctime, which a name more or less changes, too.
  return after.ctimeNs !== before.ctimeNs && after.nlink === before.nlink;
}

/**
 * The failure of a file whose length is another than that of its content: some file systems, such
 * as /proc and those of FUSE, have such files.
 */
export function otherLength(name: string, hint: string): SealpinError {
  return new SealpinError('file_changed', `${name} is not as long as the system says`, { hint });
}

/** A Node stream as a web stream, one chunk ahead at most. */
function webStreamOf(readable: Readable, name: string, signal: AbortSignal): ReadableStream<Uint8Array> {
  const iterator: AsyncIterator<Uint8Array> = readable[Symbol.asyncIterator]();
  const end = (): void => void readable.destroy();
  signal.addEventListener('abort', end, { once: true });
  readable.once('close', () => signal.removeEventListener('abort', end));
  return pulled({
    async next() {
      try {
        signal.throwIfAborted();
        const { done, value } = await iterator.next();
        signal.throwIfAborted();
        return done === true ? undefined : value;
      } catch (error) {
        throw signal.aborted ? signal.reason : readFailure(name, error);
      }
    },
    cancel: () => iterator.return?.(),
  });
}

/**
 * Reads a small file (a key, a password) to its end; `-` is standard input.
 * @param o `limitBytes`: a larger file is refused, by default one for which no key file and no
 * password has a use; `what` it should be, for the message
 * @throws file_not_found, file_unreadable
 */
export async function readSmall(path: string, o: { limitBytes?: number; what: string; environment: Reading }) {
  const input = await openInput(path, o.environment).catch((error: unknown) => {
    // The usual hints are to pack a directory, or to pipe a device.
    if (!isSealpinError(error, 'file_unreadable') || error.hint === undefined) throw error;
    throw new SealpinError(error.code, error.message, {
      hint: `name a file with ${o.what} in it, or - for standard input`,
      cause: error,
    });
  });
  try {
    return await readAll(
      input.stream,
      o.limitBytes ?? 1024 * 1024,
      () => new SealpinError('file_unreadable', `${input.name} is too large to be ${o.what}`),
    );
  } finally {
    await input.close();
  }
}

/**
 * Reports that other users can read a file; false where the system has no such permissions, and for
 * standard input.
 */
export async function isOpenToOthers(path: string, environment: Pick<Environment, 'cwd' | 'platform'>) {
  if (environment.platform === 'win32' || path === '-') return false;
  const stats = await promisify(fs.stat)(resolve(environment.cwd, path));
  return stats.isFile() && (stats.mode & 0o077) !== 0;
}
