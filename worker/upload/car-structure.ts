/** The structure of a CAR: one file, whose leaves come first and whose root comes last. */
import type { ContentKind } from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { decodeNode, maxLevels, type Cid } from '../../shared/ipfs/index.ts';
import { recognize } from './leaf-source.ts';

/**
 * The most blocks of a CAR: what is known of each is kept until the root comes. With leaves of 1
 * MiB they are 32 GiB.
 */
const maxBlocks = 32_768;
/**
 * The fewest bytes of a leaf on average, and how many leaves may have less: each time that a file
 * has a leaf, reading it asks the pinning service once. Chunkers make far larger ones; a file that
 * many programs wrote little by little has some that are small. How often a leaf repeats does not
 * count: disk images are full of zeros, and every limit and quota counts the bytes of the whole
 * file. The same holds for the blocks that have come, so that few bytes are few blocks to know.
 */
const meanBytes = 4096;
const maxSmall = 1024;

/**
 * A file, or what lies below one of its nodes. `leaves`: with repetitions. `beginning`: of its
 * first leaf. There may be 32,768 of these, so nothing here holds bytes.
 */
type KnownFile = { fileBytes: number; leaves: number; levels: number; beginning: ContentKind };

/**
 * Takes the blocks of a file in an order in which each one comes after those that it links to: so
 * there are no cycles.
 */
export class CarStructure {
  readonly #known = new Map<string, KnownFile>();
  /** Blocks that no other one links to. */
  readonly #tops = new Set<string>();
  readonly #maxFileBytes: number;
  #blockBytes = 0;
  #last: (KnownFile & { cid: Cid }) | undefined;

  constructor(maxFileBytes: number) {
    this.#maxFileBytes = maxFileBytes;
  }

  /**
   * Takes a block, whose hash is not checked here.
   * @returns whether it is the first one with its CID
   * @throws invalid_request, too_large
   */
  add(cid: Cid, bytes: Uint8Array): boolean {
    if (this.#known.has(cid.text)) return false;
    if (this.#known.size >= maxBlocks) throw invalidCar(`it has more than ${maxBlocks} blocks`);
    const known = cid.codec === 'raw' ? leafOf(bytes) : this.#node(cid, bytes);
    if (known.fileBytes > this.#maxFileBytes)
      throw new SealpinError('too_large', `a file may have at most ${this.#maxFileBytes} bytes`);
    this.#known.set(cid.text, known);
    this.#tops.add(cid.text);
    this.#last = { ...known, cid };
    this.#blockBytes += bytes.length;
    checkMean(`its first ${this.#blockBytes} bytes are`, this.#known.size, 'blocks', this.#blockBytes);
    return true;
  }

  /** @returns the file that all blocks are of @throws invalid_request */
  finish(): KnownFile & { cid: Cid } {
    if (this.#last === undefined) throw invalidCar('it has no block');
    if (this.#tops.size > 1)
      throw invalidCar(`its last block does not lead to all others: it has ${this.#tops.size} roots`);
    const { fileBytes, leaves } = this.#last;
    checkMean(`its file of ${fileBytes} bytes has`, leaves, 'leaves', fileBytes);
    return this.#last;
  }

  #node(cid: Cid, bytes: Uint8Array): KnownFile {
    const links = nodeLinks(cid, bytes);
    let fileBytes = 0;
    let leaves = 0;
    let levels = 1;
    for (const link of links) {
      const child = this.#known.get(link.cid.text);
      if (child === undefined) throw invalidCar(`${cid.text} links to ${link.cid.text}, which does not come before it`);
      if (child.fileBytes !== link.fileBytes)
        throw invalidCar(
          `${cid.text} says that ${link.cid.text} has ${link.fileBytes} bytes, and not ${child.fileBytes}`,
        );
      fileBytes += child.fileBytes;
      leaves += child.leaves;
      levels = Math.max(levels, child.levels + 1);
      this.#tops.delete(link.cid.text);
    }
    if (levels > maxLevels) throw invalidCar(`its nodes have more than ${maxLevels} levels, which no client reads`);
    const [first] = links;
    const beginning = (first && this.#known.get(first.cid.text)?.beginning) ?? 'other';
    return { fileBytes, leaves, levels, beginning };
  }
}

function leafOf(bytes: Uint8Array): KnownFile {
  return { fileBytes: bytes.length, leaves: 1, levels: 0, beginning: recognize(bytes) };
}

/** @throws invalid_request where most of so many blocks are small */
function checkMean(why: string, count: number, what: string, bytes: number): void {
  if (count > maxSmall + bytes / meanBytes)
    throw invalidCar(`${why} ${count} ${what}, which is less than ${meanBytes} bytes each`);
}

/**
 * The links of a node of a file.
 * @throws invalid_request for any other block, such as that of a directory
 */
function nodeLinks(cid: Cid, bytes: Uint8Array) {
  try {
    return decodeNode(bytes, cid.text);
  } catch (error) {
    if (!isSealpinError(error, 'invalid_cid')) throw error;
    const why = error.cause instanceof Error ? `: ${error.cause.message}` : '';
    throw invalidCar(`${cid.text} is not a node of a file with raw leaves${why}`, error);
  }
}

/** The error for a CAR that cannot be stored. */
export function invalidCar(why: string, cause?: unknown): SealpinError {
  return new SealpinError('invalid_request', `the CAR cannot be stored: ${why}`, {
    hint: 'send a CARv1 of one UnixFS file, every block after those that it links to, the root last',
    cause,
  });
}
