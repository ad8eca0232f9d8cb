/** The CID of a file and the rows of its blocks, from its leaves. */
import { hash } from 'node:crypto';
import { cidBuilder } from '../../../shared/ipfs/index.ts';
import type { BlockRow, Catalog } from './catalog.ts';

/**
 * A file that is complete on disk under the name `file`. `dagBytes`: all of its blocks together. `blocks`: rows not
 * staged yet.
 */
export type Written = { cid: string; bytes: number; dagBytes: number; file: string; blocks: BlockRow[] };

/** Computes the CID of a file from its leaves, in order. */
export interface Indexer {
  /** Adds the next leaf: `leafBytes`, or fewer at the end. */
  write(leaf: Uint8Array): Promise<void>;
  finish(): Promise<Written>;
  /** Drops the rows that are staged in the catalog. */
  abort(): void;
}

/** Rows that are kept in memory before they are staged in the catalog: those of 4 GiB. */
const maxRowsInMemory = 4096;

/**
 * An indexer of one file.
 * @param file its name on disk
 * @param o.stage stages the rows of a large file in the catalog before the file is complete
 */
export function indexer(catalog: Catalog, file: string, { stage }: { stage: boolean }): Indexer {
  const blocks: BlockRow[] = [];
  let position = 0;
  let nodeBytes = 0;
  let hasStaged = false;
  const builder = cidBuilder({
    digest: (block) => hash('sha256', block, 'buffer'),
    onLeaf(cid, bytes) {
      blocks.push({ cid, offset: position, bytes, node: null });
      position += bytes;
      if (!stage || blocks.length < maxRowsInMemory) return;
      hasStaged = true;
      catalog.stage(file, blocks.splice(0));
    },
    onNode(cid, node, bytes) {
      nodeBytes += node.length;
      blocks.push({ cid, offset: position - bytes, bytes, node });
    },
  });
  return {
    write: (leaf) => builder.write(leaf),
    async finish() {
      const { cid, bytes } = await builder.finish();
      return { cid, bytes, dagBytes: bytes + nodeBytes, file, blocks };
    },
    abort() {
      if (hasStaged) catalog.unstage(file);
    },
  };
}
