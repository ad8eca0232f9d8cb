/**
 * Outcomes of removals for files whose last reference a `Pin` object has removed, until their
 * accounts know: a row for each service that held the file. A removal that cannot be made at once
 * is reported when it is made, or when the bytes are wanted again.
 */
import { receiptDays, type RemovedPin } from '../../../shared/api.ts';
import { dayMs } from '../../../shared/time.ts';
import { errorText, log } from '../../log.ts';
import { backoffMs } from '../alarm.ts';
import type { PinRow, Reference } from './pin-rows.ts';
import type { Removal } from './pin-steps.ts';
import type { Result } from '../result.ts';
import { StorageRows } from '../storage-rows.ts';
import { all, insert, least, update } from '../sql.ts';

/** The object of an account, as this one tells it. */
export type RemovalLog = { unreferred(fileId: string, pins: readonly RemovedPin[]): PromiseLike<Result> };

type RemovalsOptions = {
  report(account: string, fileId: string, pins: readonly RemovedPin[]): PromiseLike<Result>;
  /** The clock, in ms. */
  now(): number;
};

const ofFile = 'account = ? AND file_id = ?';

type RemovedFile = Pick<Reference, 'account' | 'fileId'>;

/** Largest number of accounts that one alarm informs. */
const maxRemovals = 100;

/** The rows in an object's storage. */
export class PinRemovals extends StorageRows<RemovalsOptions> {
  /**
   * Writes the rows of a file, in the transaction that removes its reference.
   * @returns whether there were none: no answer before may have said `scheduled`
   */
  begin({ cid, account, fileId }: Reference, pins: readonly PinRow[]): boolean {
    const isFirst = this.#pinsOf({ account, fileId }).length === 0;
    const until = this.context.now() + receiptDays * dayMs;
    const removal = { account, file_id: fileId, cid, status: 'scheduled', attempts: 0, until };
    for (const { service } of pins) insert(this.sql, 'removal', { ...removal, service }, 'ON CONFLICT DO NOTHING');
    return isFirst;
  }

  /** Records what became of a CID at a service. */
  note(cid: string, service: string, status: Removal): void {
    const where = `cid = ? AND service = ? AND status = 'scheduled'`;
    update(this.sql, 'removal', { status, due: this.context.now() }, where, cid, service);
  }

  /**
   * Returns the outcome for a file, of which the caller informs the account; undefined if no row
   * has it. Unless the first answer says that all is gone, the alarm repeats it: the answer may be
   * lost, and the account asks no more once another one has said `scheduled`.
   */
  answer(file: RemovedFile, isFirst: boolean): RemovedPin[] | undefined {
    const pins = this.#pinsOf(file);
    if (isFirst && pins.every(({ status }) => status === 'unpinned')) this.#told(file, pins);
    return pins.length === 0 ? undefined : pins;
  }

  /** Returns the time of the next report, in ms. */
  nextTime(): number | undefined {
    return least(this.sql, 'due', 'removal WHERE due IS NOT NULL');
  }

  /**
   * Tells accounts what has been done for their receipts. It does not throw: what is not
   * acknowledged is due again.
   */
  async flush(): Promise<void> {
    const { now } = this.context;
    // What somebody else needs by now is not removed any more, and no reference of this file is
    // left.
    const kept = `SELECT 1 FROM pin WHERE pin.cid = removal.cid AND pin.service = removal.service
      AND pin.state = 'unpinning'`;
    update(this.sql, 'removal', { status: 'unpinned', due: now() }, `status = 'scheduled' AND NOT EXISTS (${kept})`);
    // Nobody can fetch their receipts any more.
    this.sql.exec('DELETE FROM removal WHERE until <= ?', now());
    const query = `SELECT account, file_id AS fileId, max(attempts) AS attempts FROM removal WHERE due <= ?
      GROUP BY account, file_id LIMIT ?`;
    const due = all<RemovedFile & { attempts: number }>(this.sql, query, now(), maxRemovals);
    for (const { attempts, ...file } of due) await this.#report(file, attempts + 1);
  }

  async #report(file: RemovedFile, attempts: number): Promise<void> {
    const { account, fileId } = file;
    // Before the message goes out: the next alarm must not send it once more while this one waits.
    const due = this.context.now() + backoffMs(attempts);
    update(this.sql, 'removal', { due, attempts }, `${ofFile} AND due IS NOT NULL`, account, fileId);
    const pins = this.#pinsOf(file);
    try {
      const answer = await this.context.report(account, fileId, pins);
      if (answer.ok) return this.#told(file, pins);
      log({ event: 'pin.report', attempts, code: answer.code });
    } catch (error) {
      log({ event: 'pin.report', attempts, error: errorText(error) });
    }
  }

  #pinsOf({ account, fileId }: RemovedFile): RemovedPin[] {
    const query = `SELECT service, status FROM removal WHERE ${ofFile} ORDER BY service`;
    return all<RemovedPin>(this.sql, query, account, fileId);
  }

  /** Forgets what an account was told, once nothing of it is scheduled; of nothing else. */
  #told({ account, fileId }: RemovedFile, told: readonly RemovedPin[]): void {
    const isDone = told.every(({ status }) => status !== 'scheduled');
    const where = `${ofFile} AND service = ? AND status = ?`;
    for (const { service, status } of told) {
      const row = [account, fileId, service, status];
      if (isDone) this.sql.exec(`DELETE FROM removal WHERE ${where}`, ...row);
      else update(this.sql, 'removal', { due: null, attempts: 0 }, where, ...row);
    }
  }
}
