/** Writing a file in large blocks: one is filled while the previous one goes to the disk. */
import type { FileHandle } from 'node:fs/promises';

/** A file that is written in blocks. One call at a time. */
export interface BlockWriter {
  /** Copies as many bytes as the block has room for, and returns how many. A full block is flushed first. */
  fill(bytes: Uint8Array): number;
  full(): boolean;
  /** Starts the write of the block, which stays as it is until the next one is full. @throws as an earlier write */
  flush(): Promise<Buffer>;
  /** Writes bytes from where they are, after the block; they stay until `onWritten`. @throws as an earlier write */
  writeThrough(bytes: Uint8Array, onWritten: () => void): Promise<void>;
  /** Resolves when all writes have ended. @throws what one of them failed with */
  drain(): Promise<void>;
}

/**
 * Bytes of one call. Linux takes page cache in pieces as large as the call, and large pieces are what a virtual machine has lent to its
 * host and gets back page by page: there, 1 GiB takes 3.5 s in calls of 1 MiB, and 0.3 s in calls of 128 KiB.
 */
const callBytes = 128 * 1024;
/** The disk is asked to sync after so many bytes by default. */
const defaultSyncBytes = 64 * 1024 * 1024;

/**
 * Collects bytes into blocks and writes each to the file, from its first byte on, in memory that is reused.
 * @param handle undefined: the blocks are filled and not written
 * @param blockBytes bytes of one block
 * @param syncBytes the disk is asked to sync after so many bytes, so that not all of it is left for the end; 64 MiB by default
 */
export function blockWriter(
  handle: FileHandle | undefined,
  blockBytes: number,
  syncBytes = defaultSyncBytes,
): BlockWriter {
  let block: Buffer = Buffer.alloc(0);
  let spare: Buffer = block;
  // More than one block at a time would only wait for each other: the system writes a file under a lock.
  let writing: Promise<void> | undefined;
  let syncing: Promise<void> | undefined;
  let failed: { cause: unknown } | undefined;
  let filled = 0;
  let position = 0;
  let unsyncedBytes = 0;

  /** Starts a write at the end of the file, once the previous one has ended. */
  async function append(file: FileHandle, bytes: Uint8Array, onWritten?: () => void): Promise<void> {
    await writing;
    if (failed) throw failed.cause;
    if (unsyncedBytes >= syncBytes) {
      unsyncedBytes = 0;
      syncing ??= sync(file);
    }
    writing = writeAt(file, bytes, position).then(onWritten);
    position += bytes.length;
    unsyncedBytes += bytes.length;
  }

  async function writeAt(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
    const calls: Promise<void>[] = [];
    for (let start = 0; start < bytes.length; start += callBytes)
      calls.push(call(file, bytes.subarray(start, start + callBytes), at + start));
    // All of them must have ended before the memory is used again.
    for (const ended of await Promise.allSettled(calls))
      if (ended.status === 'rejected') failed ??= { cause: ended.reason };
  }

  async function call(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
    for (let done = 0; done < bytes.length;)
      done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  }

  async function sync(file: FileHandle): Promise<void> {
    try {
      await file.datasync();
    } catch (cause) {
      failed ??= { cause };
    }
    syncing = undefined;
  }

  /** Makes room for so many more bytes. The first ones take no more than they need, until others follow: many files are small. */
  function grow(more: number): void {
    if (filled + more <= block.length || block.length === blockBytes) return;
    const grown = Buffer.allocUnsafeSlow(filled === 0 ? Math.min(more, blockBytes) : blockBytes);
    block.copy(grown, 0, 0, filled);
    block = grown;
  }

  async function flush(): Promise<Buffer> {
    const bytes = block.subarray(0, filled);
    if (handle && filled > 0) {
      await append(handle, bytes);
      [block, spare] = [spare, block];
    }
    filled = 0;
    return bytes;
  }

  async function drain(): Promise<void> {
    await Promise.all([writing, syncing]);
    if (failed) throw failed.cause;
  }

  return {
    fill(bytes) {
      grow(bytes.length);
      const part = bytes.subarray(0, blockBytes - filled);
      block.set(part, filled);
      filled += part.length;
      return part.length;
    },
    full: () => filled === blockBytes,
    flush,
    async writeThrough(bytes, onWritten) {
      await flush();
      if (handle) await append(handle, bytes, onWritten);
      else onWritten();
    },
    drain,
  };
}
