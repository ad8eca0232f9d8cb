/**
 * The order of the blocks of a file: depth first, parents before children, and only those that a
 * range needs.
 */
import { SealpinError } from '../errors.ts';
import type { FetchBlock } from './block-source.ts';
import type { Cid } from './cid.ts';
import { maxBlockBytes } from './profile.ts';
import { decodeNode, type Link } from './unixfs.ts';

/**
 * A verified block: the part of the file from byte `start`, `fileBytes` long, lies in it or below
 * it.
 */
export type Block = {
  readonly cid: Cid;
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly fileBytes: number;
};

/** The verified root of a file of `size` bytes. */
export type Root = { readonly cid: Cid; readonly block: Uint8Array; readonly size: number };

/**
 * Levels of nodes above the leaves: a tree over 2^53 bytes in leaves of 1 MiB has 4, and one with
 * more than these is hostile.
 */
export const maxLevels = 8;

/**
 * Fetches the root of a file.
 * @throws invalid_cid for one that Sealpin does not store; as `fetchBlock`
 */
export async function fetchRoot(cid: Cid, fetchBlock: FetchBlock): Promise<Root> {
  const fetched = await fetchBlock({ cid, start: 0, fileBytes: undefined, contiguousBytes: 0 });
  // Each read of the file gives a root that is a leaf, and a reader returns its memory.
  const block = cid.codec === 'raw' ? fetched.slice() : fetched;
  const size = cid.codec === 'raw' ? block.length : totalBytes(decodeNode(block, cid.text));
  if (!Number.isSafeInteger(size))
    throw new SealpinError('invalid_cid', `${cid.text} names a file of impossible size`, { reason: 'foreign_layout' });
  return { cid, block, size };
}

/**
 * The blocks that bytes from `start` up to `end` (exclusive) of the file need, the root first.
 * @throws invalid_cid when the blocks, all of them genuine, contradict each other; what
 * `fetchBlock` throws
 */
export async function* walk(root: Root, start: number, end: number, fetchBlock: FetchBlock): AsyncGenerator<Block> {
  yield* subtree({ cid: root.cid, bytes: root.block, start: 0, fileBytes: root.size }, 0);

  async function* subtree(node: Block, depth: number): AsyncGenerator<Block> {
    yield node;
    if (node.cid.codec === 'raw') return;
    if (depth === maxLevels) throw contradiction();
    const links = decodeNode(node.bytes, root.cid.text);
    if (totalBytes(links) !== node.fileBytes) throw contradiction();
    let next = node.start;
    for (const [index, { cid, fileBytes }] of links.entries()) {
      const position = next;
      next += fileBytes;
      if (next <= start || position >= end) continue;
      const isLeaf = cid.codec === 'raw';
      if (isLeaf && fileBytes > maxBlockBytes) throw contradiction();
      const bytes = await fetchBlock({
        cid,
        start: position,
        fileBytes: isLeaf ? fileBytes : undefined,
        contiguousBytes: isLeaf ? contiguousBytes(links, index, end - position) : 0,
      });
      if (isLeaf && bytes.length !== fileBytes) throw contradiction();
      yield* subtree({ cid, bytes, start: position, fileBytes }, depth + 1);
    }
  }

  function contradiction(): SealpinError {
    return new SealpinError('invalid_cid', `${root.cid.text} names a file that contradicts itself`, {
      reason: 'foreign_layout',
    });
  }
}

function totalBytes(links: readonly Link[]): number {
  return links.reduce((sum, link) => sum + link.fileBytes, 0);
}

/**
 * Bytes of the leaves from link `first` on without an interior node between, up to `neededBytes`.
 */
function contiguousBytes(links: readonly Link[], first: number, neededBytes: number): number {
  let bytes = 0;
  for (let index = first; bytes < neededBytes; index += 1) {
    const link = links[index];
    if (link?.cid.codec !== 'raw') break;
    bytes += link.fileBytes;
  }
  return bytes;
}
