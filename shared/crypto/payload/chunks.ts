/**
 * Payloads as sequences of sealed chunks: one engine for age's STREAM and for Cobblestone, which differ in the size of a chunk, in the nonces
 * and in how the last chunk is known.
 */
import { isSealpinError, SealpinError } from '../../errors.ts';
import type { Aead, Awaitable } from '../backends/backend.ts';
import type { ByteSource } from '../../streams/byte-source.ts';

const tagBytes = 16;
/** How much plaintext is in flight at once. */
const batchBytes = 1024 * 1024;
/** Of what is sealed, as it goes out. */
const pieceBytes = 1024 * 1024;

/** How a payload is cut. */
export type Chunking = {
  /** Plaintext bytes of a full chunk. */
  readonly chunkBytes: number;
  /** Whether the last chunk may be full (and is empty in an empty payload only), or is always shorter than a full one. */
  readonly fullLast: boolean;
  /** The most chunks that the format allows. */
  readonly maxChunks: number;
};

/** A payload's cut, its cipher and its nonces. */
export type Chunks = Chunking & { readonly aead: Aead; nonce(index: number, last: boolean): Uint8Array };

/** How many full chunks, none of them the last, are certain with `bytes` at hand. */
function certain(chunking: Chunking, bytes: number, sizeBytes: number): number {
  return chunking.fullLast ? Math.max(0, Math.ceil(bytes / sizeBytes) - 1) : Math.floor(bytes / sizeBytes);
}

/** How many bytes `plaintextBytes` take as chunks. */
export function sealedBytes(chunking: Chunking, plaintextBytes: number): number {
  if (!Number.isSafeInteger(plaintextBytes) || plaintextBytes < 0)
    throw new RangeError('plaintextBytes must be a whole number of at least 0');
  return plaintextBytes + tagBytes * (certain(chunking, plaintextBytes, chunking.chunkBytes) + 1);
}

/** How many plaintext bytes are in `sealed` bytes of chunks; undefined when no plaintext gives that size. */
export function openedBytes(chunking: Chunking, sealed: number): number | undefined {
  if (!Number.isSafeInteger(sealed) || sealed < tagBytes) return undefined;
  const plaintextBytes = sealed - tagBytes * (certain(chunking, sealed, chunking.chunkBytes + tagBytes) + 1);
  return plaintextBytes >= 0 && sealedBytes(chunking, plaintextBytes) === sealed ? plaintextBytes : undefined;
}

/** The chunks of one pull: cut from what the source has, and sealed or opened into one array. */
type Batch = { inputs: Uint8Array[]; first: number; last: boolean; outBytes: number };

function cut(source: ByteSource, chunks: Chunks, first: number, sealed: boolean): Batch {
  const sizeBytes = chunks.chunkBytes + (sealed ? tagBytes : 0);
  const perBatch = batchBytes / chunks.chunkBytes;
  const count = Math.min(certain(chunks, source.length, sizeBytes), perBatch);
  const inputs: Uint8Array[] = [];
  for (let index = 0; index < count; index += 1) inputs.push(source.take(sizeBytes));
  const last = source.ended && certain(chunks, source.length, sizeBytes) === 0;
  const rest = last ? source.length : 0;
  if (last) inputs.push(source.take(rest));
  const outBytes =
    count * (chunks.chunkBytes + (sealed ? 0 : tagBytes)) +
    (last ? Math.max(0, rest + (sealed ? -tagBytes : tagBytes)) : 0);
  if (first + inputs.length > chunks.maxChunks)
    throw new SealpinError('too_large', 'The container is larger than its format allows');
  return { inputs, first, last, outBytes };
}

/** A stream that makes its pieces by `next`, which returns false after the last one. */
function pulled(
  source: ByteSource,
  next: (controller: ReadableStreamDefaultController<Uint8Array>) => Promise<boolean>,
): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      try {
        if (await next(controller)) return;
        controller.close();
        // A part ends before its source does.
        if (!source.ended) await source.cancel(undefined);
      } catch (error) {
        source.abandon(error);
        throw error;
      }
    },
    cancel: (reason) => source.cancel(reason),
  });
}

/** A run of bytes written out of order, as pieces of `pieceBytes`. */
class Pieces {
  #first = new Uint8Array(pieceBytes);
  #filled = 0;

  /** Makes room for so many more bytes, and gives what writes into it at an offset. */
  append(bytes: number): {
    target(offset: number, length: number): Uint8Array | undefined;
    set(bytes: Uint8Array, offset: number): void;
    full(): Uint8Array[];
  } {
    const from = this.#filled;
    const end = from + bytes;
    const pieces = [this.#first];
    while (pieces.length * pieceBytes < end) pieces.push(new Uint8Array(pieceBytes));
    return {
      /** Where `length` bytes go, unless they fall into two pieces. */
      target(offset, length) {
        const at = (from + offset) % pieceBytes;
        return at + length > pieceBytes
          ? undefined
          : pieces[Math.floor((from + offset) / pieceBytes)]!.subarray(at, at + length);
      },
      set(part, offset) {
        const index = Math.floor((from + offset) / pieceBytes);
        const at = (from + offset) % pieceBytes;
        pieces[index]!.set(part.subarray(0, pieceBytes - at), at);
        if (part.length > pieceBytes - at) pieces[index + 1]!.set(part.subarray(pieceBytes - at));
      },
      /** The pieces that are full, which are given away. */
      full: () => {
        const full = pieces.splice(0, Math.floor(end / pieceBytes));
        this.#first = pieces[0] ?? new Uint8Array(pieceBytes);
        this.#filled = end - full.length * pieceBytes;
        return full;
      },
    };
  }

  /** What is left at the end. */
  rest(): Uint8Array {
    return this.#first.subarray(0, this.#filled);
  }
}

/**
 * Seals all of the source, into pieces of 1 MiB whatever the cut: those are the leaves of its CID.
 * @param prefix goes out before the first chunk
 */
export function sealChunks(source: ByteSource, chunks: Chunks, prefix: Uint8Array): ReadableStream<Uint8Array> {
  let index = 0;
  const pieces = new Pieces();
  const before = pieces.append(prefix.length);
  before.set(prefix, 0);
  const ahead = before.full();
  return pulled(source, async (controller) => {
    for (const piece of ahead.splice(0)) controller.enqueue(piece);
    for (;;) {
      await source.fill(batchBytes);
      const batch = cut(source, chunks, index, false);
      const room = pieces.append(batch.outBytes);
      const pending: Promise<void>[] = [];
      let offset = 0;
      for (const [at, input] of batch.inputs.entries()) {
        const nonce = chunks.nonce(index + at, batch.last && at === batch.inputs.length - 1);
        const start = offset;
        const target = room.target(start, input.length + tagBytes);
        const sealed = chunks.aead.seal(nonce, input, undefined, target);
        const place = (bytes: Uint8Array): void => void (bytes === target || room.set(bytes, start));
        if (sealed instanceof Promise) pending.push(sealed.then(place));
        else place(sealed);
        offset += input.length + tagBytes;
      }
      if (pending.length > 0) await Promise.all(pending);
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

function place(result: Awaitable<Uint8Array>, target: Uint8Array): Promise<void> | undefined {
  if (result instanceof Promise) return result.then((bytes) => void (bytes === target || target.set(bytes)));
  if (result !== target) target.set(result);
  return undefined;
}

/**
 * Opens all of the source. What comes out is a prefix of what was sealed, also when the stream ends with an error.
 * @param begin called once, at the first read: it takes what is before the chunks
 */
export function openChunks(source: ByteSource, begin: () => Awaitable<Chunks>): ReadableStream<Uint8Array> {
  let index = 0;
  return opened(source, begin, async (chunks) => {
    await source.fill((batchBytes / chunks.chunkBytes) * (chunks.chunkBytes + tagBytes));
    const batch = cut(source, chunks, index, true);
    index += batch.inputs.length;
    return { batch, more: !batch.last };
  });
}

/** A part of a payload: chunks `first` up to `end` (exclusive), where the payload has `plaintextBytes` in all. */
export type Span = { first: number; end: number; plaintextBytes: number };

/**
 * Where the chunks of a part of the plaintext are, relative to the first chunk of the payload.
 * @param start @param end in plaintext bytes, end exclusive
 */
export function spanOf(
  chunking: Chunking,
  start: number,
  end: number,
  plaintextBytes: number,
): { span: Span; offset: number; bytes: number } {
  const sizeBytes = chunking.chunkBytes + tagBytes;
  const total = certain(chunking, plaintextBytes, chunking.chunkBytes) + 1;
  const first = Math.min(Math.floor(start / chunking.chunkBytes), total - 1);
  const span = { first, end: Math.max(first + 1, Math.ceil(end / chunking.chunkBytes)), plaintextBytes };
  const offset = first * sizeBytes;
  return { span, offset, bytes: Math.min(span.end * sizeBytes, sealedBytes(chunking, plaintextBytes)) - offset };
}

/** Opens a part of a payload: the source stands at its first chunk (after what `begin` takes), and has at least its last one. */
export function openSpan(source: ByteSource, begin: () => Awaitable<Chunks>, span: Span): ReadableStream<Uint8Array> {
  let index = span.first;
  return opened(source, begin, async (chunks) => {
    const sizeBytes = chunks.chunkBytes + tagBytes;
    const total = certain(chunks, span.plaintextBytes, chunks.chunkBytes) + 1;
    const count = Math.min(batchBytes / chunks.chunkBytes, span.end - index);
    const last = index + count === total;
    const lastBytes = last ? span.plaintextBytes - (total - 1) * chunks.chunkBytes + tagBytes : sizeBytes;
    await source.fill((count - 1) * sizeBytes + lastBytes);
    if (source.length < (count - 1) * sizeBytes + lastBytes) {
      const detail = `The data is cut off after byte ${index * chunks.chunkBytes}`;
      throw new SealpinError('container_invalid', detail, { reason: 'payload' });
    }
    const inputs = Array.from({ length: count }, (_, at) => source.take(at === count - 1 ? lastBytes : sizeBytes));
    const batch = { inputs, first: index, last, outBytes: (count - 1) * chunks.chunkBytes + lastBytes - tagBytes };
    index += count;
    return { batch, more: index < span.end };
  });
}

function opened(
  source: ByteSource,
  begin: () => Awaitable<Chunks>,
  next: (chunks: Chunks) => Promise<{ batch: Batch; more: boolean }>,
): ReadableStream<Uint8Array> {
  let chunks: Chunks | undefined;
  let failure: Error | undefined;
  return pulled(source, async (controller) => {
    if (failure !== undefined) throw failure;
    chunks ??= await begin();
    const { batch, more } = await next(chunks);
    const { bytes, failure: found } = await openBatch(batch, chunks);
    source.recycle();
    failure = found;
    if (bytes.length > 0) controller.enqueue(bytes);
    // A stream that fails drops what was not read yet: what is authentic goes out first, and the next pull fails.
    else if (failure !== undefined) throw failure;
    return failure !== undefined || more;
  });
}

/** The bytes of a stream from `skip` on, `length` of them; then the stream is cancelled. */
export function slice(stream: ReadableStream<Uint8Array>, skip: number, length: number): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  let before = skip;
  let left = length;
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new SealpinError('container_invalid');
        const part = value.subarray(before, before + left);
        before = Math.max(0, before - value.length);
        left -= part.length;
        if (part.length > 0) controller.enqueue(part);
        if (left === 0) {
          controller.close();
          await reader.cancel();
          return;
        }
        if (part.length > 0) return;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

async function openBatch(batch: Batch, chunks: Chunks): Promise<{ bytes: Uint8Array; failure?: Error }> {
  const out = new Uint8Array(batch.outBytes);
  const failures = new Map<number, Error>();
  const pending: Promise<void>[] = [];
  for (const [at, input] of batch.inputs.entries()) {
    const last = batch.last && at === batch.inputs.length - 1;
    const offset = at * chunks.chunkBytes;
    try {
      if (last) checkLast(input, batch.first + at, chunks);
      const target = out.subarray(offset, offset + input.length - tagBytes);
      const placed = place(chunks.aead.open(chunks.nonce(batch.first + at, last), input, undefined, target), target);
      if (placed !== undefined) pending.push(placed.catch((error: Error) => void failures.set(at, error)));
    } catch (error) {
      failures.set(at, error as Error);
      break;
    }
  }
  if (pending.length > 0) await Promise.all(pending);
  if (failures.size === 0) return { bytes: out };
  const at = Math.min(...failures.keys());
  const found = failures.get(at)!;
  const good = out.subarray(0, at * chunks.chunkBytes);
  const position = (batch.first + at) * chunks.chunkBytes;
  const failure = damaged(found, position, batch.last && at === batch.inputs.length - 1);
  if (!chunks.fullLast || !isSealpinError(found, 'decrypt_failed')) return { bytes: good, failure };
  return misplaced(batch, at, chunks, good, failure);
}

/**
 * A failure of a payload whose header opened, with the place.
 * @param position plaintext bytes before it @param atEnd whether nothing follows, so that the rest may just be missing
 */
function damaged(failure: Error, position: number, atEnd: boolean): Error {
  if (!isSealpinError(failure)) return failure;
  const how = atEnd ? 'damaged or cut off' : 'damaged';
  return new SealpinError(failure.code, `The data is ${how} after byte ${position}`, { reason: 'payload' });
}

function checkLast(input: Uint8Array, index: number, chunks: Chunks): void {
  if (input.length < tagBytes || (chunks.fullLast && input.length === tagBytes && index > 0))
    throw new SealpinError('container_invalid');
}

/**
 * A chunk that does not open as what its place says may open as the opposite: the last one although more follows, or one of the middle
 * although nothing follows. Its bytes are authentic, and the container is longer or shorter than what was sealed.
 */
async function misplaced(
  batch: Batch,
  at: number,
  chunks: Chunks,
  good: Uint8Array,
  failure: Error,
): Promise<{ bytes: Uint8Array; failure: Error }> {
  const input = batch.inputs[at]!;
  const last = batch.last && at === batch.inputs.length - 1;
  if (last && input.length !== chunks.chunkBytes + tagBytes) return { bytes: good, failure };
  try {
    const opened = await chunks.aead.open(chunks.nonce(batch.first + at, !last), input);
    const bytes = new Uint8Array(good.length + opened.length);
    bytes.set(good);
    bytes.set(opened, good.length);
    const end = (batch.first + at) * chunks.chunkBytes + opened.length;
    const detail = last
      ? `The data is cut off after byte ${end}`
      : `Something follows the end of the data at byte ${end}`;
    return { bytes, failure: new SealpinError('container_invalid', detail, { reason: 'payload' }) };
  } catch (error) {
    if (!isSealpinError(error, 'decrypt_failed')) throw error;
    return { bytes: good, failure };
  }
}
