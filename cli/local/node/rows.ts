/**
 * The rows of a file that is being written. Those of a large file go to the catalog ahead of it.
 */
import { linksOf } from '../../../shared/ipfs/index.ts';
import type { BlockRow, Catalog } from './catalog.ts';

/**
 * A file that is complete on disk under the name `file`. `cid`: its root, the last block. `blocks`:
 * rows not staged yet.
 */
export type Complete = { file: string; cid: string; blocks: BlockRow[] };

/** The part of a catalog that keeps rows ahead of their file. */
export type Staging = Pick<Catalog, 'stage' | 'unstage'>;

/** Rows that are kept in memory, those of 4 GiB, and the most bytes of nodes among them. */
const maxRows = 4096;
const maxNodeBytes = 4_194_304;

/**
 * The rows of one file.
 * @param catalog gets rows before the file is complete; undefined: all of them stay in memory
 * @param file its name on disk
 */
export function openRows(catalog: Staging | undefined, file: string) {
  let rows: BlockRow[] = [];
  let nodeBytes = 0;
  let hasStaged = false;

  function add(row: BlockRow): void {
    rows.push(row);
    nodeBytes += row.node?.length ?? 0;
    if (catalog === undefined || (rows.length < maxRows && nodeBytes < maxNodeBytes)) return;
    hasStaged = true;
    catalog.stage(file, rows);
    rows = [];
    nodeBytes = 0;
  }

  return {
    /** Adds a leaf whose bytes are in the file, from `offset` on. */
    leaf: (cid: string, offset: number, bytes: number) => add({ cid, offset, bytes, node: null, links: [] }),
    /**
     * Adds an interior node.
     * @throws invalid_cid when it is not dag-pb, or links to a CID of another kind
     */
    node: (cid: string, node: Uint8Array) =>
      add({ cid, offset: 0, bytes: node.length, node, links: [...new Set(linksOf(node).map((link) => link.text))] }),
    /** The rows that are not staged. */
    finish: () => rows,
    /** Drops the rows that are staged. */
    abort() {
      if (hasStaged) catalog?.unstage(file);
    },
  };
}
