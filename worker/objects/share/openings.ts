/** The openings of a share that its account does not know of yet: its outbox, one row each, until the account has them. */
import { errorText, log } from '../../log.ts';
import { backoffMs } from '../alarm.ts';
import type { Result } from '../result.ts';

/** One opening: the first of a share is number 1; `time` in ms. */
export type Opening = { number: number; time: number };

/** Account of a share, which records its openings. The same one may come more than once. */
interface OpeningLog extends Rpc.DurableObjectBranded {
  shareOpened(share: string, openings: readonly Opening[]): Promise<Result>;
}

/** The objects `Account`, as `Share` calls them. */
export type OpeningBinding = { ACCOUNT: DurableObjectNamespace<OpeningLog> };

/** Identity of a share: its ID, and that of its account. */
export type Origin = { share: string; account: string };

/** The openings in an object's storage. Shares from before there were events have no origin, and report nothing. */
export class Openings {
  readonly #sql: SqlStorage;
  readonly #env: OpeningBinding;

  constructor(sql: SqlStorage, env: OpeningBinding) {
    this.#sql = sql;
    this.#env = env;
  }

  /** Creates the tables, in the transaction that creates the share. */
  create({ share, account }: Origin): void {
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS origin (share TEXT NOT NULL, account TEXT NOT NULL);
      CREATE TABLE IF NOT EXISTS opening (
        number INTEGER PRIMARY KEY, time INTEGER NOT NULL, due INTEGER NOT NULL, attempts INTEGER NOT NULL)
    `);
    this.#sql.exec('INSERT INTO origin (share, account) VALUES (?, ?)', share, account);
  }

  /** Records an opening, in the transaction that counts it. @param dueMs when it is reported again, unless it is acknowledged by then */
  add({ number, time }: Opening, dueMs: number): void {
    if (!this.#exists()) return;
    this.#sql.exec('INSERT INTO opening (number, time, due, attempts) VALUES (?, ?, ?, 0)', number, time, dueMs);
  }

  /** Reports them to the account. It does not throw: what is not acknowledged stays, and is due again. */
  async deliver(nowMs: number): Promise<void> {
    const [origin] = this.#exists() ? this.#sql.exec<Origin>('SELECT share, account FROM origin').toArray() : [];
    if (origin === undefined) return;
    const rows = this.#sql
      .exec<Opening & { attempts: number }>('SELECT number, time, attempts FROM opening ORDER BY number')
      .toArray();
    if (rows.length === 0) return;
    const attempts = 1 + Math.max(...rows.map((row) => row.attempts));
    this.#sql.exec('UPDATE opening SET attempts = ?, due = ?', attempts, nowMs + backoffMs(attempts));
    try {
      const openings = rows.map(({ number, time }) => ({ number, time }));
      const result = await this.#env.ACCOUNT.getByName(origin.account).shareOpened(origin.share, openings);
      if (!result.ok) return log({ event: 'share.report', attempts, code: result.code });
      for (const { number } of openings) this.#sql.exec('DELETE FROM opening WHERE number = ?', number);
    } catch (error) {
      log({ event: 'share.report', attempts, error: errorText(error) });
    }
  }

  /** Returns the time at which they must be reported again, in ms. */
  nextDue(): number | undefined {
    if (!this.#exists()) return undefined;
    return this.#sql.exec<{ due: number | null }>('SELECT min(due) AS due FROM opening').one().due ?? undefined;
  }

  #exists(): boolean {
    return this.#sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'origin'`).toArray().length > 0;
  }
}
