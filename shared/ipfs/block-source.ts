/**
 * Sources of the blocks of a file. No source is trusted: each block is hashed before a byte of it
 * leaves.
 */
import type { BufferPool } from '../streams/buffer-pool.ts';
import type { Cid } from './cid.ts';
import type { Digest } from './tree.ts';

/**
 * A service, a gateway or a CAR that has blocks. Its methods throw a SealpinError that says why it
 * has none.
 */
export interface BlockSource {
  /** Its name in errors. */
  readonly id: string;
  /**
   * Set for a short way to what another source gives: where both fail, only that one's failure is
   * reported, unless the short way gave wrong bytes.
   */
  readonly isShortWay?: true;
  block(cid: string, signal: AbortSignal): Promise<Uint8Array>;
  /** `length` bytes of the file `cid` from byte `offset`: many leaves in one request. */
  read?(cid: string, offset: number, length: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /**
   * A CAR in depth-first order with the blocks that bytes from `start` up to `end` (exclusive;
   * undefined: all) of the file need. A source that has this method is asked in no other way.
   */
  car?(cid: string, start: number, end: number | undefined, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** Options of reading blocks from sources. */
export type BlockOptions = {
  /**
   * After how many ms the next source is asked for a block as well; the first verified one counts.
   * Never when undefined.
   */
  hedgeMs?: number | undefined;
  /** SHA-256 of a block; WebCrypto when undefined. */
  digest?: Digest | undefined;
  /**
   * Passes leaves on without hashing them: only for one who verifies each block, as readers of a
   * CAR can.
   */
  passLeaves?: boolean | undefined;
  /**
   * Source of the memory of blocks, which may be given back once a chunk of the file is not looked
   * at any more. For files that repeat no leaf, such as encrypted ones: from a CAR that leaves
   * repetitions out, others cannot be read then.
   */
  pool?: BufferPool | undefined;
  /** Called with each source that gave wrong bytes, and the CID of the block. */
  onMismatch?: ((source: BlockSource, cid: string) => void) | undefined;
};

/**
 * The next block of a file that is read in order. `start`: the byte of the file at which the block
 * begins. `fileBytes`: its length, for a leaf; undefined for an interior node and for a root that
 * is not known yet. `contiguousBytes`: bytes of the file from `start` on that lie in leaves next to
 * each other, as far as they are needed; one request can fetch them all.
 */
export type BlockRequest = {
  readonly cid: Cid;
  readonly start: number;
  readonly fileBytes: number | undefined;
  readonly contiguousBytes: number;
};

/** Fetches a block and verifies that it is the one of its CID. */
export type FetchBlock = (request: BlockRequest) => Promise<Uint8Array>;
