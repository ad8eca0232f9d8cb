/** Writing a file in large blocks: one is filled while the previous one goes to the disk. */
import type { FileHandle } from 'node:fs/promises';

/**
 * Bytes of one call. Linux takes page cache in pieces as large as the call, and large pieces are
 * what a virtual machine has lent to its host and gets back page by page: there, 1 GiB takes 3.5 s
 * in calls of 1 MiB, and 0.3 s in calls of 128 KiB.
 */
const callBytes = 128 * 1024;
/** The disk is asked to sync after so many bytes by default. */
const defaultSyncBytes = 64 * 1024 * 1024;

/**
 * Collects bytes into blocks and writes each to a file, from its first byte on, in memory that is
 * reused. One call at a time.
 */
export class BlockWriter {
  readonly #handle: FileHandle | undefined;
  readonly #blockBytes: number;
  readonly #syncBytes: number;
  #block: Buffer = Buffer.alloc(0);
  #spare: Buffer = this.#block;
  // More than one block at a time would only wait for each other: the system writes a file under a
  // lock.
  #writing: Promise<void> | undefined;
  #syncing: Promise<void> | undefined;
  #failed: { cause: unknown } | undefined;
  #filled = 0;
  #position = 0;
  #unsyncedBytes = 0;

  /**
   * @param handle undefined: the blocks are filled and not written
   * @param blockBytes bytes of one block
   * @param syncBytes the disk is asked to sync after so many bytes, so that not all of it is left
   * for the end; 64 MiB by default
   */
  constructor(handle: FileHandle | undefined, blockBytes: number, syncBytes = defaultSyncBytes) {
    this.#handle = handle;
    this.#blockBytes = blockBytes;
    this.#syncBytes = syncBytes;
  }

  /** Fills the block, and returns how many bytes it took. A full block must be flushed first. */
  fill(bytes: Uint8Array): number {
    this.#grow(bytes.length);
    const part = bytes.subarray(0, this.#blockBytes - this.#filled);
    this.#block.set(part, this.#filled);
    this.#filled += part.length;
    return part.length;
  }

  full(): boolean {
    return this.#filled === this.#blockBytes;
  }

  /**
   * Starts the write of what was collected and returns it; it stays as it is until the next block
   * is full.
   *
   * @throws what an earlier write failed with
   */
  async flush(): Promise<Buffer> {
    const bytes = this.#block.subarray(0, this.#filled);
    if (this.#handle && this.#filled > 0) {
      await this.#append(this.#handle, bytes);
      [this.#block, this.#spare] = [this.#spare, this.#block];
    }
    this.#filled = 0;
    return bytes;
  }

  /** Takes what was collected out again. */
  take(): Buffer {
    const bytes = Buffer.from(this.#block.subarray(0, this.#filled));
    this.#filled = 0;
    return bytes;
  }

  /**
   * Starts the write of bytes from where they are, after those that were filled in; they must not
   * change before `onWritten`.
   *
   * @throws what an earlier write failed with
   */
  async writeThrough(bytes: Uint8Array, onWritten: () => void): Promise<void> {
    await this.flush();
    if (this.#handle) await this.#append(this.#handle, bytes, onWritten);
    else onWritten();
  }

  /**
   * Resolves when all writes have ended.
   *
   * @throws what one of them failed with
   */
  async drain(): Promise<void> {
    await Promise.all([this.#writing, this.#syncing]);
    if (this.#failed) throw this.#failed.cause;
  }

  /**
   * Makes room for so many more bytes. The first ones take no more than they need, until others
   * follow: many files are small.
   */
  #grow(more: number): void {
    if (this.#filled + more <= this.#block.length || this.#block.length === this.#blockBytes) return;
    const bytes = this.#filled === 0 ? Math.min(more, this.#blockBytes) : this.#blockBytes;
    const grown = Buffer.allocUnsafeSlow(bytes);
    this.#block.copy(grown, 0, 0, this.#filled);
    this.#block = grown;
  }

  /** Starts a write at the end of the file, once the previous one has ended. */
  async #append(file: FileHandle, bytes: Uint8Array, onWritten?: () => void): Promise<void> {
    await this.#writing;
    if (this.#failed) throw this.#failed.cause;
    if (this.#unsyncedBytes >= this.#syncBytes) {
      this.#unsyncedBytes = 0;
      this.#syncing ??= this.#sync(file);
    }
    this.#writing = this.#writeAt(file, bytes, this.#position).then(onWritten);
    this.#position += bytes.length;
    this.#unsyncedBytes += bytes.length;
  }

  async #writeAt(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
    const calls: Promise<void>[] = [];
    for (let start = 0; start < bytes.length; start += callBytes)
      calls.push(writeCall(file, bytes.subarray(start, start + callBytes), at + start));
    // All of them must have ended before the memory is used again.
    for (const ended of await Promise.allSettled(calls))
      if (ended.status === 'rejected') this.#failed ??= { cause: ended.reason };
  }

  async #sync(file: FileHandle): Promise<void> {
    try {
      await file.datasync();
    } catch (cause) {
      this.#failed ??= { cause };
    }
    this.#syncing = undefined;
  }
}

async function writeCall(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;)
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
}
