/** Receipts of deleted files, as rows: of the files themselves nothing is left. */
import type { DeletionReason, KeyFate } from '../../../../shared/api.ts';
import { wasBackedUp } from '../account-row.ts';
import type { EndedShare } from '../shares/account-shares.ts';
import type { ContentKind } from './beginning.ts';
import type { FileRecord } from './file-rows.ts';
import { receiptMs, type RemovedPin } from '../../pin/backend-pin.ts';

/** The receipt of a deleted file; `deletedAt` in ms, `pins`: what became of each. */
export type ReceiptRecord = {
  fileId: string;
  reason: DeletionReason;
  key: KeyFate;
  pins: RemovedPin[];
  shares: EndedShare[];
  deletedAt: number;
  /** Set if a backup of the account was ever fetched. */
  backedUp: boolean;
};

/** A receipt as it is stored. */
export type ReceiptRow = {
  file_id: string;
  reason: DeletionReason;
  key_fate: KeyFate;
  pins: string;
  shares: string;
  deleted_at: number;
};

/** Place of a plain file's key, by the kind of its content. */
const keyPlaces = {
  container: 'in-container',
  payload: 'elsewhere',
  other: 'none',
} as const satisfies Record<ContentKind, KeyFate>;

/** Receipts of versions in which `Pin` did not report a removal that it made later. */
const forgotten = `awaited = 0 AND pins LIKE '%"scheduled"%'
  AND NOT EXISTS (SELECT 1 FROM outbox WHERE op = 'unrefer' AND outbox.file_id = receipt.file_id)`;

/** The receipts in an object's storage. */
export class Receipts {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Writes the receipt of a file in the transaction that deletes it. @param shares the IDs of those that end with it */
  add(file: FileRecord, reason: DeletionReason, shares: readonly string[], nowMs: number): void {
    this.#sql.exec(
      `INSERT INTO receipt (file_id, reason, key_fate, pins, shares, deleted_at, due)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      file.fileId,
      reason,
      file.mode === 'encrypted' ? 'destroyed' : keyPlaces[file.beginning],
      JSON.stringify([{ service: file.service, status: 'scheduled' } satisfies RemovedPin]),
      JSON.stringify(shares),
      nowMs,
      nowMs + receiptMs,
    );
  }

  /**
   * Records what became of the pins of a deleted file; of anything else nothing is recorded. `Pin` says what becomes of those that are
   * `scheduled`, possibly before its answer to the removal is here.
   */
  setPins(fileId: string, pins: readonly RemovedPin[]): void {
    const [row] = this.#sql
      .exec<Pick<ReceiptRow, 'pins'>>('SELECT pins FROM receipt WHERE file_id = ?', fileId)
      .toArray();
    if (row === undefined) return;
    const done = (JSON.parse(row.pins) as RemovedPin[]).filter(({ status }) => status !== 'scheduled');
    const merged = pins.map((pin) => done.find(({ service }) => service === pin.service) ?? pin);
    const others = done.filter(({ service }) => pins.every((pin) => pin.service !== service));
    this.#sql.exec(
      'UPDATE receipt SET pins = ?, awaited = 1 WHERE file_id = ?',
      JSON.stringify([...merged, ...others]),
      fileId,
    );
  }

  /** Records for all such receipts that what was scheduled is done at services where nothing is being removed. */
  complete(removing: ReadonlySet<string>): void {
    for (const { file_id: fileId, pins } of this.#sql
      .exec<Pick<ReceiptRow, 'file_id' | 'pins'>>(`SELECT file_id, pins FROM receipt WHERE ${forgotten}`)
      .toArray()) {
      const done = (JSON.parse(pins) as RemovedPin[]).map(({ service, status }): RemovedPin => ({
        service,
        status: status === 'scheduled' && !removing.has(service) ? 'unpinned' : status,
      }));
      this.#sql.exec('UPDATE receipt SET pins = ? WHERE file_id = ?', JSON.stringify(done), fileId);
    }
  }

  /** Tells whether what a receipt calls `scheduled` is of a version in which `Pin` did not report the outcome. */
  isForgotten(fileId: string): boolean {
    const rows = this.#sql.exec(`SELECT 1 FROM receipt WHERE file_id = ? AND ${forgotten}`, fileId);
    return rows.toArray().length > 0;
  }

  /** A receipt. The record of a share is destroyed once the message that says so is delivered. */
  find(fileId: string, nowMs: number): ReceiptRecord | undefined {
    const [row] = this.#sql
      .exec<ReceiptRow>('SELECT * FROM receipt WHERE file_id = ? AND due > ?', fileId, nowMs)
      .toArray();
    if (row === undefined) return undefined;
    const { reason, key_fate: key, shares, deleted_at: deletedAt } = row;
    const pins = JSON.parse(row.pins) as RemovedPin[];
    const ended = (JSON.parse(shares) as string[]).map((id): EndedShare => ({ id, record: this.#recordOf(id, nowMs) }));
    return { fileId, reason, key, pins, shares: ended, deletedAt, backedUp: wasBackedUp(this.#sql) };
  }

  /** Forgets the receipts that were kept long enough. */
  sweep(nowMs: number): void {
    this.#sql.exec('DELETE FROM receipt WHERE due <= ?', nowMs);
  }

  /** Forgets all of them. */
  removeAll(): void {
    this.#sql.exec('DELETE FROM receipt');
  }

  nextDue(): number | undefined {
    const [row] = this.#sql.exec<{ due: number | null }>('SELECT min(due) AS due FROM receipt').toArray();
    return row?.due ?? undefined;
  }

  /** A message that is due later, and was never sent, is there for a record that may still arrive. */
  #recordOf(share: string, nowMs: number): EndedShare['record'] {
    const rows = this.#sql.exec(
      `SELECT 1 FROM outbox WHERE op = 'unshare' AND target = ? AND (attempts > 0 OR due <= ?)`,
      share,
      nowMs,
    );
    return rows.toArray().length > 0 ? 'scheduled' : 'destroyed';
  }
}
