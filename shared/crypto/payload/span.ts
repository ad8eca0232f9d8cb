/**
 * Parts of a payload: where the chunks of a range of the plaintext are, and how they are opened.
 */
import { SealpinError } from '../../errors.ts';
import { cancelQuietly } from '../../streams/cancel-quietly.ts';
import type { BufferPool } from '../../streams/buffer-pool.ts';
import type { ByteSource } from '../../streams/byte-source.ts';
import { streamOf } from '../bytes.ts';
import type { Awaitable } from '../providers/provider.ts';
import type { Batch } from './batch.ts';
import { batchBytes, chunkCount, sealedBytes, tagBytes, type Chunking, type Chunks } from './chunking.ts';
import { openBatches } from './open-chunks.ts';
import { pulled } from '../../streams/pulled.ts';

/** Chunks `first` up to `end` (exclusive) of a payload that has `plaintextBytes` in all. */
export type Span = { first: number; end: number; plaintextBytes: number };

/**
 * Opens bytes `start` up to `end` (exclusive) of a plaintext.
 * @param open opens a span, whose chunks have so many `bytes` at an `offset` from the first chunk
 * @throws SealpinError `range_not_satisfiable` unless 0 ≤ start ≤ end ≤ plaintextBytes, all whole
 * numbers
 */
export async function openRange(
  { start, end }: { start: number; end: number },
  chunking: Chunking,
  plaintextBytes: number,
  open: (part: ReturnType<typeof spanOf>) => Promise<ReadableStream<Uint8Array>>,
): Promise<ReadableStream<Uint8Array>> {
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || start > end || end > plaintextBytes)
    throw new SealpinError('range_not_satisfiable');
  if (start === end) return streamOf(new Uint8Array(0));
  const part = spanOf(chunking, start, end, plaintextBytes);
  return sliceStream(await open(part), start - part.span.first * chunking.chunkBytes, end - start);
}

/** Finds the chunks that hold a range of the plaintext, as `openRange` opens them. */
export function spanOf(
  chunking: Chunking,
  start: number,
  end: number,
  plaintextBytes: number,
): { span: Span; offset: number; bytes: number } {
  const sizeBytes = chunking.chunkBytes + tagBytes;
  const first = Math.min(Math.floor(start / chunking.chunkBytes), chunkCount(chunking, plaintextBytes) - 1);
  const span = { first, end: Math.max(first + 1, Math.ceil(end / chunking.chunkBytes)), plaintextBytes };
  const offset = first * sizeBytes;
  const bytes = Math.min(span.end * sizeBytes, sealedBytes(chunking, plaintextBytes)) - offset;
  return { span, offset, bytes };
}

/**
 * Opens a span of a payload.
 * @param source begins with the first chunk of the span, after what `begin` takes, and has at least
 * its last one
 * @param begin called once, at the first read
 * @param pool where the memory of the pieces comes from; it is fresh when undefined
 */
export function openSpan(
  source: ByteSource,
  begin: () => Awaitable<Chunks>,
  span: Span,
  pool?: BufferPool,
): ReadableStream<Uint8Array> {
  let index = span.first;
  const next = async (chunks: Chunks): Promise<{ batch: Batch; more: boolean }> => {
    const sizeBytes = chunks.chunkBytes + tagBytes;
    const total = chunkCount(chunks, span.plaintextBytes);
    const count = Math.min(batchBytes / chunks.chunkBytes, span.end - index);
    const last = index + count === total;
    const lastBytes = last ? span.plaintextBytes - (total - 1) * chunks.chunkBytes + tagBytes : sizeBytes;
    await source.fill((count - 1) * sizeBytes + lastBytes);
    if (source.length < (count - 1) * sizeBytes + lastBytes) {
      const detail = `the data is cut off after byte ${index * chunks.chunkBytes}`;
      throw new SealpinError('container_invalid', detail, { reason: 'payload' });
    }
    const inputs = Array.from({ length: count }, (_, position) =>
      source.take(position === count - 1 ? lastBytes : sizeBytes),
    );
    const batch = { inputs, first: index, last, outBytes: (count - 1) * chunks.chunkBytes + lastBytes - tagBytes };
    index += count;
    return { batch, more: index < span.end };
  };
  return openBatches(source, begin, next, pool);
}

/**
 * Returns `length` bytes of a stream after the first `skip`, and cancels it behind them.
 * The result errors with `container_invalid` when the stream is shorter.
 */
export function sliceStream(
  stream: ReadableStream<Uint8Array>,
  skip: number,
  length: number,
): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  let before = skip;
  let left = length;
  return pulled({
    async next() {
      while (left > 0) {
        const { done, value } = await reader.read();
        if (done) throw new SealpinError('container_invalid');
        const part = value.subarray(before, before + left);
        before = Math.max(0, before - value.length);
        left -= part.length;
        if (left === 0) await cancelQuietly(reader);
        if (part.length > 0) return part;
      }
      await cancelQuietly(reader);
      return undefined;
    },
    cancel: (reason) => reader.cancel(reason),
    ahead: 1,
  });
}
