/**
 * Lets the blocks below the roots of a `Pin` object be found. After a file has come, the alarm
 * reads its nodes from a service that holds it, and writes a row for each block (`block-roots.ts`);
 * after the last reference to it has gone, it removes them.
 */
import { blocksOf, parseCid, type BlockSource } from '../../../shared/ipfs/index.ts';
import { errorText, log } from '../../log.ts';
import { backoffMs, withJitter } from '../alarm.ts';
import { askInBatches } from '../batches.ts';
import { blocksByShard, blockShardNames } from './block-roots.ts';
import { unwrap, type Result } from '../result.ts';
import { StorageRows } from '../storage-rows.ts';
import { first, hasTable, insert, least, list, update } from '../sql.ts';
import { timeLimit } from '../../backends/time-limit.ts';

/** An object that has rows, as others of the class call it. */
type BlockShard = {
  addBlocks(root: string, cids: readonly string[]): PromiseLike<Result>;
  removeBlocks(root: string): PromiseLike<Result>;
};

type IndexContext = {
  /** The object of that name. */
  shard(name: string): BlockShard;
  /** Tells whether a file needs the CID. */
  isFile(cid: string): boolean;
  /** The services that hold it and may be asked, on behalf of a request. */
  sources(cid: string, requestId: string): BlockSource[];
  /** Marks a service that gave something else for a block of it. */
  markSuspect(cid: string, service: string): void;
  /** The clock, in ms. */
  now(): number;
};

/** Number of failed attempts, and the request from which the work follows, if any. */
type DueRoot = { attempts: number; request_id: string | null };

/** Times that the nodes of a file, and each of them, may take, in ms: a file of 32 GiB has 190. */
const nodesMs = { all: 60_000, each: 8_000 };
/** Time over which the files of an earlier version are spread, in ms. */
const upgradeMs = 7 * 86_400_000;

/** The roots in an object's storage; `due` is null where the rows are written. */
export class BlockIndex extends StorageRows<IndexContext> {
  /** Creates the table, with the files that are there already. @param nowMs the time */
  create(nowMs: number): void {
    if (hasTable(this.sql, 'block_index')) return;
    this.sql.exec(`
      CREATE TABLE block_index (root TEXT PRIMARY KEY, due INTEGER, attempts INTEGER NOT NULL, request_id TEXT)
        WITHOUT ROWID;
      CREATE INDEX block_index_due ON block_index (due) WHERE due IS NOT NULL;
    `);
    // A CID of version 1 with a node begins with these letters.
    this.sql.exec(
      `INSERT INTO block_index (root, due, attempts) SELECT cid, ? + abs(random() % ?), 0 FROM reference
       WHERE is_part = 0 AND cid LIKE 'bafybei%' GROUP BY cid`,
      nowMs,
      upgradeMs,
    );
  }

  /**
   * Queues the rows of a file, unless they are written, or it is a single block.
   * @param dueMs when to begin
   */
  add(root: string, dueMs: number, requestId: string | undefined): void {
    if (parseCid(root).codec === 'raw') return;
    const row = { root, due: dueMs, attempts: 0, request_id: requestId ?? null };
    insert(this.sql, 'block_index', row, 'ON CONFLICT DO NOTHING');
  }

  /** Queues the removal of the rows of a CID that no file needs any more. */
  remove(root: string): void {
    update(this.sql, 'block_index', { due: this.context.now(), attempts: 0 }, 'root = ?', root);
  }

  /** Returns the time of the next work, in ms. */
  nextTime(): number | undefined {
    return least(this.sql, 'due', 'block_index WHERE due IS NOT NULL');
  }

  /** The root that has been due for the longest. */
  firstDue(): string | undefined {
    const query = 'SELECT root FROM block_index WHERE due <= ? ORDER BY due LIMIT 1';
    return list<string>(this.sql, query, this.context.now())[0];
  }

  /**
   * Writes or removes the rows of a root, if it is still due. It does not throw: what fails is due
   * again.
   * @param signal interrupts it @returns how many requests it made
   */
  async next(root: string, signal: AbortSignal): Promise<number> {
    const query = 'SELECT attempts, request_id FROM block_index WHERE root = ? AND due <= ?';
    const due = first<DueRoot>(this.sql, query, root, this.context.now());
    if (due === undefined) return 0;
    const { attempts } = due;
    const requestId = due.request_id ?? crypto.randomUUID();
    const isFile = this.context.isFile(root);
    try {
      const requests = isFile ? await this.#write(root, requestId, signal) : await this.#clear(root);
      const written = { due: null, attempts: 0, request_id: null };
      if (isFile) update(this.sql, 'block_index', written, 'root = ?', root);
      else this.sql.exec('DELETE FROM block_index WHERE root = ?', root);
      return requests;
    } catch (error) {
      if (signal.aborted) return 1;
      log({ event: 'pin.blocks', requestId, cid: root, attempts, error: errorText(error) });
      update(this.sql, 'block_index', { attempts: attempts + 1 }, 'root = ?', root);
      this.postpone(root, withJitter(backoffMs(attempts + 1)));
      return 1;
    }
  }

  /** Tries again later. */
  postpone(root: string, ms: number): void {
    update(this.sql, 'block_index', { due: this.context.now() + ms }, 'root = ?', root);
  }

  async #write(root: string, requestId: string, signal: AbortSignal): Promise<number> {
    const below: string[] = [];
    let nodes = 0;
    const limited = AbortSignal.any([signal, timeLimit(nodesMs.all)]);
    const onMismatch = ({ id }: BlockSource) => this.context.markSuspect(root, id);
    const options = { signal: limited, limits: { idleMs: nodesMs.each }, onMismatch };
    for await (const { cid } of blocksOf(root, this.context.sources(root, requestId), options)) {
      if (cid.codec !== 'raw') nodes += 1;
      if (cid.text !== root) below.push(cid.text);
    }
    const shards = await blocksByShard(below);
    signal.throwIfAborted();
    await askInBatches([...shards], async ([name, cids]) => unwrap(this.context.shard(name).addBlocks(root, cids)));
    return nodes + shards.size;
  }

  async #clear(root: string): Promise<number> {
    await askInBatches(blockShardNames, async (name) => unwrap(this.context.shard(name).removeBlocks(root)));
    return blockShardNames.length;
  }
}
