/** Sealing a payload: one engine for age's STREAM and for Cobblestone. */
import type { Memory } from '../../streams/buffer-pool.ts';
import type { ByteSource } from '../../streams/byte-source.ts';
import { Pieces, type Room } from '../../streams/pieces.ts';
import { streamBatches, takeBatch, type Batch } from './batch.ts';
import { batchBytes, tagBytes, type Chunks } from './chunking.ts';

/** Bytes of a piece of the sealed stream, unless the caller wants another size. */
const defaultPieceBytes = 1024 * 1024;

/** Seals a batch into the room that was reserved for it. */
export async function sealBatch(chunks: Chunks, batch: Omit<Batch, 'outBytes'>, room: Room): Promise<void> {
  const pending: Promise<void>[] = [];
  let offset = 0;
  for (const [position, input] of batch.inputs.entries()) {
    const nonce = chunks.nonce(batch.first + position, batch.last && position === batch.inputs.length - 1);
    const start = offset;
    const target = room.target(start, input.length + tagBytes);
    const sealed = chunks.aead.seal(nonce, input, undefined, target);
    const store = (bytes: Uint8Array): void => {
      if (bytes !== target) room.set(bytes, start);
    };
    if (sealed instanceof Promise) pending.push(sealed.then(store));
    else store(sealed);
    offset += input.length + tagBytes;
  }
  if (pending.length > 0) await Promise.all(pending);
}

/**
 * Seals all of a source.
 * @param prefix goes out before the first chunk
 * @param pieceBytes of the arrays that the stream gives; the last one may be shorter
 * @param memory where theirs comes from
 */
export function sealChunks(
  source: ByteSource,
  chunks: Chunks,
  prefix: Uint8Array,
  pieceBytes = defaultPieceBytes,
  memory?: Memory,
): ReadableStream<Uint8Array> {
  let index = 0;
  const pieces = new Pieces(pieceBytes, memory);
  const before = pieces.append(prefix.length);
  before.set(prefix, 0);
  const ahead = before.full();
  return streamBatches(source, async (controller) => {
    for (const piece of ahead.splice(0)) controller.enqueue(piece);
    for (;;) {
      await source.fill(batchBytes);
      const batch = takeBatch(source, chunks, index, false);
      const room = pieces.append(batch.outBytes);
      await sealBatch(chunks, batch, room);
      source.recycle();
      index += batch.inputs.length;
      const full = room.full();
      for (const piece of full) controller.enqueue(piece);
      if (batch.last) {
        const rest = pieces.rest();
        if (rest.length > 0) controller.enqueue(rest);
        return false;
      }
      if (full.length > 0) return true;
    }
  });
}
