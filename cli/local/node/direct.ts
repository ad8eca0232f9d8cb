/** The bytes of files, taken and given within this process. */
import { sniffBytes } from '../../../shared/crypto/index.ts';
import { carHeader, carSection, continuedPartMs, leafBytes, parseCid, partLeaves } from '../../../shared/ipfs/index.ts';
import { settlesWithin } from '../../../shared/streams/timing.ts';
import type { Catalog } from './catalog.ts';
import { fileBlocks, content, contradiction, joined, leavesOf } from './content.ts';
import type { Written } from './indexer.ts';
import { RpcError } from './rpc.ts';
import { isCidOf } from './verify.ts';
import type { Store } from './store.ts';
import type { Writer } from './writer.ts';

/** A file that a command writes. */
type InPlace = {
  /** Its length. */
  readonly bytes: number;
  /** Gets its name, once it can be written. */
  tell(name: string): void;
};

/** The part of a store that takes new files. */
export type FileIntake = Pick<Store, 'writer' | 'publish'> & { readonly catalog: Pick<Catalog, 'untilPinned'> };

/**
 * Writes a file, which stays for an hour unless it is pinned.
 * @param pieces each may be overwritten once the next one is asked for
 * @param inPlace a command writes it, and `pieces` say how much is there (`NewFile.follow`)
 * @returns `head`: its first bytes, at most `sniffBytes`
 * @throws what they throw, and the errors of the disk; nothing is kept then
 */
export async function receive(store: FileIntake, pieces: AsyncIterable<Uint8Array>, inPlace?: InPlace) {
  const writer = await store.writer({ keep: true });
  const head = Buffer.alloc(sniffBytes);
  let headBytes = 0;
  try {
    inPlace?.tell(writer.name);
    for await (const piece of inPlace === undefined ? pieces : writer.follow(pieces, inPlace.bytes)) {
      const first = piece.subarray(0, sniffBytes - headBytes);
      head.set(first, headBytes);
      headBytes += first.length;
      if (inPlace === undefined) await writer.write(piece);
    }
    const written = await writer.finish();
    await store.publish([written]);
    return { cid: written.cid, bytes: written.bytes, head: head.subarray(0, headBytes) };
  } catch (cause) {
    await writer.abort();
    throw cause;
  }
}

/**
 * Bytes that arrived since the last time. `part`: whole leaves, which the node holds as one file
 * and does not pin; `digests`: SHA-256 of each. `tail`: bytes behind all parts, less than a leaf.
 * `head`: the first bytes of all, at most `sniffBytes`.
 */
export type Received = {
  readonly part?: { readonly bytes: number; readonly digests: Uint8Array };
  readonly tail: Uint8Array;
  readonly head: Uint8Array;
};

type PartsOptions = {
  /** Leaves of the file before the first byte. */
  readonly leaves: number;
  /** Gets what has arrived, every few seconds and at the end; its parts stay for an hour. */
  onReceived(received: Received): void;
  /** Aborts once nobody pins parts any more. */
  readonly signal: AbortSignal;
};

/**
 * Writes the parts of a file, each pinned by somebody else before the next but one begins.
 * @param pieces each may be overwritten once the next one is asked for
 * @returns whether they ended; false: they broke off, and what came before is kept
 * @throws the errors of the disk, an AbortError of the signal: what has come since the last call of
 * `onReceived` is not kept
 */
export async function receiveParts(store: FileIntake, pieces: AsyncIterable<Uint8Array>, o: PartsOptions) {
  const receiver = new Receiver(store, o);
  const source = pieces[Symbol.asyncIterator]();
  let isWhole = true;
  try {
    for (;;) {
      const next = source.next();
      while (receiver.dueAt < Infinity && !(await settlesWithin(next, receiver.dueAt - performance.now())))
        await receiver.save();
      const piece = await next.catch(() => undefined);
      isWhole = piece !== undefined;
      if (piece === undefined || piece.done === true) break;
      await receiver.write(piece.value);
    }
    await receiver.save();
    await receiver.saved;
    return isWhole;
  } catch (cause) {
    await receiver.abort();
    throw cause;
  } finally {
    // One that is waited for ends it later.
    void source.return?.(undefined).catch(() => undefined);
  }
}

class Receiver {
  readonly #store: FileIntake;
  readonly #options: PartsOptions;
  readonly #head = Buffer.alloc(sniffBytes);
  #headBytes = 0;
  #leaves: number;
  /** The open part and its bytes, which begin with the tail of the one before. */
  #writer: Writer | undefined;
  #bytes = 0;
  #tail: Uint8Array = new Uint8Array(0);
  #openedAt = 0;
  /** Resolves once the part before is kept and pinned. */
  saved: Promise<void> = Promise.resolve();
  #failure: { cause: unknown } | undefined;

  constructor(store: FileIntake, options: PartsOptions) {
    this.#store = store;
    this.#options = options;
    this.#leaves = options.leaves;
  }

  /** The time at which the open part must end. */
  get dueAt(): number {
    if (this.#writer === undefined) return Infinity;
    return this.#openedAt + continuedPartMs(Math.floor(this.#bytes / leafBytes));
  }

  async write(piece: Uint8Array): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.cause;
    const first = piece.subarray(0, sniffBytes - this.#headBytes);
    this.#head.set(first, this.#headBytes);
    this.#headBytes += first.length;
    for (let rest = piece; rest.length > 0;) {
      this.#writer ??= await this.#open();
      const most = partLeaves(this.#leaves) * leafBytes;
      const own = rest.subarray(0, most - this.#bytes);
      await this.#writer.write(own);
      this.#bytes += own.length;
      rest = rest.subarray(own.length);
      if (this.#bytes === most) await this.save();
    }
    if (performance.now() >= this.dueAt) await this.save();
  }

  /**
   * Ends the open part. It is kept and pinned while the next bytes arrive, so that there are never
   * more than two that are not.
   */
  async save(): Promise<void> {
    const writer = this.#writer;
    if (writer === undefined) return;
    this.#options.signal.throwIfAborted();
    await this.saved;
    this.#tail = writer.takeTail();
    this.#writer = undefined;
    const bytes = this.#bytes - this.#tail.length;
    this.#leaves += bytes / leafBytes;
    const about = { tail: this.#tail, head: this.#head.subarray(0, this.#headBytes) };
    this.saved = this.#keep(writer, bytes, about);
    this.saved.catch((cause: unknown) => (this.#failure = { cause }));
  }

  async abort(): Promise<void> {
    await this.saved.catch(() => undefined);
    await this.#writer?.abort();
  }

  async #open(): Promise<Writer> {
    const writer = await this.#store.writer({ keep: true });
    this.#openedAt = performance.now();
    this.#bytes = this.#tail.length;
    await writer.write(this.#tail);
    return writer;
  }

  async #keep(writer: Writer, bytes: number, about: Omit<Received, 'part'>): Promise<void> {
    if (bytes === 0) {
      await writer.abort();
      return this.#options.onReceived(about);
    }
    const written = await this.#publish(writer);
    const leaves = written.blocks.filter(({ node }) => node === null);
    const digests = Buffer.concat(leaves.map(({ cid }) => parseCid(cid).digest));
    this.#options.onReceived({ part: { bytes, digests }, ...about });
    await this.#store.catalog.untilPinned(written.cid, this.#options.signal);
  }

  async #publish(writer: Writer): Promise<Written> {
    try {
      const written = await writer.finish();
      await this.#store.publish([written]);
      return written;
    } catch (cause) {
      await writer.abort();
      throw cause;
    }
  }
}

/** The bytes of a file from one to another; without `to` all that follow. */
type FilePart = { readonly cid: string; readonly from: number; readonly to?: number | undefined };

/** The blocks that bytes of a file lie in. @throws RpcError for a missing one */
function placedBlocks({ catalog }: Store, { cid, from, to = Number.MAX_SAFE_INTEGER }: FilePart) {
  return fileBlocks(cid, { from, to, find: (one) => catalog.find(one) ?? missing(one) });
}

/** These blocks with their bytes, each valid until the next one is asked for. */
async function* blocksWithBytes(store: Store, part: FilePart) {
  const leaves = content(leavesOf(placedBlocks(store, part)), (location) => store.open(location));
  try {
    for (const { cid, location, start } of placedBlocks(store, part)) {
      const { node, bytes } = location;
      const block = node ?? (bytes > 0 ? ((await leaves.next()).value ?? missing(cid)) : Buffer.alloc(0));
      yield { cid, block, start, isLeaf: node === null };
    }
  } finally {
    await leaves.return(undefined);
  }
}

/**
 * A CAR of a file, or of the blocks that bytes of it lie in; each block as often as the file has
 * it, parents first.
 * @returns pieces, each valid until the next one is asked for
 * @throws RpcError for a block that is missing
 */
export async function* carOfFile(store: Store, part: FilePart): AsyncGenerator<Uint8Array> {
  yield carHeader(parseCid(part.cid));
  for await (const { cid, block } of blocksWithBytes(store, part)) {
    yield carSection(parseCid(cid), block.length);
    if (block.length > 0) yield block;
  }
}

/**
 * Bytes of a file, each block of it hashed before its bytes go out.
 * @returns pieces, each valid until the next one is asked for
 * @throws RpcError for a block that is missing or damaged
 */
export async function* bytesOfFile(store: Store, { cid, from, to }: { cid: string; from: number; to: number }) {
  let left = to - from + 1;
  for await (const { cid: each, block, start, isLeaf } of blocksWithBytes(store, { cid, from, to })) {
    if (!isCidOf(each, block)) throw new RpcError(`the block ${each} is damaged`);
    if (!isLeaf || block.length === 0) continue;
    const piece = block.subarray(Math.max(0, from - start), to + 1 - start);
    left -= piece.length;
    yield piece;
  }
  if (left !== 0) throw contradiction(cid);
}

/** Bytes of a data file: its name in `data/`, or with `.part` behind it, and where they are. */
export type FileRun = readonly [file: string, offset: number, bytes: number];

/** Places of bytes of a file, in order, joined. @throws RpcError for a missing block */
export function placesOfFile(store: Store, part: FilePart): FileRun[] {
  const found = joined(leavesOf(placedBlocks(store, part)));
  return Array.from(found, ({ location, offset, bytes }) => [location.file, offset, bytes]);
}

function missing(cid: string): never {
  throw new RpcError(`block was not found locally (offline): ${cid}`);
}
