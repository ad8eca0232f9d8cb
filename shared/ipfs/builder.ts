/** The CID of a stream of bytes: a balanced tree, built for the one layout of `profile.ts`. */
import { cidOf } from './cid.ts';
import { leafBytes } from './profile.ts';
import { sha256, treeBuilder, type Digest } from './tree.ts';

/** The CID of a stream and its length in bytes. */
export type SizedCid = { cid: string; bytes: number };

/** Options of a builder, with what it reports on its way. */
export type CidBuilderOptions = {
  /**
   * Gets each interior node, children first, as soon as its last leaf is known. `fileBytes`: of the
   * file below it.
   */
  onNode?: ((cid: string, block: Uint8Array, fileBytes: number) => void | Promise<void>) | undefined;
  /** Called for each leaf, in order, with its number of bytes. */
  onLeaf?: ((cid: string, bytes: number) => void | Promise<void>) | undefined;
  /** SHA-256 of a block; WebCrypto when undefined. */
  digest?: Digest | undefined;
};

/** Digests in flight: one runs while the next block is filled. */
const digestsInFlight = 2;

/** Computes the CID of bytes that are written to it, one call at a time. */
export type CidBuilder = ReturnType<typeof cidBuilder>;

/**
 * Makes a builder for one stream. It holds one leaf that is being filled and at most 1,024 links a
 * level.
 */
export function cidBuilder({ digest = sha256, onLeaf, onNode }: CidBuilderOptions = {}) {
  const tree = treeBuilder({ digest, onNode: (cid, block, fileBytes) => onNode?.(cid.text, block, fileBytes) });
  const pending: Promise<void>[] = [];
  let last: Promise<void> = Promise.resolve();
  let partial: Uint8Array | undefined;
  let filled = 0;
  let bytes = 0;
  let leaves = 0;

  /** Starts the digest of a leaf at once; the leaves are added in their order. */
  async function addLeaf(block: Uint8Array): Promise<void> {
    const { length } = block;
    leaves += 1;
    const hash = digest(block);
    const previous = last;
    last = (async () => {
      const [value] = await Promise.all([hash, previous]);
      const cid = cidOf('raw', value);
      await onLeaf?.(cid.text, length);
      await tree.add(cid, length);
    })();
    pending.push(last);
    if (pending.length >= digestsInFlight) await pending.shift();
  }

  return {
    /** Adds bytes. They may be changed once it resolves. */
    async write(chunk: Uint8Array): Promise<void> {
      bytes += chunk.length;
      let rest = chunk;
      while (rest.length > 0) {
        if (filled === 0 && rest.length >= leafBytes) {
          await addLeaf(rest.subarray(0, leafBytes));
          rest = rest.subarray(leafBytes);
          continue;
        }
        partial = roomFor(partial, filled, rest.length);
        const part = rest.subarray(0, leafBytes - filled);
        partial.set(part, filled);
        filled += part.length;
        rest = rest.subarray(part.length);
        if (filled === leafBytes) {
          filled = 0;
          await addLeaf(partial);
        }
      }
    },

    /** Ends the stream; nothing can be written after it. */
    async finish(): Promise<SizedCid> {
      // An empty file is one empty leaf.
      if (filled > 0 || leaves === 0) await addLeaf((partial ?? new Uint8Array()).subarray(0, filled));
      await last;
      return { cid: (await tree.finish()).text, bytes };
    },
  };
}

/**
 * Memory for so many more bytes of a leaf: the first ones take no more than they need, until others
 * follow.
 */
function roomFor(partial: Uint8Array | undefined, filled: number, more: number): Uint8Array {
  if (partial !== undefined && (filled + more <= partial.length || partial.length === leafBytes)) return partial;
  const memory = new Uint8Array(partial === undefined ? Math.min(more, leafBytes) : leafBytes);
  if (partial !== undefined) memory.set(partial.subarray(0, filled));
  return memory;
}
