/** The index of the embedded node, by which its files with bytes are copied. */
import type { DatabaseSync } from 'node:sqlite';

/** A file with bytes, by its name on the disk, and the CID of what it holds. */
export type BlockFile = { readonly id: number; readonly name: string; readonly cid: string };

/** Place of a leaf in its file. */
export type Leaf = { readonly cid: string; readonly start: number; readonly bytes: number };

/** All files that are complete. */
export function blockFilesIn(index: DatabaseSync): BlockFile[] {
  const files = index.prepare('SELECT id, name, cid FROM file WHERE cid IS NOT NULL ORDER BY id');
  return files.all() as unknown as BlockFile[];
}

export function leavesIn(index: DatabaseSync, { id }: BlockFile): Leaf[] {
  const leaves = index.prepare('SELECT cid, start, bytes FROM block WHERE file = ? AND node IS NULL ORDER BY start');
  return leaves.all(id) as unknown as Leaf[];
}
