/** Reading a file by its CID from sources that nobody has to trust. */
import { SealpinError } from '../errors.ts';
import type { Digest } from './builder.ts';
import { parseCid } from './cid.ts';
import { supply, type Faults, type Supply } from './failover-reader.ts';
import { takeRoot, walk, type Block, type Root } from './walk.ts';

/** Where blocks may come from. Nothing that it gives is believed: each block is hashed before a byte of it leaves. */
export interface BlockSource {
  /** Its name in errors. */
  readonly id: string;
  /** One block. */
  block(cid: string, signal: AbortSignal): Promise<Uint8Array>;
  /** `length` bytes of the file from byte `offset`: many leaves in one request. */
  read?(cid: string, offset: number, length: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** A CAR that goes depth first, with the blocks that bytes from `start` up to `end` (exclusive; undefined: all) need. It is preferred. */
  car?(cid: string, start: number, end: number | undefined, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** Caps on what a source may cost. */
export type Limits = {
  /** The largest file; `too_large` beyond it. No cap when left out. */
  fileBytes?: number;
  /** The longest wait for a whole block, connecting included: 60 s when left out. */
  idleMs?: number;
  /** The longest that one read of the file may take in all: 24 h when left out. */
  totalMs?: number;
};

const usualIdleMs = 60_000;

export type OpenOptions = {
  signal?: AbortSignal;
  limits?: Limits;
  /** SHA-256 of a block: WebCrypto when left out. */
  digest?: Digest;
};

export type IpfsFile = {
  /** Bytes of the file. */
  size: number;
  /** Its verified bytes from `start` (0) up to `end` (the size), exclusive. Only the blocks of the range are fetched. */
  read(start?: number, end?: number): ReadableStream<Uint8Array>;
};

/** A file whose root is verified. */
export type Dag = {
  root: Root;
  blocks(start: number, end: number): { next(): Promise<Block | undefined>; close(reason?: unknown): void };
};

/**
 * Opens the file of a CID. Reads its root only; abort the signal if nothing is to be read after all.
 * @throws invalid_cid, too_large, content_mismatch (also for a source that ends early), pinning_timeout for one that stalls,
 *   and what the sources throw. When all of them failed, the detail names each. The streams fail with the same.
 */
export async function openFile(cid: string, sources: readonly BlockSource[], o: OpenOptions = {}): Promise<IpfsFile> {
  const { root, blocks } = await openDag(cid, sources, o);
  return {
    size: root.size,
    read(start = 0, end = root.size) {
      if (!(start >= 0 && start <= end && end <= root.size))
        throw new TypeError(`no range of ${root.size} bytes: ${start} to ${end}`);
      const reading = blocks(start, end);
      return new ReadableStream<Uint8Array>({
        async pull(controller) {
          for (;;) {
            const block = end > start ? await reading.next() : undefined;
            if (!block) {
              reading.close();
              controller.close();
              return;
            }
            if (block.cid.codec !== 'raw') continue;
            controller.enqueue(block.bytes.subarray(Math.max(0, start - block.start), end - block.start));
            return;
          }
        },
        cancel: (reason) => reading.close(reason),
      });
    },
  };
}

/** One verified block, whatever it holds. Fails as `openFile`. */
export async function readBlock(
  text: string,
  sources: readonly BlockSource[],
  { signal = new AbortController().signal, limits = {}, digest }: OpenOptions = {},
): Promise<Uint8Array> {
  const cid = parseCid(text);
  const source = supply(cid, sources, { signal, idleMs: limits.idleMs ?? usualIdleMs, faults: new Map(), digest });
  try {
    return await source.take({ cid, start: 0, fileBytes: undefined, run: 0 });
  } finally {
    source.close();
  }
}

/** Opens the blocks of a file. */
export async function openDag(
  text: string,
  sources: readonly BlockSource[],
  { signal = new AbortController().signal, limits = {}, digest }: OpenOptions,
): Promise<Dag> {
  const cid = parseCid(text);
  const { fileBytes = Infinity, idleMs = usualIdleMs, totalMs = 86_400_000 } = limits;
  const faults: Faults = new Map();
  // The stream that the root came in may go on with the rest of the file.
  let first: Supply | undefined = supply(cid, sources, { signal, idleMs, faults, digest });
  let root: Root;
  try {
    root = await takeRoot(cid, first.take);
    if (root.size > fileBytes)
      throw new SealpinError('too_large', `the file has ${root.size} bytes, more than ${fileBytes}`);
  } catch (cause) {
    first.close(cause);
    throw cause;
  }
  return {
    root,
    blocks(start, end) {
      const stop = new AbortController();
      const timer = setTimeout(
        () => stop.abort(new SealpinError('pinning_timeout', `reading took longer than ${totalMs} ms`)),
        totalMs,
      );
      if (start > 0) first?.close();
      const source =
        first && start === 0
          ? first
          : supply(cid, sources, { end, signal: AbortSignal.any([signal, stop.signal]), idleMs, faults, digest });
      first = undefined;
      const order = walk(root, start, end, source.take);

      function close(reason?: unknown): void {
        clearTimeout(timer);
        source.close(reason);
      }
      return {
        close,
        async next() {
          try {
            stop.signal.throwIfAborted();
            const { done, value } = await order.next();
            return done ? undefined : value;
          } catch (cause) {
            close(cause);
            throw cause;
          }
        },
      };
    },
  };
}
