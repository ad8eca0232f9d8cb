/**
 * The CIDs of a `Pin` object that the operator denies. Their bytes are neither served nor stored.
 */
import { StorageRows } from '../storage-rows.ts';
import { insert, list } from '../sql.ts';

/** The denylist in an object's storage. */
export class DeniedCids extends StorageRows {
  /** Creates the table, unless it is there. */
  create(): void {
    this.sql.exec(
      'CREATE TABLE IF NOT EXISTS denied (cid TEXT PRIMARY KEY, created_at INTEGER NOT NULL) WITHOUT ROWID',
    );
  }

  add(cid: string, nowMs: number): void {
    insert(this.sql, 'denied', { cid, created_at: nowMs }, 'ON CONFLICT DO NOTHING');
  }

  remove(cid: string): void {
    this.sql.exec('DELETE FROM denied WHERE cid = ?', cid);
  }

  /** Returns the time at which a CID was put on it, in ms; undefined if it is not on it. */
  since(cid: string): number | undefined {
    return list<number>(this.sql, 'SELECT created_at FROM denied WHERE cid = ?', cid)[0];
  }
}
