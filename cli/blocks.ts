/** Writing a file in large blocks: one is filled while the one before it goes to the disk. */
import type { FileHandle } from 'node:fs/promises';

export interface BlockWriter {
  /** Takes as many of the bytes as the block has room for, and says how many. A full block has to be flushed first. */
  fill(bytes: Uint8Array): number;
  full(): boolean;
  /**
   * Starts the write of what was collected and returns it; it stays as it is until the next block is full.
   *
   * @throws what an earlier write failed with
   */
  flush(): Promise<Buffer>;
  /**
   * Resolves when all writes have ended.
   *
   * @throws what one of them failed with
   */
  drain(): Promise<void>;
}

/**
 * Collects bytes into blocks and writes each to the file, from its first byte on, in memory that is used again and again.
 *
 * @param handle undefined: the blocks are made and not written
 * @param blockBytes of one write
 */
export function blockWriter(handle: FileHandle | undefined, blockBytes: number): BlockWriter {
  let block = Buffer.allocUnsafeSlow(blockBytes);
  let spare = Buffer.allocUnsafeSlow(handle ? blockBytes : 0);
  // More than one write at a time would only wait for each other: a file is written under a lock.
  let writing: Promise<void> | undefined;
  let failed: { cause: unknown } | undefined;
  let filled = 0;
  let position = 0;

  async function put(bytes: Buffer, at: number): Promise<void> {
    try {
      for (let done = 0; done < bytes.length; ) done += (await handle!.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
    } catch (cause) {
      failed = { cause };
    }
  }

  async function drain(): Promise<void> {
    await writing;
    if (failed) throw failed.cause;
  }

  return {
    fill(bytes) {
      const part = bytes.subarray(0, blockBytes - filled);
      block.set(part, filled);
      filled += part.length;
      return part.length;
    },
    full: () => filled === blockBytes,
    async flush() {
      const bytes = block.subarray(0, filled);
      if (handle && filled > 0) {
        await drain();
        writing = put(bytes, position);
        [block, spare] = [spare, block];
      }
      position += filled;
      filled = 0;
      return bytes;
    },
    drain,
  };
}
