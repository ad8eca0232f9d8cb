/**
 * Files that stay only if another upload of their API key names them, and as long as that one: the
 * payloads of a delivery, which nobody can open without the parcel that comes after them. A sender
 * who fails in between may not delete them.
 */
import { err, type Failure } from '../../result.ts';
import { StorageRows } from '../../storage-rows.ts';
import { exists, insert, least, list, update } from '../../sql.ts';

/**
 * Times after which such a file is removed, in ms: after the last request of its key, and at the
 * latest after it was stored.
 */
const idleMs = 86_400_000;
const longestMs = 7 * idleMs;
/**
 * A request within this time after another one postpones nothing, so that it costs no row, in ms.
 */
const graceMs = 3_600_000;

/** The rows in an object's storage. `due` and `latest` are null until the file is stored. */
export class ProvisionalFiles extends StorageRows {
  /** Marks a pending file. */
  add(fileId: string, apiKey: string): void {
    insert(this.sql, 'provisional_file', { file_id: fileId, api_key: apiKey });
  }

  /** Begins the time of a file that is stored now, if it is one. */
  begin(fileId: string, nowMs: number): void {
    const times = { due: nowMs + idleMs, latest: nowMs + longestMs };
    update(this.sql, 'provisional_file', times, 'file_id = ?', fileId);
  }

  /** Postpones the removal of what a key stored, which makes a request now. */
  postpone(apiKey: string, nowMs: number): void {
    const postponed = 'UPDATE provisional_file SET due = min(?2, latest) WHERE api_key = ?1 AND due < min(?3, latest)';
    this.sql.exec(postponed, apiKey, nowMs + idleMs, nowMs + idleMs - graceMs);
  }

  /**
   * Lets files stay that a key stored, or whose last bytes it has sent.
   * @param by the ID of the file that names them; those that another one keeps are not its own
   * @returns `not_found` where one of them is not there, or its time is up
   */
  keep(fileIds: readonly string[], apiKey: string, by: string, nowMs: number): Failure | undefined {
    const ids = JSON.stringify([...new Set(fileIds)]);
    const missing = `json_each(?1) WHERE NOT EXISTS (SELECT 1 FROM file WHERE file_id = value AND created_by = ?2)
       AND value NOT IN (SELECT id FROM upload WHERE api_key = ?2 AND state = 'finishing')`;
    if (exists(this.sql, missing, ids, apiKey) || this.isAnyUp(fileIds, nowMs))
      return err('not_found', 'a file that this one names is not stored, or not any more');
    const named = 'FROM provisional_file WHERE file_id IN (SELECT value FROM json_each(?1))';
    this.sql.exec(`INSERT INTO named_file (named_by, file_id) SELECT ?2, file_id ${named}`, ids, by);
    this.sql.exec(`DELETE ${named}`, ids);
    return undefined;
  }

  /**
   * Forgets what a file named that is removed; of that, what is still being finished has its time
   * again once it is stored.
   * @param most of the others; the time of those beyond is up, so that the alarm removes them
   * @returns their IDs
   */
  release(by: string, most: number, nowMs: number): string[] {
    const named = list<string>(this.sql, 'DELETE FROM named_file WHERE named_by = ? RETURNING file_id', by);
    const again = `INSERT OR IGNORE INTO provisional_file (file_id, api_key) SELECT id, api_key FROM upload
      WHERE id IN (SELECT value FROM json_each(?)) AND state = 'finishing'`;
    this.sql.exec(again, JSON.stringify(named));
    const later = `INSERT OR REPLACE INTO provisional_file (file_id, api_key, due, latest)
      SELECT file_id, created_by, ?1, ?1 FROM file
      WHERE file_id IN (SELECT value FROM json_each(?2)) AND state = 'ready'`;
    if (named.length > most) this.sql.exec(later, nowMs, JSON.stringify(named.splice(Math.max(0, most))));
    return named;
  }

  /** Forgets a file that is removed, or will not be stored. */
  remove(fileId: string): void {
    this.sql.exec('DELETE FROM provisional_file WHERE file_id = ?', fileId);
  }

  /** Tells whether the time of one of these is up: it is gone, however late the alarm is. */
  isAnyUp(fileIds: readonly string[], nowMs: number): boolean {
    const up = 'provisional_file WHERE file_id IN (SELECT value FROM json_each(?)) AND due <= ?';
    return exists(this.sql, up, JSON.stringify(fileIds), nowMs);
  }

  /** The IDs of files whose time is up. */
  due(nowMs: number, limit: number): string[] {
    return list(this.sql, 'SELECT file_id FROM provisional_file WHERE due <= ? LIMIT ?', nowMs, limit);
  }

  /** Returns the time at which the next one is up, in ms. */
  nextDue(): number | undefined {
    return least(this.sql, 'due', 'provisional_file');
  }
}
