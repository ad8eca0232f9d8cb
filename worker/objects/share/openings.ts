/**
 * The openings of a share, and the changes of its terms, that its account does not know of yet: its
 * outbox, one row each, until the account has them.
 */
import { errorText, log } from '../../log.ts';
import { backoffMs } from '../alarm.ts';
import type { Result } from '../result.ts';
import { addColumns, integer, optional, recordsOf, rowOf, text, type RecordOf } from '../columns.ts';
import { StorageRows } from '../storage-rows.ts';
import { first, hasTable, insert, least } from '../sql.ts';

/** Columns of a change, which are null in the row of an opening. */
const changeColumns = {
  by: optional(text('api_key')),
  opens: optional(integer('opens')),
  expiresAt: optional(integer('expires_at')),
};

const openingColumns = {
  number: integer('number'),
  time: integer('time'),
  attempts: integer('attempts'),
  ...changeColumns,
};

/** Terms of a share from a time on, in ms; `by`: the ID of the API key that set them. */
export type NewTerms = { time: number; by: string; opens: number; expiresAt: number };

/**
 * One opening: the first of a share is number 1; `time` in ms. A change of terms has the number of
 * its time, negative.
 */
export type Opening = { number: number; time: number; change?: Omit<NewTerms, 'time'> | undefined };

/**
 * Account of a share, which records its openings and changes. The same one may come more than once.
 */
interface OpeningLog extends Rpc.DurableObjectBranded {
  shareOpened(share: string, openings: readonly Opening[]): Promise<Result>;
}

/** The objects `Account`, as `Share` calls them. */
export type OpeningBinding = { ACCOUNT: DurableObjectNamespace<OpeningLog> };

/** Identity of a share: its ID, and that of its account. */
export type Origin = { share: string; account: string };

/**
 * The openings in an object's storage. Shares from before there were events have no origin, and
 * report nothing.
 */
export class Openings extends StorageRows<OpeningBinding> {
  /** Creates the tables, in the transaction that creates the share. */
  create({ share, account }: Origin): void {
    this.sql.exec(`
      CREATE TABLE IF NOT EXISTS origin (share TEXT NOT NULL, account TEXT NOT NULL);
      CREATE TABLE IF NOT EXISTS opening (
        number INTEGER PRIMARY KEY, time INTEGER NOT NULL, due INTEGER NOT NULL, attempts INTEGER NOT NULL)
    `);
    insert(this.sql, 'origin', { share, account });
  }

  /** The ID of the account whose share it is. */
  account(): string | undefined {
    return this.#origin()?.account;
  }

  /**
   * Records an opening, in the transaction that counts it.
   * @param dueMs when it is reported again, unless it is acknowledged by then
   */
  add({ number, time }: Opening, dueMs: number): void {
    if (!this.#exists()) return;
    insert(this.sql, 'opening', { number, time, due: dueMs, attempts: 0 });
  }

  /** Records a change, in the transaction that makes it. */
  addChange({ time, ...change }: NewTerms, dueMs: number): void {
    if (!this.#exists()) return;
    addColumns(this.sql, 'opening', changeColumns);
    insert(this.sql, 'opening', { number: -time, time, due: dueMs, attempts: 0, ...rowOf(changeColumns, change) });
  }

  /**
   * Reports them to the account. It does not throw: what is not acknowledged stays, and is due
   * again.
   */
  async deliver(nowMs: number): Promise<void> {
    const origin = this.#origin();
    if (origin === undefined) return;
    const rows = recordsOf(this.sql, openingColumns, 'SELECT * FROM opening ORDER BY time, number');
    if (rows.length === 0) return;
    const attempts = 1 + Math.max(...rows.map((row) => row.attempts));
    this.sql.exec('UPDATE opening SET attempts = ?, due = ?', attempts, nowMs + backoffMs(attempts));
    try {
      const openings = rows.map(openingOf);
      const result = await this.context.ACCOUNT.getByName(origin.account).shareOpened(origin.share, openings);
      if (!result.ok) return log({ event: 'share.report', attempts, code: result.code });
      for (const { number } of openings) this.sql.exec('DELETE FROM opening WHERE number = ?', number);
    } catch (error) {
      log({ event: 'share.report', attempts, error: errorText(error) });
    }
  }

  /** Returns the time at which they must be reported again, in ms. */
  nextDue(): number | undefined {
    return this.#exists() ? least(this.sql, 'due', 'opening') : undefined;
  }

  #origin(): Origin | undefined {
    return this.#exists() ? first<Origin>(this.sql, 'SELECT share, account FROM origin') : undefined;
  }

  #exists(): boolean {
    return hasTable(this.sql, 'origin');
  }
}

function openingOf({ number, time, by, opens, expiresAt }: RecordOf<typeof openingColumns>): Opening {
  const change = by === null || opens === null || expiresAt === null ? undefined : { by, opens, expiresAt };
  return { number, time, change };
}
