/**
 * The openings of a share that can be repeated: anyone who lost the answer to one gets it again,
 * without another opening.
 */
import { repeatMs } from '../../../shared/time.ts';
import { StorageRows } from '../storage-rows.ts';
import { exists, greatest, hasTable, insert } from '../sql.ts';

/**
 * The openings in an object's storage, by the SHA-256 of what their makers alone know. There is a
 * share when they are asked for.
 */
export class RepeatableOpenings extends StorageRows {
  /**
   * Records an opening, in the transaction that counts it. What cannot be repeated any more is
   * forgotten.
   */
  add(token: string, nowMs: number): void {
    this.sql.exec(
      'CREATE TABLE IF NOT EXISTS repeatable (token TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID',
    );
    this.sql.exec('DELETE FROM repeatable WHERE until <= ?', nowMs);
    insert(this.sql, 'repeatable', { token, until: nowMs + repeatMs });
  }

  /** Tells whether an opening with this token can be repeated. */
  has(token: string, nowMs: number): boolean {
    return this.#exists() && exists(this.sql, 'repeatable WHERE token = ? AND until > ?', token, nowMs);
  }

  /** Returns the time until which one of them can be repeated, in ms; 0 if there is none. */
  until(): number {
    return this.#exists() ? (greatest(this.sql, 'until', 'repeatable') ?? 0) : 0;
  }

  /** Lets none be repeated any more. */
  forget(): void {
    if (this.#exists()) this.sql.exec('DELETE FROM repeatable');
  }

  #exists(): boolean {
    return hasTable(this.sql, 'repeatable');
  }
}
