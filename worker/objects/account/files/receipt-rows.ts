/** Receipts of deleted files, as rows: of the files themselves nothing is left. */
import { receiptDays } from '../../../../shared/api.ts';
import type { ContentKind, DeletionReason, EndedShare, KeyFate, RemovedPin } from '../../../../shared/api.ts';
import { dayMs } from '../../../../shared/time.ts';
import { recordsOf, rowOf, type RecordOf } from '../../columns.ts';
import { StorageRows } from '../../storage-rows.ts';
import { exists, insert, least, update } from '../../sql.ts';
import { wasBackedUp } from '../account-row.ts';
import { receiptColumns } from '../tables.ts';
import type { FileRecord } from './file-rows.ts';

type ReceiptRow = RecordOf<typeof receiptColumns>;

/**
 * The receipt of a deleted file; `deletedAt` in ms, `pins`: what became of each. `backedUp`: a
 * backup of the account was ever fetched.
 */
export type ReceiptRecord = Omit<ReceiptRow, 'shares' | 'due' | 'awaited'> & {
  shares: EndedShare[];
  backedUp: boolean;
};

/** Place of a plain file's key, by the kind of its content. */
const keyPlaces: Record<ContentKind, KeyFate> = { container: 'in-container', payload: 'elsewhere', other: 'none' };

/** Receipts of versions in which `Pin` did not report a removal that it made later. */
const forgotten = `awaited = 0 AND pins LIKE '%"scheduled"%'
  AND NOT EXISTS (SELECT 1 FROM outbox WHERE op = 'unrefer' AND outbox.file_id = receipt.file_id)`;

function completed({ service, status }: RemovedPin): RemovedPin {
  return { service, status: status === 'scheduled' ? 'unpinned' : status };
}

/** The receipts in an object's storage. */
export class ReceiptRows extends StorageRows {
  /**
   * Writes the receipt of a file in the transaction that deletes it.
   * @param shares the IDs of those that end with it
   */
  add(
    { fileId, mode, beginning, service }: Pick<FileRecord, 'fileId' | 'mode' | 'beginning' | 'service'>,
    reason: DeletionReason,
    shares: string[],
    nowMs: number,
  ): void {
    const key: KeyFate = mode === 'encrypted' ? 'destroyed' : keyPlaces[beginning];
    const pins = [{ service, status: 'scheduled' as const }];
    const receipt = { fileId, reason, key, pins, shares, deletedAt: nowMs, due: nowMs + receiptDays * dayMs };
    insert(this.sql, 'receipt', rowOf(receiptColumns, receipt));
  }

  /**
   * Records what became of the pins of a deleted file; of anything else nothing is recorded. `Pin`
   * says what becomes of those that are `scheduled`, possibly before its answer to the removal is
   * here.
   */
  setPins(fileId: string, pins: readonly RemovedPin[]): void {
    const [receipt] = this.#read('file_id = ?', fileId);
    if (receipt === undefined) return;
    const done = receipt.pins.filter(({ status }) => status !== 'scheduled');
    const merged = pins.map((pin) => done.find(({ service }) => service === pin.service) ?? pin);
    const others = done.filter(({ service }) => pins.every((pin) => pin.service !== service));
    this.#update(fileId, { pins: [...merged, ...others], awaited: 1 });
  }

  /**
   * Records for all such receipts that what was scheduled is done at services where nothing is
   * being removed.
   */
  complete(removing: ReadonlySet<string>): void {
    for (const { fileId, pins } of this.#read(forgotten))
      this.#update(fileId, { pins: pins.map((pin) => (removing.has(pin.service) ? pin : completed(pin))) });
  }

  /**
   * Tells whether `Pin`, in an earlier version, did not report what a receipt calls `scheduled`.
   */
  isForgotten(fileId: string): boolean {
    return exists(this.sql, `receipt WHERE file_id = ? AND ${forgotten}`, fileId);
  }

  /** A receipt. The record of a share is destroyed once the message that says so is delivered. */
  find(fileId: string, nowMs: number): ReceiptRecord | undefined {
    const [receipt] = this.#read('file_id = ? AND due > ?', fileId, nowMs);
    if (receipt === undefined) return undefined;
    const { due: _, awaited: __, ...found } = receipt;
    const shares = found.shares.map((id) => ({ id, record: this.#recordOf(id, nowMs) }));
    return { ...found, shares, backedUp: wasBackedUp(this.sql) };
  }

  /** Forgets the receipts that were kept long enough. */
  sweep(nowMs: number): void {
    this.sql.exec('DELETE FROM receipt WHERE due <= ?', nowMs);
  }

  nextDue(): number | undefined {
    return least(this.sql, 'due', 'receipt');
  }

  #read(where: string, ...values: SqlStorageValue[]): ReceiptRow[] {
    return recordsOf(this.sql, receiptColumns, `SELECT * FROM receipt WHERE ${where}`, ...values);
  }

  #update(fileId: string, changes: Partial<ReceiptRow>): void {
    update(this.sql, 'receipt', rowOf(receiptColumns, changes), 'file_id = ?', fileId);
  }

  /** A message that is due later, and never sent, is for a record that may still arrive. */
  #recordOf(share: string, nowMs: number): EndedShare['record'] {
    const waiting = `outbox WHERE op = 'unshare' AND target = ? AND (attempts > 0 OR due <= ?)`;
    return exists(this.sql, waiting, share, nowMs) ? 'scheduled' : 'destroyed';
  }
}
