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

/** Computes the CID of bytes that are written to it. */
export type CidBuilder = Builder;

/** Makes a builder for one stream. */
export function cidBuilder(options: CidBuilderOptions = {}): CidBuilder {
  return new Builder(options);
}

/**
 * Computes the CID of bytes that are written to it, one call at a time. It holds one leaf that is
 * being filled and at most 1,024 links a level.
 */
class Builder {
  readonly #digest: Digest;
  readonly #onLeaf: CidBuilderOptions['onLeaf'];
  readonly #tree: ReturnType<typeof treeBuilder>;
  readonly #pending: Promise<void>[] = [];
  #last: Promise<void> = Promise.resolve();
  #partial: Uint8Array | undefined;
  #filled = 0;
  #bytes = 0;
  #leaves = 0;

  constructor({ digest = sha256, onLeaf, onNode }: CidBuilderOptions) {
    this.#digest = digest;
    this.#onLeaf = onLeaf;
    this.#tree = treeBuilder({ digest, onNode: (cid, block, fileBytes) => onNode?.(cid.text, block, fileBytes) });
  }

  /** Adds bytes. They may be changed once it resolves. */
  async write(chunk: Uint8Array): Promise<void> {
    this.#bytes += chunk.length;
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#filled === 0 && rest.length >= leafBytes) {
        await this.#leaf(rest.subarray(0, leafBytes));
        rest = rest.subarray(leafBytes);
        continue;
      }
      const partial = this.#room(rest.length);
      this.#partial = partial;
      const part = rest.subarray(0, leafBytes - this.#filled);
      partial.set(part, this.#filled);
      this.#filled += part.length;
      rest = rest.subarray(part.length);
      if (this.#filled === leafBytes) {
        this.#filled = 0;
        await this.#leaf(partial);
      }
    }
  }

  /** Ends the stream; nothing can be written after it. */
  async finish(): Promise<SizedCid> {
    // An empty file is one empty leaf.
    if (this.#filled > 0 || this.#leaves === 0)
      await this.#leaf((this.#partial ?? new Uint8Array()).subarray(0, this.#filled));
    await this.#last;
    return { cid: (await this.#tree.finish()).text, bytes: this.#bytes };
  }

  /** Starts the digest of a leaf at once; the leaves are added in their order. */
  async #leaf(block: Uint8Array): Promise<void> {
    const length = block.length;
    this.#leaves += 1;
    const hash = this.#digest(block);
    const previous = this.#last;
    this.#last = (async () => {
      const [value] = await Promise.all([hash, previous]);
      const cid = cidOf('raw', value);
      await this.#onLeaf?.(cid.text, length);
      await this.#tree.add(cid, length);
    })();
    this.#pending.push(this.#last);
    if (this.#pending.length >= digestsInFlight) await this.#pending.shift();
  }

  /**
   * Memory for so many more bytes of a leaf: the first ones take no more than they need, until
   * others follow.
   */
  #room(more: number): Uint8Array {
    const partial = this.#partial;
    if (partial !== undefined && (this.#filled + more <= partial.length || partial.length === leafBytes))
      return partial;
    const memory = new Uint8Array(partial === undefined ? Math.min(more, leafBytes) : leafBytes);
    if (partial !== undefined) memory.set(partial.subarray(0, this.#filled));
    return memory;
  }
}
