/**
 * The tree above the leaves, from digests and lengths alone: leaves may be sent in parts and
 * forgotten.
 */
import { cidOf, type Cid } from './cid.ts';
import { leafBytes, linksPerNode } from './profile.ts';
import { encodeNode, type Link } from './unixfs.ts';

/**
 * SHA-256 of a block, 32 bytes. It must be done with the block when it returns, not only when it
 * resolves.
 */
export type Digest = (block: Uint8Array) => Uint8Array | Promise<Uint8Array>;

/** Bytes of a SHA-256. */
export const digestBytes = 32;

/**
 * SHA-256 by WebCrypto, which by its specification (section 14.3.5) copies the bytes before it
 * returns.
 */
export async function sha256(block: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', block as Uint8Array<ArrayBuffer>));
}

export type TreeOptions = {
  /**
   * Gets each interior node, children first, as soon as its last leaf is known. `fileBytes`: of the
   * file below it.
   */
  onNode?: ((cid: Cid, block: Uint8Array, fileBytes: number) => void | Promise<void>) | undefined;
  /** SHA-256 of a node; WebCrypto when undefined. */
  digest?: Digest | undefined;
};

/** Makes the balanced tree of a file, leaf by leaf; it holds at most 1,024 links a level. */
export function treeBuilder({ onNode, digest = sha256 }: TreeOptions = {}) {
  /** The open node of each level: level 0 links to leaves. */
  const levels: Link[][] = [];

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
    await onNode?.(cid, block, fileBytes);
    await add({ cid, fileBytes, dagBytes }, level + 1);
  }

  return {
    /** Adds the next leaf by its CID and number of bytes. */
    add: (leaf: Cid, bytes: number): Promise<void> => add({ cid: leaf, fileBytes: bytes, dagBytes: bytes }, 0),
    /** Closes the open nodes; returns the root: of one leaf, that leaf. There must be one. */
    async finish(): Promise<Cid> {
      // Every level is closed, up to one that holds a single link.
      for (let level = 0; level < levels.length; level += 1) {
        const [first, ...others] = levels[level] ?? [];
        if (first && others.length === 0 && level === levels.length - 1) return first.cid;
        if (first) await close(level);
      }
      throw new TypeError('a tree has at least one leaf');
    },
  };
}

/**
 * The root of a file from its leaves.
 * @param digests SHA-256 of each leaf, 32 bytes each, in order; at least one
 * @param bytes of the file: all leaves but the last one have 1 MiB
 * @param o.onNode gets the interior nodes, the root last: what is still missing where the leaves
 * are stored
 */
export async function treeOf(digests: Uint8Array, bytes: number, o: TreeOptions = {}): Promise<Cid> {
  const leaves = digests.length / digestBytes;
  if (leaves !== Math.max(1, Math.ceil(bytes / leafBytes)))
    throw new TypeError(`a file of ${bytes} bytes does not have ${leaves} leaves`);
  const tree = treeBuilder(o);
  for (let leaf = 0; leaf < leaves; leaf += 1) {
    const digest = digests.slice(leaf * digestBytes, (leaf + 1) * digestBytes);
    await tree.add(cidOf('raw', digest), Math.min(leafBytes, bytes - leaf * leafBytes));
  }
  return await tree.finish();
}
