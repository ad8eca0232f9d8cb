/**
 * The next block from the next source: each block is hashed, and after a failure another source continues at that
 * block.
 */
import { equalBytes } from '../streams/equal-bytes.ts';
import { isSealpinError, SealpinError } from '../errors.ts';
import type { BufferPool } from '../streams/buffer-pool.ts';
import { byteReader, type ByteReader } from '../streams/reader.ts';
import type { BlockRequest, BlockSource, FetchBlock } from './block-source.ts';
import { sha256, type Digest } from './tree.ts';
import { carReader, type CarBlock, type CarReader } from './car-reader.ts';
import { bytesOfCid, type Cid } from './cid.ts';
import { maxBlockBytes } from './profile.ts';

/** Blocks from several sources, the next one when one fails. */
export interface FailoverReader {
  /** @throws when every source failed: content_mismatch if one gave wrong bytes, else the code of the last failure */
  fetchBlock: FetchBlock;
  /** Ends all open requests. */
  close(reason?: unknown): void;
}

type FailoverOptions = {
  /** The byte of the file (exclusive) up to which blocks are needed; undefined: all of it. */
  end?: number;
  signal: AbortSignal;
  /** The longest wait for one block. */
  idleMs: number;
  /** Record of the failures of the sources; all reads of one file share it. */
  strikes: Strikes;
  /** After how long another source is asked as well: the first verified block counts. Undefined: only after a failure. */
  hedgeMs: number | undefined;
  /** SHA-256; WebCrypto when undefined. */
  digest: Digest | undefined;
  /** Skips hashing of leaves. */
  passLeaves: boolean | undefined;
  /** Source of the memory of blocks in CARs; a block that the file repeats is not remembered then. */
  pool: BufferPool | undefined;
  /** Called with a source that gave wrong bytes, and the CID of the block. */
  onMismatch: ((source: BlockSource, cid: string) => void) | undefined;
};

/** Number of failures of each source in one file, and the last one. */
export type Strikes = Map<BlockSource, { count: number; error: SealpinError }>;

/** A source that has so many strikes is not asked again. Wrong bytes are as bad as all of them. */
const maxStrikes = 3;

/** A block that does not have the hash in its CID. */
class IntegrityError extends SealpinError {
  constructor({ cid }: BlockRequest) {
    super('content_mismatch', `what it gave for ${cid.text} is something else`);
  }
}

type Failure = { id: string; error: SealpinError };

/** Result of a request to a source; without bytes it failed. */
type Attempt = { source: BlockSource; bytes: Uint8Array | undefined };

/** The open requests to one source. `stop` ends them, and `signal` is what they listen to. */
type Connection = { requests: SourceReader; stop: AbortController; signal: AbortSignal };

/**
 * Reads blocks of the file below `root`, in order, from the first source that gives them.
 * For each block every source is asked once, and the one that gave the block before it a second time: its stream may have broken.
 */
export function failoverReader(root: Cid, sources: readonly BlockSource[], o: FailoverOptions): FailoverReader {
  const digest = o.digest ?? sha256;
  const connections = new Map<BlockSource, Connection>();
  let current = sources[0];
  let hasDelivered = false;
  const waiting = new Set<(reason: Error) => void>();
  const onAbort = () => {
    for (const reject of waiting) reject(o.signal.reason as Error);
  };
  o.signal.addEventListener('abort', onAbort);

  async function fetchBlock(request: BlockRequest): Promise<Uint8Array> {
    o.signal.throwIfAborted();
    const failures: Failure[] = [];
    let brokenOff: BlockSource | undefined;
    const candidates = [current, ...sources.filter((source) => source !== current), hasDelivered ? current : undefined];
    const running = new Map<BlockSource, Promise<Attempt>>();
    try {
      for (;;) {
        if (running.size === 0 && !startNext()) throw (await lossOf(brokenOff, request)) ?? summaryOf(failures);
        const canHedge = candidates.some((source) => source && !running.has(source));
        const outcome = await firstOf([...running.values()], canHedge ? o.hedgeMs : undefined);
        if (outcome === 'late') {
          startNext();
          continue;
        }
        running.delete(outcome.source);
        if (outcome.bytes === undefined) continue;
        current = outcome.source;
        hasDelivered = true;
        return outcome.bytes;
      }
    } finally {
      const slower = [...running.keys()];
      running.clear();
      for (const source of slower) disconnect(source, new Error('another source was faster'));
    }

    /** Asks the next source that may be asked. @returns whether there was one */
    function startNext(): boolean {
      for (let source = candidates.shift(); source || candidates.length > 0; source = candidates.shift()) {
        if (!source || running.has(source)) continue;
        const strikes = o.strikes.get(source);
        if (strikes && strikes.count >= maxStrikes) {
          failures.push({ id: source.id, error: strikes.error });
          continue;
        }
        const attempt = attemptFrom(source);
        attempt.catch(() => undefined); // another one may have ended the block
        running.set(source, attempt);
        return true;
      }
      return false;
    }

    async function attemptFrom(source: BlockSource): Promise<Attempt> {
      try {
        return { source, bytes: await fetchFrom(source, request) };
      } catch (cause) {
        if (!running.has(source)) return { source, bytes: undefined };
        disconnect(source, cause);
        o.signal.throwIfAborted();
        fail(source, cause);
        return { source, bytes: undefined };
      }
    }

    function fail(source: BlockSource, cause: unknown): void {
      const error = isSealpinError(cause)
        ? cause
        : new SealpinError('pinning_unavailable', 'it cannot be reached', { cause });
      failures.push({ id: source.id, error });
      if (source.car && error.reason === 'broken_off') brokenOff = source;
      if (cause instanceof IntegrityError) o.onMismatch?.(source, request.cid.text);
      const count = cause instanceof IntegrityError ? maxStrikes : (o.strikes.get(source)?.count ?? 0) + 1;
      o.strikes.set(source, { count, error });
    }
  }

  /** The stream of a source that has lost a block breaks off there. Asked for that block alone, it says so. */
  async function lossOf(source: BlockSource | undefined, { cid }: BlockRequest): Promise<SealpinError | undefined> {
    if (source === undefined) return undefined;
    try {
      await withTimeout(source.block(cid.text, connect(source).signal));
      return undefined;
    } catch (error) {
      o.signal.throwIfAborted();
      return isSealpinError(error, 'pinning_lost') ? error : undefined;
    } finally {
      disconnect(source, new Error('it was asked for the reason only'));
    }
  }

  async function fetchFrom(source: BlockSource, request: BlockRequest): Promise<Uint8Array> {
    const { requests, signal } = connections.get(source) ?? connect(source);
    const bytes = await withTimeout(requests.fetchBlock(request, signal));
    if (await isWanted(bytes, request)) return bytes;
    // Who makes a CAR may leave it to us to hash leaves. A single block it does hash: so it learns of the damage, and may have another copy.
    const single =
      source.car && (await withTimeout(source.block(request.cid.text, signal)).catch(() => signal.throwIfAborted()));
    if (single && (await isWanted(single, request))) return single;
    throw new IntegrityError(request);
  }

  async function isWanted(bytes: Uint8Array, { cid, fileBytes }: BlockRequest): Promise<boolean> {
    if (bytes.length > maxBlockBytes) return false;
    if (o.passLeaves === true && cid.codec === 'raw') return fileBytes === undefined || bytes.length === fileBytes;
    return equalBytes(await digest(bytes), cid.digest);
  }

  function connect(source: BlockSource): Connection {
    const stop = new AbortController();
    const signal = AbortSignal.any([o.signal, stop.signal]);
    const connection = { requests: sourceReader(root, source, o), stop, signal };
    connections.set(source, connection);
    return connection;
  }

  /** Ends the wait also for a source that ignores its signal. */
  async function withTimeout(block: Promise<Uint8Array>): Promise<Uint8Array> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const timer = setTimeout(
      () => reject(new SealpinError('pinning_timeout', `it sent nothing for ${o.idleMs} ms`)),
      o.idleMs,
    );
    waiting.add(reject);
    block.then(resolve, reject);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      waiting.delete(reject);
    }
  }

  function disconnect(source: BlockSource, reason: unknown): void {
    const connection = connections.get(source);
    connections.delete(source);
    connection?.stop.abort(reason);
    // The stream is not needed any more, and so an error of its cancel is not, either.
    connection?.requests.close(reason).catch(() => undefined);
  }

  return {
    fetchBlock,
    close(reason) {
      o.signal.removeEventListener('abort', onAbort);
      for (const source of connections.keys()) disconnect(source, reason);
    },
  };
}

/** The first attempt that ends; `late` where none has after that time in ms. */
async function firstOf(attempts: readonly Promise<Attempt>[], lateMs: number | undefined): Promise<Attempt | 'late'> {
  if (lateMs === undefined) return await Promise.race(attempts);
  const { promise: late, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(() => resolve('late'), lateMs);
  try {
    return await Promise.race([...attempts, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** One error for the failures of all sources: wrong bytes are reported first, otherwise the last failure decides. */
function summaryOf(failures: readonly Failure[]): SealpinError {
  const decisive = failures.find(({ error }) => error.code === 'content_mismatch') ?? failures.at(-1);
  if (!decisive) return new SealpinError('not_found', 'there is no source to ask');
  const { code, reason, hint, retryAfterSeconds } = decisive.error;
  // A source that was asked again and failed in the same way is named once.
  const detail = [...new Set(failures.map(({ id, error }) => `${id}: ${error.message}`))].join('; ');
  const cause = failures.length === 1 ? decisive.error : new AggregateError(failures.map(({ error }) => error));
  return new SealpinError(code, detail, {
    cause,
    ...(reason !== undefined && { reason }),
    ...(hint !== undefined && { hint }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
}

/** Unverified blocks from one source. */
interface SourceReader {
  fetchBlock(request: BlockRequest, signal: AbortSignal): Promise<Uint8Array>;
  /** Cancels an open stream; the next `fetchBlock` opens another. */
  close(reason?: unknown): Promise<void>;
}

/** Uses the best that a source offers: CARs, else byte ranges for leaves, else single blocks. */
function sourceReader(
  root: Cid,
  source: BlockSource,
  { end, pool }: Pick<FailoverOptions, 'end' | 'pool'>,
): SourceReader {
  const { car, read } = source;
  if (car) return carSourceReader((start, signal) => car.call(source, root.text, start, end, signal), pool);
  if (read) {
    return rangeSourceReader(source, ({ start, contiguousBytes }, signal) =>
      read.call(source, root.text, start, contiguousBytes, signal),
    );
  }
  return {
    fetchBlock: ({ cid }, signal) => source.block(cid.text, signal),
    close: async () => undefined,
  };
}

/** Leaves come from one stream for as many as follow each other, interior nodes one by one. */
function rangeSourceReader(
  source: BlockSource,
  open: (request: BlockRequest, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>,
): SourceReader {
  let reader: ByteReader | undefined;
  let position = 0;
  let remaining = 0;

  async function close(reason?: unknown): Promise<void> {
    const closing = reader;
    reader = undefined;
    await closing?.cancel(reason);
  }

  return {
    async fetchBlock(request, signal) {
      const { cid, start, fileBytes, contiguousBytes } = request;
      if (fileBytes === undefined || contiguousBytes === 0) return source.block(cid.text, signal);
      if (!reader || start !== position || fileBytes > remaining) {
        await close();
        const stream = await open(request, signal).catch((error: unknown) => {
          if (!isSealpinError(error, 'pinning_lost')) throw error;
          return undefined;
        });
        // It lacks a leaf, and may have, or find, this one.
        if (stream === undefined) return source.block(cid.text, signal);
        reader = byteReader(stream);
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
 * Unneeded blocks that a CAR may have before a needed one: the path to a range, say. A gateway without ranges sends
 * the file from its start.
 */
const maxUnneededBytes = 16_777_216;
const maxUnneededBlocks = 4096;

/**
 * The smallest leaves that are common (Kubo's chunker `size-16384` and above): so many blocks lie before a range at
 * most.
 */
const smallLeafBytes = 16_384;

/**
 * Blocks that are remembered: a CAR without duplicates has a leaf once that the file has often. Few, because a buffer that lives
 * longer is promoted to V8's old generation, which then is collected some thirty times for a file of 256 MiB.
 */
const rememberedBlocks = 2;

/** All blocks come from CARs that begin with the root and are in depth-first order. */
function carSourceReader(
  open: (start: number, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>,
  pool: BufferPool | undefined,
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
    await closing?.cancel(reason);
  }

  async function openAt(start: number, signal: AbortSignal): Promise<CarReader> {
    await close();
    reader = carReader(await open(start, signal), pool);
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
        if (!block) throw new SealpinError('content_mismatch', `the CAR ends without ${cid.text}`);
        unneededBytesLeft -= block.bytes.length;
        unneededBlocksLeft -= 1;
        if (unneededBytesLeft < 0 || unneededBlocksLeft < 0)
          throw new SealpinError('content_mismatch', `the CAR has other blocks instead of ${cid.text}`);
      }
    },
    close,
  };
}
