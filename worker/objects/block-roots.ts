/**
 * Which blocks are below which roots: a client that reads a file block by block asks for them by their own CIDs. A row is only a hint
 * where to look: whether the root is stored here is asked each time, so that a row outlives its file without harm.
 */

type Row = { root: string };

/** More roots of one block are not remembered: a leaf that so many files share, such as one of zeros, is found by any of them. */
const maxRoots = 16;

/** The rows in an object's storage. Their table comes with the first one. */
export class BlockRoots {
  readonly #sql: SqlStorage;
  #exists: boolean;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#exists = sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'block_root'`).toArray().length > 0;
  }

  add(root: string, cids: readonly string[]): void {
    if (!this.#exists)
      this.#sql.exec(
        'CREATE TABLE IF NOT EXISTS block_root (cid TEXT NOT NULL, root TEXT NOT NULL, PRIMARY KEY (cid, root)) WITHOUT ROWID',
      );
    this.#exists = true;
    for (const cid of cids)
      if (this.of(cid).length < maxRoots)
        this.#sql.exec('INSERT INTO block_root (cid, root) VALUES (?, ?) ON CONFLICT DO NOTHING', cid, root);
  }

  /** The roots that a block was seen below. */
  of(cid: string): string[] {
    if (!this.#exists) return [];
    return this.#sql
      .exec<Row>('SELECT root FROM block_root WHERE cid = ?', cid)
      .toArray()
      .map(({ root }) => root);
  }

  /** Forgets a root that is not stored any more. */
  remove(cid: string, root: string): void {
    if (this.#exists) this.#sql.exec('DELETE FROM block_root WHERE cid = ? AND root = ?', cid, root);
  }
}
