/**
 * Index of the blocks below each root: a client that reads a file block by block asks for them by
 * their own CIDs. A row is only a hint where to look: whether the root is stored here is asked each
 * time. Sixteen of the `Pin` objects have the rows, so that a file of any size costs sixteen calls
 * at most.
 */
import { hasTable, insert, list } from '../sql.ts';
import { StorageRows } from '../storage-rows.ts';
import { firstByte, hex } from './shard-names.ts';

/**
 * Number of roots that are returned for a block: one that more files share, such as a leaf of
 * zeros, is found by any of them.
 */
const mostRoots = 16;

/** The rows in an object's storage. Their table comes with the first one. */
export class BlockRoots extends StorageRows {
  constructor(sql: SqlStorage) {
    super(sql);
    // Builds before this one had rows in all 256 objects, of blocks that somebody had read.
    if (hasTable(sql, 'block_root')) sql.exec('DROP TABLE block_root');
  }

  add(root: string, cids: readonly string[]): void {
    if (!this.#exists())
      this.sql.exec(`
        CREATE TABLE block_below (cid TEXT NOT NULL, root TEXT NOT NULL, PRIMARY KEY (cid, root)) WITHOUT ROWID;
        CREATE INDEX block_below_root ON block_below (root);
      `);
    for (const cid of cids) insert(this.sql, 'block_below', { cid, root }, 'ON CONFLICT DO NOTHING');
  }

  /** The roots that a block is below. */
  of(cid: string): string[] {
    if (!this.#exists()) return [];
    return list(this.sql, 'SELECT root FROM block_below WHERE cid = ? LIMIT ?', cid, mostRoots);
  }

  /** Forgets all blocks below a root. */
  remove(root: string): void {
    if (this.#exists()) this.sql.exec('DELETE FROM block_below WHERE root = ?', root);
  }

  #exists(): boolean {
    return hasTable(this.sql, 'block_below');
  }
}

/** The name of the object that has the rows of a block. Rows are found by it. */
export async function blockShardName(cid: string): Promise<string> {
  return hex((await firstByte(cid)) & 0xf0);
}

/** The names of all objects that have rows of blocks. */
export const blockShardNames: readonly string[] = Array.from({ length: 16 }, (_, digit) => hex(digit << 4));

/** The blocks that each object has rows of. */
export async function blocksByShard(cids: Iterable<string>): Promise<Map<string, string[]>> {
  const shards = new Map<string, string[]>();
  for (const cid of cids) {
    const name = await blockShardName(cid);
    const blocks = shards.get(name);
    if (blocks === undefined) shards.set(name, [cid]);
    else blocks.push(cid);
  }
  return shards;
}
