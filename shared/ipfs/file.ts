/** Reading a file by its CID from sources that are not trusted. */
import { SealpinError } from '../errors.ts';
import type { BlockOptions, BlockSource } from './block-source.ts';
import { parseCid, type Cid } from './cid.ts';
import { FailoverReader, type Strikes } from './failover-reader.ts';
import { decodeNode } from './unixfs.ts';
import { fetchRoot, walk, type Block, type Root } from './walk.ts';
import { pulled } from '../streams/pulled.ts';
import { timeLimit } from '../streams/timing.ts';

/** Caps on what a source may cost. */
export type ReadingLimits = {
  /** The largest file in bytes; `too_large` beyond it. No cap when undefined. */
  fileBytes?: number | undefined;
  /**
   * The longest wait for a whole block, or for 60 KiB of one in a stream, connecting included: 60 s
   * when undefined.
   */
  idleMs?: number | undefined;
  /** The longest that one read of the file may take in all: 24 h when undefined. */
  totalMs?: number | undefined;
};

const defaultIdleMs = 60_000;
const defaultTotalMs = 86_400_000;

/** Options for reading a file. */
export type OpenOptions = BlockOptions & {
  signal?: AbortSignal | undefined;
  limits?: ReadingLimits | undefined;
  /**
   * Gets each block that is read, verified, before its bytes go out; the bytes must not be changed.
   * The reading waits for it.
   */
  onBlock?: ((block: Pick<Block, 'cid' | 'bytes'>) => Promise<void>) | undefined;
};

/** A file whose root was verified. */
export type IpfsFile = {
  /** Bytes of the file. */
  size: number;
  /**
   * Its verified bytes from `start` (default 0) up to `end` (exclusive; default `size`), a leaf or
   * a part of one in each chunk. Only the blocks of the range are fetched. The chunks must not be
   * changed: a leaf that the file repeats is kept for its next use.
   */
  read(start?: number, end?: number): ReadableStream<Uint8Array>;
};

/** The verified blocks of a range, in depth-first order; `next` gives undefined at the end. */
export type BlockIterator = { next(): Promise<Block | undefined>; close(reason?: unknown): void };

/**
 * Opens the file of a CID. Only its root is fetched; abort the signal if nothing else is needed.
 * @throws invalid_cid, too_large, content_mismatch (also when a source ends early), pinning_timeout
 * when a source stalls, and what the sources throw. When all of them failed, the message names
 * each. The streams fail with the same codes.
 */
export async function openFile(cid: string, sources: readonly BlockSource[], o: OpenOptions = {}): Promise<IpfsFile> {
  const { root, blocks } = await openDag(cid, sources, o);
  return {
    size: root.size,
    read(start = 0, end = root.size) {
      if (!(start >= 0 && start <= end && end <= root.size))
        throw new TypeError(`no range of ${root.size} bytes: ${start} to ${end}`);
      const iterator = blocks(start, end);
      return pulled({
        async next() {
          let block = end > start ? await iterator.next() : undefined;
          while (block !== undefined && block.cid.codec !== 'raw') block = await iterator.next();
          if (block === undefined) iterator.close();
          return block?.bytes.subarray(Math.max(0, start - block.start), end - block.start);
        },
        cancel: (reason) => iterator.close(reason),
        ahead: 1,
      });
    },
  };
}

/** One verified block, whatever it holds. Fails as `openFile`. */
export async function readBlock(
  text: string,
  sources: readonly BlockSource[],
  { signal = new AbortController().signal, limits = {}, ...options }: OpenOptions = {},
): Promise<Uint8Array> {
  const cid = parseCid(text);
  const idleMs = limits.idleMs ?? defaultIdleMs;
  const own = { signal, idleMs, strikes: new Map(), passLeaves: false, pool: undefined };
  const reader = new FailoverReader(cid, sources, { ...options, ...own });
  try {
    return await reader.fetchBlock({ cid, start: 0, fileBytes: undefined, contiguousBytes: 0 });
  } finally {
    reader.close();
  }
}

/**
 * Every block of a file with its length in bytes, each CID once, parents before children. Of the
 * leaves none is fetched, but for a root. Fails as `openFile`.
 */
export async function* blocksOf(
  text: string,
  sources: readonly BlockSource[],
  o: OpenOptions = {},
): AsyncGenerator<{ cid: Cid; blockBytes: number }> {
  const known = new Set([text]);
  const nodes = [parseCid(text)];
  for (let node = nodes.pop(); node !== undefined; node = nodes.pop()) {
    const block = await readBlock(node.text, sources, o);
    yield { cid: node, blockBytes: block.length };
    if (node.codec === 'raw') return;
    for (const { cid, fileBytes } of decodeNode(block, text)) {
      if (known.has(cid.text)) continue;
      known.add(cid.text);
      if (cid.codec === 'raw') yield { cid, blockBytes: fileBytes };
      else nodes.push(cid);
    }
  }
}

/** Opens the blocks of a file. Fails as `openFile`. */
export async function openDag(
  text: string,
  sources: readonly BlockSource[],
  { signal = new AbortController().signal, limits = {}, onBlock, ...options }: OpenOptions,
): Promise<{ root: Root; blocks(start: number, end: number): BlockIterator }> {
  const cid = parseCid(text);
  const { fileBytes = Infinity, idleMs = defaultIdleMs, totalMs = defaultTotalMs } = limits;
  const strikes: Strikes = new Map();
  // The stream that the root came in may continue with the rest of the file.
  const common = { ...options, idleMs, strikes };
  let rootReader: FailoverReader | undefined = new FailoverReader(cid, sources, { ...common, signal });
  let root: Root;
  try {
    root = await fetchRoot(cid, rootReader.fetchBlock);
    if (root.size > fileBytes)
      throw new SealpinError('too_large', `the file has ${root.size} bytes, more than ${fileBytes}`);
  } catch (cause) {
    rootReader.close(cause);
    throw cause;
  }

  function readerFor(start: number, end: number, stop: AbortSignal): FailoverReader {
    const reusable = start === 0 ? rootReader : undefined;
    if (!reusable) rootReader?.close();
    rootReader = undefined;
    return reusable ?? new FailoverReader(cid, sources, { ...common, end, signal: AbortSignal.any([signal, stop]) });
  }

  return {
    root,
    blocks(start, end) {
      const late = () => new SealpinError('pinning_timeout', `reading took longer than ${totalMs} ms`);
      const limit = timeLimit(totalMs, late);
      const reader = readerFor(start, end, limit.signal);
      const order = walk(root, start, end, reader.fetchBlock);
      const close = (reason?: unknown): void => {
        limit.clear();
        reader.close(reason);
      };
      return {
        close,
        async next() {
          try {
            limit.signal.throwIfAborted();
            const { done, value } = await order.next();
            if (done === true) return undefined;
            await onBlock?.(value);
            return value;
          } catch (cause) {
            close(cause);
            throw cause;
          }
        },
      };
    },
  };
}
