/** Shares, receipts and events of an account's backup. */
import type { BackupEvent, BackupReceipt, EventAction } from '../../../../shared/api.ts';
import { msOf, section, timeOf, type BackupShareRow, type Placed } from './backup-section.ts';
import { receiptMs } from '../../pin/backend-pin.ts';
import type { ReceiptRow } from '../files/receipt-rows.ts';
import { shareRetentionMs } from '../../share/share.ts';
import { shareColumns, type ShareRow } from '../shares/share-rows.ts';

/** Shares whose objects have their records. */
export const shareSection = section('shares', 's', shareRows, insertShare);
/** The receipts of deleted files. */
export const receiptSection = section('receipts', 'r', receiptRows, insertReceipt);
/** Events, under their numbers, so that cursors go on. */
export const eventSection = section('events', 'e', eventRows, insertEvent);

type EventRow = {
  seq: number;
  time: number;
  action: EventAction;
  api_key: string | null;
  subject: string;
  source: string | null;
};

function shareRows(sql: SqlStorage, after: string, limit: number): Placed<BackupShareRow>[] {
  return sql
    .exec<ShareRow>(
      `SELECT ${shareColumns} FROM share WHERE state = 'active' AND seq > ? ORDER BY seq LIMIT ?`,
      Number(after),
      limit,
    )
    .toArray()
    .map((row) => ({ position: String(row.seq), item: shareOf(row) }));
}

function shareOf(row: ShareRow): BackupShareRow {
  return {
    number: row.seq,
    id: row.id,
    label: row.label,
    files: JSON.parse(row.files) as string[],
    password: row.password === 1,
    opens: row.opens,
    createdAt: timeOf(row.created_at),
    createdBy: row.api_key,
    expiresAt: timeOf(row.expires_at),
  };
}

function insertShare(sql: SqlStorage, share: BackupShareRow): void {
  const expiresAt = msOf(share.expiresAt);
  sql.exec(
    `INSERT INTO share (seq, id, state, api_key, label, password, opens, created_at, expires_at, due)
     VALUES (?, ?, 'active', ?, ?, ?, ?, ?, ?, ?)`,
    share.number,
    share.id,
    share.createdBy,
    share.label,
    share.password ? 1 : 0,
    share.opens,
    msOf(share.createdAt),
    expiresAt,
    expiresAt + shareRetentionMs,
  );
  share.files.forEach((fileId, place) =>
    sql.exec('INSERT INTO share_file (share_id, file_id, place) VALUES (?, ?, ?)', share.id, fileId, place),
  );
}

function receiptRows(sql: SqlStorage, after: string, limit: number): Placed<BackupReceipt>[] {
  return sql
    .exec<ReceiptRow>('SELECT * FROM receipt WHERE file_id > ? ORDER BY file_id LIMIT ?', after, limit)
    .toArray()
    .map((row) => ({ position: row.file_id, item: receiptOf(row) }));
}

function receiptOf(row: ReceiptRow): BackupReceipt {
  return {
    fileId: row.file_id,
    reason: row.reason,
    key: row.key_fate,
    pins: JSON.parse(row.pins) as BackupReceipt['pins'],
    shares: JSON.parse(row.shares) as string[],
    deletedAt: timeOf(row.deleted_at),
  };
}

function insertReceipt(sql: SqlStorage, { fileId, reason, key, pins, shares, deletedAt }: BackupReceipt): void {
  sql.exec(
    // What is scheduled stays so: another service had to remove it.
    `INSERT INTO receipt (file_id, reason, key_fate, pins, shares, deleted_at, due, awaited) VALUES (?, ?, ?, ?, ?, ?, ?, 1)`,
    fileId,
    reason,
    key,
    JSON.stringify(pins),
    JSON.stringify(shares),
    msOf(deletedAt),
    msOf(deletedAt) + receiptMs,
  );
}

function eventRows(sql: SqlStorage, after: string, limit: number): Placed<BackupEvent>[] {
  return sql
    .exec<EventRow>('SELECT * FROM event WHERE seq > ? ORDER BY seq LIMIT ?', Number(after), limit)
    .toArray()
    .map(({ seq, time, action, api_key: by, subject, source }) => ({
      position: String(seq),
      item: { number: seq, time: timeOf(time), action, by, subject, source },
    }));
}

function insertEvent(sql: SqlStorage, { number, time, action, by, subject, source }: BackupEvent): void {
  sql.exec(
    'INSERT INTO event (seq, time, action, api_key, subject, source) VALUES (?, ?, ?, ?, ?, ?)',
    number,
    msOf(time),
    action,
    by,
    subject,
    source,
  );
}
