/**
 * Outcomes of removals for files whose last reference a `Pin` object has removed, until their accounts know: a row for
 * each service that held the file. A removal that cannot be made at once is reported when it is made, or when the bytes
 * are wanted again.
 */
import { errorText, log } from '../../log.ts';
import { backoffMs } from '../alarm.ts';
import { receiptMs, type RemovedPin } from './backend-pin.ts';
import type { PinRow, Reference } from './pin-table.ts';
import type { Removal } from './pin-steps.ts';
import type { Result } from '../result.ts';

/** The object of an account, as this one tells it. */
export type RemovalLog = { unreferred(fileId: string, pins: readonly RemovedPin[]): PromiseLike<Result> };

type PinRemovalsOptions = {
  report(account: string, fileId: string, pins: readonly RemovedPin[]): PromiseLike<Result>;
  /** The clock, in ms. */
  now(): number;
};

type File = { account: string; file_id: string };

/** Largest number of accounts that one alarm informs. */
const batch = 100;

/** The rows in an object's storage. */
export class Removals {
  readonly #sql: SqlStorage;
  readonly #o: PinRemovalsOptions;

  constructor(sql: SqlStorage, options: PinRemovalsOptions) {
    this.#sql = sql;
    this.#o = options;
  }

  /** Writes the rows of a file, in the transaction that removes its reference. */
  begin({ cid, account, fileId }: Reference, pins: readonly PinRow[]): void {
    for (const { service } of pins)
      this.#sql.exec(
        `INSERT INTO removal (account, file_id, service, cid, status, due, attempts, until)
         VALUES (?, ?, ?, ?, 'scheduled', NULL, 0, ?) ON CONFLICT DO NOTHING`,
        account,
        fileId,
        service,
        cid,
        this.#o.now() + receiptMs,
      );
  }

  /** Records what became of a CID at a service. */
  note(cid: string, service: string, status: Removal): void {
    this.#sql.exec(
      `UPDATE removal SET status = ?, due = ? WHERE cid = ? AND service = ? AND status = 'scheduled'`,
      status,
      this.#o.now(),
      cid,
      service,
    );
  }

  /**
   * Returns the outcome for a file, of which the caller informs the account; undefined if no row has it. Unless all is
   * gone, the alarm repeats it: the answer may be lost.
   */
  answer({ account, fileId }: Pick<Reference, 'account' | 'fileId'>): RemovedPin[] | undefined {
    const file = { account, file_id: fileId };
    const pins = this.#pinsOf(file);
    if (pins.every(({ status }) => status === 'unpinned')) this.#told(file, pins);
    return pins.length === 0 ? undefined : pins;
  }

  /** Returns the time of the next report, in ms. */
  nextTime(): number | undefined {
    const { due } = this.#sql
      .exec<{ due: number | null }>('SELECT min(due) AS due FROM removal WHERE due IS NOT NULL')
      .one();
    return due ?? undefined;
  }

  /** Tells accounts what has been done for their receipts. It does not throw: what is not acknowledged is due again. */
  async flush(): Promise<void> {
    const { now } = this.#o;
    // What somebody else needs by now is not removed any more, and no reference of this file is left.
    this.#sql.exec(
      `UPDATE removal SET status = 'unpinned', due = ? WHERE status = 'scheduled' AND NOT EXISTS (
         SELECT 1 FROM pin WHERE pin.cid = removal.cid AND pin.service = removal.service AND pin.state = 'unpinning')`,
      now(),
    );
    // Nobody can fetch their receipts any more.
    this.#sql.exec('DELETE FROM removal WHERE until <= ?', now());
    const due = this.#sql.exec<File & { attempts: number }>(
      'SELECT account, file_id, max(attempts) AS attempts FROM removal WHERE due <= ? GROUP BY account, file_id LIMIT ?',
      now(),
      batch,
    );
    for (const { attempts, ...file } of due.toArray()) await this.#report(file, attempts + 1);
  }

  async #report(file: File, attempts: number): Promise<void> {
    const { account, file_id: fileId } = file;
    // Before the message goes out: the next alarm must not send it once more while this one waits.
    this.#sql.exec(
      'UPDATE removal SET due = ?, attempts = ? WHERE account = ? AND file_id = ? AND due IS NOT NULL',
      this.#o.now() + backoffMs(attempts),
      attempts,
      account,
      fileId,
    );
    const pins = this.#pinsOf(file);
    try {
      const answer = await this.#o.report(account, fileId, pins);
      if (answer.ok) return this.#told(file, pins);
      log({ event: 'pin.report', attempts, code: answer.code });
    } catch (error) {
      log({ event: 'pin.report', attempts, error: errorText(error) });
    }
  }

  #pinsOf({ account, file_id: fileId }: File): RemovedPin[] {
    return this.#sql
      .exec<RemovedPin>(
        'SELECT service, status FROM removal WHERE account = ? AND file_id = ? ORDER BY service',
        account,
        fileId,
      )
      .toArray();
  }

  /** Forgets what an account was told, once nothing of it is scheduled. */
  #told({ account, file_id: fileId }: File, told: readonly RemovedPin[]): void {
    const isDone = told.every(({ status }) => status !== 'scheduled');
    if (isDone) this.#sql.exec('DELETE FROM removal WHERE account = ? AND file_id = ?', account, fileId);
    for (const { service, status } of isDone ? [] : told)
      this.#sql.exec(
        `UPDATE removal SET due = NULL, attempts = 0 WHERE account = ? AND file_id = ? AND service = ? AND status = ?`,
        account,
        fileId,
        service,
        status,
      );
  }
}
