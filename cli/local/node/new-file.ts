/** A file on the disk that is being written: nothing knows it before it is published. */
import { randomBytes } from 'node:crypto';
import { open, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { BlockWriter } from '../../io/block-writer.ts';
import { partSuffix, writtenPerByte } from './data-file-name.ts';
import { freeBytes, lastBytes } from './reserve.ts';
import { RpcError } from './rpc.ts';

/** A file under a name of its own; without a handle nothing is on the disk. */
export class NewFile {
  readonly name: string;
  readonly sink: BlockWriter;
  readonly #path: string;
  readonly #handle: FileHandle | undefined;

  private constructor(name: string, path: string, handle: FileHandle | undefined, syncBytes?: number) {
    this.name = name;
    this.#path = path;
    this.#handle = handle;
    this.sink = new BlockWriter(handle, leafBytes, syncBytes);
  }

  static async create(data: string, options: { keep: boolean; suffix: string; syncBytes?: number }): Promise<NewFile> {
    const { keep, suffix, syncBytes } = options;
    // The last space on the disk is for deletions.
    if (keep && freeBytes(data) < lastBytes) throw new RpcError('no space left on device');
    const name = randomBytes(16).toString('hex') + suffix;
    const path = join(data, name + partSuffix);
    return new NewFile(name, path, keep ? await open(path, 'wx+', 0o600) : undefined, syncBytes);
  }

  /** Copies bytes into blocks. @param onBlock gets each that is full, before it is filled again */
  async append(bytes: Uint8Array, onBlock?: (block: Buffer) => Promise<void>): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      rest = rest.subarray(this.sink.fill(rest));
      if (!this.sink.full()) continue;
      const block = await this.sink.flush();
      await onBlock?.(block);
    }
  }

  /**
   * Reads what a command writes into it.
   * @param notes each byte of them says that `writtenPerByte` more are there, or the last ones
   * @param bytes of the whole file
   * @returns leaves, each valid until the next one is asked for
   * @throws what `notes` throw, RpcError when the file has not as many bytes
   */
  async *follow(notes: AsyncIterable<Uint8Array>, bytes: number): AsyncGenerator<Buffer> {
    const leaf = Buffer.allocUnsafeSlow(leafBytes);
    let position = 0;
    let written = 0;
    for await (const { length } of notes) {
      written = Math.min(bytes, written + length * writtenPerByte);
      const end = written < bytes ? written - (written % leafBytes) : bytes;
      while (position < end) {
        const piece = leaf.subarray(0, end - position);
        for (let done = 0; done < piece.length;) {
          const read = await this.#handle?.read(piece, done, piece.length - done, position + done);
          done += read?.bytesRead || otherBytes();
        }
        position += piece.length;
        yield piece;
      }
    }
    if (position < bytes || (await this.#handle?.stat())?.size !== bytes) otherBytes();
  }

  /** Waits until its bytes are on the disk. */
  async finish(): Promise<void> {
    await this.sink.drain();
    await this.#handle?.sync();
    await this.#handle?.close();
  }

  /** Removes it. */
  async abort(): Promise<void> {
    // The caller has the error that matters.
    await this.sink.drain().catch(() => undefined);
    await this.#handle?.close();
    if (this.#handle !== undefined) await unlink(this.#path);
  }
}

function otherBytes(): never {
  throw new RpcError('the command has not written as many bytes as it has announced');
}
