/** The order of the blocks of a file: depth first, parents before children, those of a range only. */
import { SealpinError } from '../errors.ts';
import { maxBlockBytes, type Cid } from './cid.ts';
import { decodeNode } from './unixfs.ts';

/** A block on its way out: `start` and `fileBytes` say which part of the file lies in or under it. */
export type Block = { cid: Cid; bytes: Uint8Array; start: number; fileBytes: number };

/** What is wanted next. `run`: bytes of the file from `start` that lie in leaves of known length one after the other, as far as they are wanted. */
export type Want = { cid: Cid; start: number; fileBytes: number | undefined; run: number };

/** Gives a block that is already known to be the one of its CID. */
export type Take = (want: Want) => Promise<Uint8Array>;

/** A file whose root is known. */
export type Root = { cid: Cid; block: Uint8Array; size: number };

/** The levels of a tree over 2^53 bytes in leaves of 1 MiB are 4; more is a bomb. */
const maxDepth = 8;

/** Fetches the root. */
export async function takeRoot(cid: Cid, take: Take): Promise<Root> {
  const block = await take({ cid, start: 0, fileBytes: undefined, run: 0 });
  const size =
    cid.codec === 'raw' ? block.length : decodeNode(block, cid.text).reduce((sum, link) => sum + link.fileBytes, 0);
  if (!Number.isSafeInteger(size)) throw new SealpinError('invalid_cid', `${cid.text} names a file of impossible size`);
  return { cid, block, size };
}

/**
 * The blocks that bytes from `start` up to `end` (exclusive) of the file need, the root first.
 * @throws invalid_cid when the blocks, all of them genuine, contradict each other
 */
export async function* walk(root: Root, start: number, end: number, take: Take): AsyncGenerator<Block> {
  yield* below({ cid: root.cid, bytes: root.block, start: 0, fileBytes: root.size }, 0);

  async function* below(node: Block, depth: number): AsyncGenerator<Block> {
    yield node;
    if (node.cid.codec === 'raw') return;
    if (depth === maxDepth) throw contradiction();
    const links = decodeNode(node.bytes, root.cid.text);
    if (links.reduce((sum, link) => sum + link.fileBytes, 0) !== node.fileBytes) throw contradiction();
    let position = node.start;
    for (const [i, link] of links.entries()) {
      const at = position;
      position += link.fileBytes;
      if (position <= start || at >= end) continue;
      const leaf = link.cid.codec === 'raw';
      if (leaf && link.fileBytes > maxBlockBytes) throw contradiction();
      const bytes = await take({
        cid: link.cid,
        start: at,
        fileBytes: leaf ? link.fileBytes : undefined,
        run: leaf ? run(i, at) : 0,
      });
      if (leaf && bytes.length !== link.fileBytes) throw contradiction();
      const child = { cid: link.cid, bytes, start: at, fileBytes: link.fileBytes };
      yield* below(child, depth + 1);
    }

    function run(from: number, at: number): number {
      let bytes = 0;
      for (let i = from; i < links.length && links[i]!.cid.codec === 'raw' && at + bytes < end; i += 1)
        bytes += links[i]!.fileBytes;
      return bytes;
    }
  }

  function contradiction(): SealpinError {
    return new SealpinError('invalid_cid', `${root.cid.text} names a file that contradicts itself`);
  }
}
