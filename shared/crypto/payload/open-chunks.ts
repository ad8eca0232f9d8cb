/**
 * Opening a payload: one engine for age's STREAM and for Cobblestone, which differ in the size of a
 * chunk, in the nonces and in how the last chunk is known.
 */
import { isSealpinError, SealpinError } from '../../errors.ts';
import { at } from '../../streams/at.ts';
import type { BufferPool } from '../../streams/buffer-pool.ts';
import type { ByteSource } from '../../streams/byte-source.ts';
import { concat } from '../../streams/concat.ts';
import type { Awaitable } from '../providers/provider.ts';
import { streamBatches, takeBatch, type Batch } from './batch.ts';
import { batchBytes, tagBytes, type Chunks } from './chunking.ts';

/**
 * Opens all of a source. The result is a prefix of what was sealed, also when the stream ends with
 * an error.
 * @param begin called once, at the first read: it takes what is before the chunks
 */
export function openChunks(
  source: ByteSource,
  begin: () => Awaitable<Chunks>,
  pool?: BufferPool,
): ReadableStream<Uint8Array> {
  let index = 0;
  return openBatches(
    source,
    begin,
    async (chunks) => {
      await source.fill((batchBytes / chunks.chunkBytes) * (chunks.chunkBytes + tagBytes));
      const batch = takeBatch(source, chunks, index, true);
      index += batch.inputs.length;
      return { batch, more: !batch.last };
    },
    pool,
  );
}

/**
 * Opens the batches that `next` takes from a source.
 * @param begin called once, at the first read: it takes what is before the chunks
 * @param next returns the next batch, and whether there is one after it
 * @param pool where the memory of the pieces comes from; it is fresh when undefined
 */
export function openBatches(
  source: ByteSource,
  begin: () => Awaitable<Chunks>,
  next: (chunks: Chunks) => Promise<{ batch: Batch; more: boolean }>,
  pool?: BufferPool,
): ReadableStream<Uint8Array> {
  let chunks: Chunks | undefined;
  let failure: Error | undefined;
  return streamBatches(source, async (controller) => {
    if (failure !== undefined) throw failure;
    chunks ??= await begin();
    const { batch, more } = await next(chunks);
    const result = await openBatch(batch, chunks, pool);
    source.recycle();
    failure = result.failure;
    if (result.bytes.length > 0) controller.enqueue(result.bytes);
    // A stream that fails drops what was not read yet: what is authentic goes out first, and the
    // next pull fails.
    else if (failure !== undefined) throw failure;
    return failure !== undefined || more;
  });
}

/** The authentic bytes of a batch, and the failure behind them. */
type OpenedBatch = { bytes: Uint8Array; failure?: Error };

async function openBatch(batch: Batch, chunks: Chunks, pool: BufferPool | undefined): Promise<OpenedBatch> {
  const out = pool?.take(batch.outBytes) ?? new Uint8Array(batch.outBytes);
  const failures: { position: number; error: Error }[] = [];
  const pending: Promise<void>[] = [];
  for (const [position, input] of batch.inputs.entries()) {
    const last = batch.last && position === batch.inputs.length - 1;
    const index = batch.first + position;
    const offset = position * chunks.chunkBytes;
    try {
      const isTooShort = input.length < tagBytes || (chunks.fullLast && input.length === tagBytes && index > 0);
      if (last && isTooShort) throw new SealpinError('container_invalid');
      const target = out.subarray(offset, offset + input.length - tagBytes);
      const opened = chunks.aead.open(chunks.nonce(index, last), input, undefined, target);
      const copied = copyInto(target, opened);
      if (copied !== undefined) pending.push(copied.catch((error: Error) => void failures.push({ position, error })));
    } catch (error) {
      failures.push({ position, error: error as Error });
      break;
    }
  }
  if (pending.length > 0) await Promise.all(pending);
  const [first] = failures.toSorted((a, b) => a.position - b.position);
  if (first === undefined) return { bytes: out };
  const { position, error } = first;
  const authentic = out.subarray(0, position * chunks.chunkBytes);
  const isLast = batch.last && position === batch.inputs.length - 1;
  const failure = damagedAt((batch.first + position) * chunks.chunkBytes, isLast, error);
  if (!chunks.fullLast || !isSealpinError(error, 'decrypt_failed')) return { bytes: authentic, failure };
  return (await openMisplaced(batch, position, chunks, authentic)) ?? { bytes: authentic, failure };
}

/** Copies what a cipher returned into `target`, unless it wrote there itself. */
function copyInto(target: Uint8Array, result: Awaitable<Uint8Array>): Promise<void> | undefined {
  if (result instanceof Promise) {
    return result.then((bytes) => {
      if (bytes !== target) target.set(bytes);
    });
  }
  if (result !== target) target.set(result);
  return undefined;
}

/**
 * Returns the failure of a payload whose header opened, with its place.
 * @param offset plaintext bytes before it
 * @param isLast whether nothing follows, so that the rest may just be missing
 */
function damagedAt(offset: number, isLast: boolean, failure: Error): Error {
  if (!isSealpinError(failure)) return failure;
  const how = isLast ? 'damaged or cut off' : 'damaged';
  return new SealpinError(failure.code, `the data is ${how} after byte ${offset}`, { reason: 'payload' });
}

/**
 * Opens a chunk that failed as its place demands in the other way: as the last one although more
 * follows, or as one in the middle although nothing follows. If that succeeds, its bytes are
 * authentic, and the container is longer or shorter than what was sealed.
 */
async function openMisplaced(
  batch: Batch,
  position: number,
  chunks: Chunks,
  before: Uint8Array,
): Promise<OpenedBatch | undefined> {
  const input = at(batch.inputs, position);
  const isLast = batch.last && position === batch.inputs.length - 1;
  if (isLast && input.length !== chunks.chunkBytes + tagBytes) return undefined;
  try {
    const opened = await chunks.aead.open(chunks.nonce(batch.first + position, !isLast), input);
    const end = (batch.first + position) * chunks.chunkBytes + opened.length;
    const detail = isLast
      ? `the data is cut off after byte ${end}`
      : `something follows the end of the data at byte ${end}`;
    return {
      bytes: concat(before, opened),
      failure: new SealpinError('container_invalid', detail, { reason: 'payload' }),
    };
  } catch (error) {
    if (!isSealpinError(error, 'decrypt_failed')) throw error;
    return undefined;
  }
}
