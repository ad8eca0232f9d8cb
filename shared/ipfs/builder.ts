/** The CID of a stream of bytes: a balanced tree, built for the one layout of `profile.ts`. */
import { cidOf } from './cid.ts';
import { leafBytes, linksPerNode } from './profile.ts';
import { encodeNode, type Link } from './unixfs.ts';

/** The CID of a stream and its length in bytes. */
export type SizedCid = { cid: string; bytes: number };

export type CidBuilderOptions = {
  /**
   * Called for each interior node as soon as its last leaf is known, children before parents. `fileBytes`: of the
   * file below it.
   */
  onNode?(cid: string, block: Uint8Array, fileBytes: number): void | Promise<void>;
  /** Called for each leaf, in order, with its number of bytes. */
  onLeaf?(cid: string, bytes: number): void | Promise<void>;
  /** SHA-256 of a block; WebCrypto when undefined. */
  digest?: Digest;
};

/** SHA-256 of a block, 32 bytes. It must be done with the block when it returns, not only when it resolves. */
export type Digest = (block: Uint8Array) => Uint8Array | Promise<Uint8Array>;

export interface CidBuilder {
  /** Adds bytes. They may be changed once it resolves. */
  write(chunk: Uint8Array): Promise<void>;
  /** Ends the stream; nothing can be written after it. */
  finish(): Promise<SizedCid>;
}

/** SHA-256 by WebCrypto, which by its specification (section 14.3.5) copies the bytes before it returns. */
export async function sha256(block: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', block as Uint8Array<ArrayBuffer>));
}

/** Digests in flight: one runs while the next block is filled. */
const digestsInFlight = 2;

/** A builder for one stream. It holds one leaf that is being filled and at most 1,024 links a level. */
export function cidBuilder(o: CidBuilderOptions = {}): CidBuilder {
  const digest = o.digest ?? sha256;
  /** The open node of each level: level 0 links to leaves. */
  const levels: Link[][] = [];
  const pending: Promise<void>[] = [];
  let last: Promise<void> = Promise.resolve();
  let partial: Uint8Array | undefined;
  let filled = 0;
  let bytes = 0;
  let leaves = 0;

  async function add(link: Link, level: number): Promise<void> {
    const links = (levels[level] ??= []);
    links.push(link);
    if (links.length === linksPerNode) await close(level);
  }

  async function close(level: number): Promise<void> {
    const links = levels[level] ?? [];
    const block = encodeNode(links);
    const cid = cidOf('dag-pb', await digest(block));
    levels[level] = [];
    const fileBytes = links.reduce((sum, link) => sum + link.fileBytes, 0);
    const dagBytes = links.reduce((sum, link) => sum + link.dagBytes, block.length);
    await o.onNode?.(cid.text, block, fileBytes);
    await add({ cid, fileBytes, dagBytes }, level + 1);
  }

  /** Starts the digest of a leaf at once; the leaves are added in their order. */
  async function leaf(block: Uint8Array): Promise<void> {
    const length = block.length;
    leaves += 1;
    const hash = digest(block);
    const previous = last;
    last = (async () => {
      const [value] = await Promise.all([hash, previous]);
      const cid = cidOf('raw', value);
      await o.onLeaf?.(cid.text, length);
      await add({ cid, fileBytes: length, dagBytes: length }, 0);
    })();
    pending.push(last);
    if (pending.length >= digestsInFlight) await pending.shift();
  }

  return {
    async write(chunk) {
      bytes += chunk.length;
      let rest = chunk;
      while (rest.length > 0) {
        if (filled === 0 && rest.length >= leafBytes) {
          await leaf(rest.subarray(0, leafBytes));
          rest = rest.subarray(leafBytes);
          continue;
        }
        partial ??= new Uint8Array(leafBytes);
        const part = rest.subarray(0, leafBytes - filled);
        partial.set(part, filled);
        filled += part.length;
        rest = rest.subarray(part.length);
        if (filled === leafBytes) {
          filled = 0;
          await leaf(partial);
        }
      }
    },
    async finish() {
      // An empty file is one empty leaf.
      if (filled > 0 || leaves === 0) await leaf((partial ?? new Uint8Array()).subarray(0, filled));
      await last;
      // A file of one leaf is that leaf; otherwise every level is closed up to one that holds a single node.
      for (let level = 0; ; level += 1) {
        const [first, ...others] = levels[level] ?? [];
        const isTop = level === levels.length - 1;
        if (isTop && first && others.length === 0) return { cid: first.cid.text, bytes };
        if (first) await close(level);
      }
    },
  };
}
