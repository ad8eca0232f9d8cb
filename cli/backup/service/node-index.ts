/** The index of the embedded node, by which its files with bytes are copied. */
import { DatabaseSync } from 'node:sqlite';

/** A file with bytes, by its name on the disk, and the CID of what it holds. */
export type BlockFile = { readonly id: number; readonly name: string; readonly cid: string };

/** Place of a leaf in its file. */
export type Leaf = { readonly cid: string; readonly start: number; readonly bytes: number };

/** A copy of the index of the embedded node. */
export class NodeIndex {
  readonly #db: DatabaseSync;

  /** @param path is only read */
  constructor(path: string) {
    this.#db = new DatabaseSync(path, { readOnly: true });
  }

  /** All files that are complete. */
  files(): BlockFile[] {
    return this.#db
      .prepare('SELECT id, name, cid FROM file WHERE cid IS NOT NULL ORDER BY id')
      .all() as unknown as BlockFile[];
  }

  leaves({ id }: BlockFile): Leaf[] {
    return this.#db
      .prepare('SELECT cid, start, bytes FROM block WHERE file = ? AND node IS NULL ORDER BY start')
      .all(id) as unknown as Leaf[];
  }

  close(): void {
    this.#db.close();
  }
}
