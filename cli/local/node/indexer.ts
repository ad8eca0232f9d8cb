/** The CID of a file and the rows of its blocks, from its leaves. */
import { hash } from 'node:crypto';
import { cidBuilder } from '../../../shared/ipfs/index.ts';
import { openRows, type Complete, type Staging } from './rows.ts';

/** A file whose bytes are those of one UnixFS file. `dagBytes`: all of its blocks together. */
export type Written = Complete & { bytes: number; dagBytes: number };

/** Computes the CID of one file from its leaves, in order; its rows as `openRows`. */
export function indexer(catalog: Staging | undefined, file: string) {
  const rows = openRows(catalog, file);
  let position = 0;
  let nodeBytes = 0;
  const builder = cidBuilder({
    digest: (block) => hash('sha256', block, 'buffer'),
    onLeaf(cid, bytes) {
      rows.leaf(cid, position, bytes);
      position += bytes;
    },
    onNode(cid, node) {
      nodeBytes += node.length;
      rows.node(cid, node);
    },
  });
  return {
    /** Adds the next leaf: `leafBytes`, or fewer at the end. */
    write: (leaf: Uint8Array) => builder.write(leaf),
    async finish(): Promise<Written> {
      const { cid, bytes } = await builder.finish();
      return { cid, bytes, dagBytes: bytes + nodeBytes, file, blocks: rows.finish() };
    },
    /** Drops the rows that are staged in the catalog. */
    abort: () => rows.abort(),
  };
}
