/** Queries for the blocks below a CID and the pins above it. A DAG may lie in many files. */
import type { DatabaseSync } from 'node:sqlite';

/** Every block from `?1` down, and every node from `?1` up. UNION drops what was there already. */
const down = `WITH RECURSIVE down (cid) AS
  (VALUES (?1) UNION SELECT link.child FROM down CROSS JOIN link ON link.parent = down.cid)`;
const upFrom = (cid: string) => `WITH RECURSIVE up (cid) AS
  (VALUES (${cid}) UNION SELECT link.parent FROM up CROSS JOIN link ON link.child = up.cid)`;
const up = upFrom('?1');

/** A CID, given in SQL, and every node above it. */
export const above = (cid: string): string => `${upFrom(cid)} SELECT cid FROM up`;

/** The files that hold a block from `?1` down. */
export const filesBelow = `${down} SELECT block.file FROM down CROSS JOIN block ON block.cid = down.cid`;

const statements = (db: DatabaseSync) => {
  const complete = 'block JOIN file ON file.id = block.file AND file.cid IS NOT NULL WHERE block.cid = down.cid';
  return {
    missing: db.prepare(`${down} SELECT cid FROM down WHERE NOT EXISTS (SELECT 1 FROM ${complete}) LIMIT 1`),
    size: db.prepare(
      `${down} SELECT count(*) AS blocks, sum((SELECT block.bytes FROM ${complete} LIMIT 1)) AS bytes FROM down`,
    ),
    indirect: db.prepare(`
      WITH RECURSIVE below (cid) AS (
        SELECT link.child FROM pin CROSS JOIN link ON link.parent = pin.cid
        UNION SELECT link.child FROM below CROSS JOIN link ON link.parent = below.cid)
      SELECT cid FROM below WHERE cid NOT IN (SELECT cid FROM pin)`),
    holder: db.prepare(`${up} SELECT pin.cid FROM up CROSS JOIN pin ON pin.cid = up.cid LIMIT 1`),
    pinOf: db.prepare('SELECT 1 FROM pin WHERE cid = ?'),
    parentsOf: db.prepare('SELECT parent FROM link WHERE child = ?'),
  };
};

/** Answers what lies below a CID, and which pins above it. */
export class Reach {
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: DatabaseSync) {
    this.#sql = statements(db);
  }

  /**
   * Returns a block at or below a CID that no complete file has; undefined when all of them are
   * there.
   */
  missing(cid: string): string | undefined {
    return this.#sql.missing.get(cid)?.['cid'] as string | undefined;
  }

  /** Counts the blocks at and below a CID, and their bytes together; each block counts once. */
  size(cid: string): { blocks: number; bytes: number } {
    return this.#sql.size.get(cid) as { blocks: number; bytes: number };
  }

  /** Lists blocks below pins that are not pinned themselves. */
  indirect(): string[] {
    return this.#sql.indirect.all().map((row) => String(row['cid']));
  }

  /** Finds a pin above a CID that is not pinned itself. */
  holder(cid: string): string | undefined {
    const found = this.#sql.holder.get(cid)?.['cid'] as string | undefined;
    return found === cid ? undefined : found;
  }

  /**
   * Makes a predicate for as long as neither pins nor links change: whether a block is pinned or
   * below a pin.
   */
  protected liveness(): (cid: string) => boolean {
    const { pinOf, parentsOf } = this.#sql;
    // Each block is looked at once, however many below it are asked for.
    const live = new Set<string>();
    const dead = new Set<string>();
    return (cid) => {
      const path: { cid: string; parents: string[] }[] = [];
      let next: string | undefined = cid;
      for (;;) {
        if (next !== undefined && !dead.has(next)) {
          if (live.has(next) || pinOf.get(next) !== undefined) {
            live.add(next);
            for (const below of path) live.add(below.cid);
            return true;
          }
          path.push({ cid: next, parents: parentsOf.all(next).map((row) => String(row['parent'])) });
        }
        const top = path.at(-1);
        if (top === undefined) return false;
        next = top.parents.pop();
        if (next !== undefined) continue;
        dead.add(top.cid);
        path.pop();
      }
    };
  }
}
