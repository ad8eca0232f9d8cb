/** Bytes in memory that this process owns and can release early. */
import type { FileHandle } from 'node:fs/promises';
import { BufferPool } from '../../shared/streams/buffer-pool.ts';

/**
 * Frees the memory of bytes at once if they fill their buffer; they are empty then. Only for bytes
 * that nothing else uses. V8 counts buffers and collects its whole heap for each few dozen MiB of
 * them, which took half of the CPU time of a large file.
 */
export function release(bytes: Uint8Array): void {
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length) buffer.transfer(0);
}

/** Memory of the large pieces of what a command fetches and opens, which is used again. */
export const memory = new BufferPool();

/**
 * Makes a byte stream of pieces: a BYOB read of n bytes gets n bytes at once, however small the
 * pieces are.
 * @param o.next the next piece; undefined at the end. An error of it ends the stream after all
 * bytes before it
 * @param o.used called with each piece when all of it has been copied
 * @param o.cancel called when the reader of the stream cancels it
 */
export function bytesFrom({
  next,
  used: onUsed,
  cancel,
}: {
  next(): Promise<Uint8Array | undefined>;
  used?(piece: Uint8Array): void;
  cancel(reason: unknown): void | Promise<void>;
}): ReadableStream<Uint8Array> {
  let piece: Uint8Array | undefined = new Uint8Array(0);
  let used = 0;
  let failure: { error: unknown } | undefined;

  /** The rest of the current piece, at least one byte; undefined at the end. */
  async function rest(): Promise<Uint8Array | undefined> {
    while (piece !== undefined && used === piece.length) {
      onUsed?.(piece);
      piece = await next();
      used = 0;
    }
    return piece?.subarray(used);
  }

  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      if (failure !== undefined) throw failure.error;
      const request = controller.byobRequest;
      const view = request?.view as Uint8Array | undefined;
      let filled = 0;
      try {
        for (let bytes = await rest(); bytes !== undefined; bytes = await rest()) {
          const part = bytes.subarray(0, (view?.length ?? bytes.length) - filled);
          used += part.length;
          filled += part.length;
          if (view === undefined) return controller.enqueue(new Uint8Array(part));
          view.set(part, filled - part.length);
          if (filled === view.length) break;
        }
      } catch (error) {
        if (filled === 0) throw error;
        failure = { error };
      }
      if (filled === 0) controller.close();
      request?.respond(filled);
    },
    cancel,
  });
}

const filePieceBytes = 256 * 1024;

/** The bytes of a file from its start, read on demand. The handle stays open. */
export function bytesOf(file: FileHandle): ReadableStream<Uint8Array> {
  const buffer = new Uint8Array(filePieceBytes);
  let position = 0;
  return bytesFrom({
    async next() {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      position += bytesRead;
      return bytesRead === 0 ? undefined : buffer.subarray(0, bytesRead);
    },
    cancel: () => undefined,
  });
}

/** A stream of bytes that stay unchanged. */
export function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new Blob([new Uint8Array(bytes)]).stream();
}
