/** A file on the disk that is being written: nothing knows it before it is published. */
import { randomBytes } from 'node:crypto';
import { open, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { BlockWriter } from '../../io/block-writer.ts';
import { partSuffix, writtenPerByte } from './data-file-name.ts';
import { freeBytes, lastBytes } from './reserve.ts';
import { RpcError } from './rpc.ts';

export type NewFile = Awaited<ReturnType<typeof createFile>>;

/** Begins a file in the folder `data`, under a new name. Without `keep` nothing is on the disk. */
export async function createFile(
  data: string,
  { keep, suffix, syncBytes }: { keep: boolean; suffix: string; syncBytes?: number },
) {
  // The last space on the disk is for deletions.
  if (keep && freeBytes(data) < lastBytes) throw new RpcError('no space left on device');
  const name = randomBytes(16).toString('hex') + suffix;
  const path = join(data, name + partSuffix);
  const handle = keep ? await open(path, 'wx+', 0o600) : undefined;
  const sink = new BlockWriter(handle, leafBytes, syncBytes);
  return {
    name,
    sink,

    /** Copies bytes into blocks. @param onBlock gets each that is full before it is used again */
    async append(bytes: Uint8Array, onBlock?: (block: Buffer) => Promise<void>): Promise<void> {
      for (let rest = bytes; rest.length > 0;) {
        rest = rest.subarray(sink.fill(rest));
        if (!sink.full()) continue;
        const block = await sink.flush();
        await onBlock?.(block);
      }
    },

    /** Reads what a command writes into it (`written`). */
    follow: (notes: AsyncIterable<Uint8Array>, bytes: number) => written(handle, notes, bytes),

    /** Waits until its bytes are on the disk. */
    async finish(): Promise<void> {
      await sink.drain();
      await handle?.sync();
      await handle?.close();
    },

    /** Removes it. */
    async abort(): Promise<void> {
      // The caller has the error that matters.
      await sink.drain().catch(() => undefined);
      await handle?.close();
      if (handle !== undefined) await unlink(path);
    },
  };
}

/**
 * Reads what a command writes into a file.
 * @param notes each byte of them says that `writtenPerByte` more are there, or the last ones
 * @param bytes of the whole file
 * @returns leaves, each valid until the next one is asked for
 * @throws what `notes` throw, RpcError when the file has not as many bytes
 */
async function* written(handle: FileHandle | undefined, notes: AsyncIterable<Uint8Array>, bytes: number) {
  const leaf = Buffer.allocUnsafeSlow(leafBytes);
  let position = 0;
  let there = 0;
  for await (const { length } of notes) {
    there = Math.min(bytes, there + length * writtenPerByte);
    const end = there < bytes ? there - (there % leafBytes) : bytes;
    while (position < end) {
      const piece = leaf.subarray(0, end - position);
      for (let done = 0; done < piece.length;) {
        const read = await handle?.read(piece, done, piece.length - done, position + done);
        done += read?.bytesRead || otherBytes();
      }
      position += piece.length;
      yield piece;
    }
  }
  if (position < bytes || (await handle?.stat())?.size !== bytes) otherBytes();
}

function otherBytes(): never {
  throw new RpcError('the command has not written as many bytes as it has announced');
}
