/** Blocks of a file from one source, in the best way that it offers; nobody has hashed them yet. */
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import type { BufferPool } from '../streams/buffer-pool.ts';
import { equalBytes } from '../streams/equal-bytes.ts';
import { otherwise, SealpinError } from '../errors.ts';
import { byteReader, type ByteReader } from '../streams/reader.ts';
import type { BlockRequest, BlockSource } from './block-source.ts';
import { CarError, carReader, type CarBlock, type CarReader } from './car-reader.ts';
import { bytesOfCid, type Cid } from './cid.ts';

/** Unverified blocks from one source. */
export interface SourceReader {
  fetchBlock(request: BlockRequest, signal: AbortSignal): Promise<Uint8Array>;
  /** Cancels an open stream; the next `fetchBlock` opens another. */
  close(reason?: unknown): Promise<void>;
}

/** Where the memory of blocks comes from, and who counts the bytes of streams when they arrive. */
type Reading = { pool?: BufferPool | undefined; onBytes(bytes: number): void };

/** Uses the best that a source offers: CARs, else byte ranges for leaves, else single blocks. */
export function sourceReader(
  root: Cid,
  source: BlockSource,
  { end, ...reading }: Reading & { end?: number },
): SourceReader {
  const { car, read } = source;
  if (car) return carSourceReader((start, signal) => car.call(source, root.text, start, end, signal), reading);
  if (read) {
    return rangeSourceReader(source, reading, ({ start, contiguousBytes }, signal) =>
      read.call(source, root.text, start, contiguousBytes, signal),
    );
  }
  return { fetchBlock: ({ cid }, signal) => source.block(cid.text, signal), close: async () => undefined };
}

/** Leaves come from one stream for as many as follow each other, interior nodes one by one. */
function rangeSourceReader(
  source: BlockSource,
  { pool, onBytes }: Reading,
  open: (request: BlockRequest, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>,
): SourceReader {
  let reader: ByteReader | undefined;
  let position = 0;
  let remaining = 0;

  async function close(reason?: unknown): Promise<void> {
    const closing = reader;
    reader = undefined;
    await cancelQuietly(closing, reason);
  }

  return {
    async fetchBlock(request, signal) {
      const { cid, start, fileBytes, contiguousBytes } = request;
      if (fileBytes === undefined || contiguousBytes === 0) return source.block(cid.text, signal);
      if (!reader || start !== position || fileBytes > remaining) {
        await close();
        const stream = await otherwise(open(request, signal), 'pinning_lost', undefined);
        // It lacks a leaf, and may have, or find, this one.
        if (stream === undefined) return source.block(cid.text, signal);
        reader = byteReader(stream, pool, onBytes);
        position = start;
        remaining = contiguousBytes;
      }
      const bytes = await reader.read(fileBytes);
      if (bytes.length < fileBytes) throw new SealpinError('pinning_failed', 'its stream ended early');
      position += bytes.length;
      remaining -= bytes.length;
      if (remaining === 0) await close();
      return bytes;
    },
    close,
  };
}

/**
 * Unneeded bytes before a needed block: the path to a range, or, from a gateway without ranges, the
 * file so far.
 */
const maxUnneededBytes = 16_777_216;
const maxUnneededBlocks = 4096;

/**
 * The smallest common leaves (`size-16384` of Kubo's chunker): they bound the blocks that lie
 * before a range.
 */
const smallLeafBytes = 16_384;

/**
 * Blocks that are remembered: a CAR without duplicates has a leaf once that the file has often.
 * Few, because a buffer that lives longer is promoted to V8's old generation, which then is
 * collected some thirty times for a file of 256 MiB.
 */
const rememberedBlocks = 2;

/** All blocks come from CARs that begin with the root and are in depth-first order. */
function carSourceReader(
  open: (start: number, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>,
  { pool, onBytes }: Reading,
): SourceReader {
  let reader: CarReader | undefined;
  /** A block that was read and not asked for yet. */
  let lookahead: CarBlock | undefined;
  let recent: CarBlock[] = [];
  let position = 0;
  let unneededBytesLeft = 0;
  let unneededBlocksLeft = 0;

  async function close(reason?: unknown): Promise<void> {
    const closing = reader;
    reader = undefined;
    lookahead = undefined;
    recent = [];
    await cancelQuietly(closing, reason);
  }

  async function openAt(start: number, signal: AbortSignal): Promise<CarReader> {
    await close();
    reader = carReader(await open(start, signal), pool, onBytes);
    position = start;
    unneededBytesLeft = start + maxUnneededBytes;
    unneededBlocksLeft = Math.ceil(start / smallLeafBytes) + maxUnneededBlocks;
    return reader;
  }

  return {
    async fetchBlock({ cid, start, fileBytes = 0 }, signal) {
      const blocks = reader && start === position ? reader : await openAt(start, signal);
      const wanted = bytesOfCid(cid);
      const isWanted = (block: CarBlock) => equalBytes(block.cid, wanted);
      for (;;) {
        const block = lookahead ?? (await blocks.next());
        lookahead = undefined;
        if (block && isWanted(block)) {
          if (pool === undefined) recent = [block, ...recent].slice(0, rememberedBlocks);
          position += fileBytes;
          return block.bytes;
        }
        const repeated = recent.find(isWanted);
        if (repeated) {
          lookahead = block;
          position += fileBytes;
          return repeated.bytes;
        }
        if (!block) throw new CarError(`the CAR ends without ${cid.text}`, { isCutOff: true });
        unneededBytesLeft -= block.bytes.length;
        unneededBlocksLeft -= 1;
        if (unneededBytesLeft < 0 || unneededBlocksLeft < 0)
          throw new CarError(`the CAR has other blocks instead of ${cid.text}`);
      }
    },
    close,
  };
}
