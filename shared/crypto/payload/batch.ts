/** Helpers of sealing and opening: batches of chunks from a source, and a stream that they fill. */
import { SealpinError } from '../../errors.ts';
import { cancelQuietly } from '../../streams/cancel-quietly.ts';
import type { ByteSource } from '../../streams/byte-source.ts';
import { batchBytes, fullChunksIn, tagBytes, type Chunks } from './chunking.ts';

/** The chunks of one pull, which are sealed or opened into one array of `outBytes`. */
export type Batch = { inputs: Uint8Array[]; first: number; last: boolean; outBytes: number };

/**
 * Takes the chunks that are certain with what the source has at hand.
 * @param first index of the first of them
 * @param sealed whether the source gives sealed chunks or plaintext
 * @throws SealpinError `too_large` past the last chunk that the format allows
 */
export function takeBatch(source: ByteSource, chunks: Chunks, first: number, sealed: boolean): Batch {
  const sizeBytes = chunks.chunkBytes + (sealed ? tagBytes : 0);
  const perBatch = batchBytes / chunks.chunkBytes;
  const count = Math.min(fullChunksIn(chunks, source.length, sizeBytes), perBatch);
  const inputs: Uint8Array[] = [];
  for (let index = 0; index < count; index += 1) inputs.push(source.take(sizeBytes));
  const last = source.ended && fullChunksIn(chunks, source.length, sizeBytes) === 0;
  const rest = last ? source.length : 0;
  if (last) inputs.push(source.take(rest));
  const outBytes =
    count * (chunks.chunkBytes + (sealed ? 0 : tagBytes)) +
    (last ? Math.max(0, rest + (sealed ? -tagBytes : tagBytes)) : 0);
  if (first + inputs.length > chunks.maxChunks)
    throw new SealpinError('too_large', 'the container is larger than its format allows');
  return { inputs, first, last, outBytes };
}

/** Returns a stream whose pieces `next` enqueues; `next` returns false after the last one. */
export function streamBatches(
  source: ByteSource,
  next: (controller: ReadableStreamDefaultController<Uint8Array>) => Promise<boolean>,
): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          if (await next(controller)) return;
          controller.close();
          // A span ends before its source does.
          if (!source.ended) await cancelQuietly(source);
        } catch (error) {
          void cancelQuietly(source, error);
          throw error;
        }
      },
      cancel: (reason) => source.cancel(reason),
    },
    // A piece that waits here is a MiB more for each upload of a Worker.
    { highWaterMark: 0 },
  );
}
