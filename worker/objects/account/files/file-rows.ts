/** The files of an account, as rows. */
import type { FileInfo } from '../../../../shared/crypto/index.ts';
import { soonest } from '../../alarm.ts';
import { recordOf, recordsOf, rowOf, type RecordOf } from '../../columns.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { StorageRows } from '../../storage-rows.ts';
import { count, exists, first, insert, least, list, overwrite, update } from '../../sql.ts';
import type { AccountRow } from '../account-row.ts';
import type { AccountSettings } from '../account-settings.ts';
import type { EventRows } from '../event-rows.ts';
import { exceedsAllowance, KeyLimits, type Allowance, type Taken } from '../keys/key-limits.ts';
import { leftBeside, promisedIn, reservedBy, totalBytes } from '../keys/reserved.ts';
import type { Rewrapped } from '../keys/rotation-rows.ts';
import { changeColumns, detailColumns, fileColumns, sealedColumns } from '../tables.ts';
import { ProvisionalFiles } from './provisional-files.ts';

/** Columns of a file and of what it has besides. */
export const wholeFileColumns = { ...fileColumns, ...detailColumns, ...changeColumns, ...sealedColumns };

type FileRow = RecordOf<typeof wholeFileColumns>;

/** Details of a file that come with its upload. */
export type FileDetails = RecordOf<typeof detailColumns>;

/**
 * A file that is stored. `filename`, `contentType`, `beginning` and `description` are those of a
 * plain one: in encrypted mode they are inside the header. `bytes` are those on IPFS, times in ms,
 * `createdBy` the ID of the API key that stored it. `version` counts its changes, the last of which
 * was at `changedAt`.
 */
export type FileRecord = Omit<FileRow, 'number' | 'state' | 'due'>;

/** A file that is being uploaded. All of this is known before its last bytes go out. */
export type NewFile = Omit<
  FileRecord,
  'createdAt' | 'createdBy' | keyof typeof changeColumns | keyof typeof sealedColumns
>;

/** A change of a file. What is undefined stays as it is. */
export type FileUpdate = {
  /** Version of the file that the change was made from, and how often it was rewrapped by then. */
  version: number;
  rewrapped: number;
  /** Encrypted mode only. */
  header?: Uint8Array | undefined;
  /** Plain mode only. */
  plain?: (Pick<FileInfo, 'metadata' | 'tags'> & { filename: string | null; contentType: string }) | undefined;
  /** Time in ms; null: never. */
  expiresAt?: number | null | undefined;
  /** Plain mode only; null: none. */
  details?: Uint8Array | null | undefined;
  /** Search tags, under the private key of the account whose public key is `spki`. */
  tags?: readonly string[] | undefined;
  spki?: Uint8Array | undefined;
};

/** Files with what they have besides. */
export const rows = 'file LEFT JOIN file_detail USING (file_id) LEFT JOIN file_sealed USING (seq)';

/** Seconds after which an upload is usually finished whose bytes have all arrived. */
const finishingSeconds = 2;

/** Ready files that expire some time. */
const byExpiry = `file_detail JOIN file USING (file_id) WHERE expires_at IS NOT NULL AND state = 'ready'`;

/**
 * Condition of rows that are ready at a time, its one parameter: an expired file is gone, however
 * late its alarm is.
 */
export const isReady = `state = 'ready' AND (expires_at IS NULL OR expires_at > ?)`;

const pending = `file WHERE file_id = ? AND state = 'pending'`;

/** The account's other rows that files count in, and the clock, in ms. */
type Others = { row: AccountRow; settings: AccountSettings; events: EventRows; now(): number };

/** The files in storage, with their counts in the rows of the account and of limited keys. */
export class FileRows extends StorageRows<Others> {
  readonly #limits = new KeyLimits(this.sql);
  /** Files that stay only if another upload names them. */
  readonly provisional = new ProvisionalFiles(this.sql);

  /**
   * Returns what a key may still store, by its limits and the quota of the account, less what
   * unfinished uploads have announced and other keys were promised.
   * @param by its ID
   * @param except the ID of an upload that does not count
   */
  allowance(by: string, except?: string): Allowance {
    return this.#allowance(by, this.#taken(except));
  }

  /** The same for an upload that has announced its length, and so has its allowance. */
  allowanceOfReserved(by: string): Allowance {
    return this.#allowance(by, { reserved: [], promised: [] });
  }

  /** Returns what a key may still promise to an invitation. */
  allowanceToPromise(by: string): Allowance {
    return this.#allowance(by, { ...this.#taken(), isForInvitation: true });
  }

  #taken(except?: string): Taken {
    const reserved = reservedBy(this.sql, except);
    return { reserved, promised: promisedIn(this.sql, reserved, this.context.now()) };
  }

  #allowance(by: string, taken: Taken): Allowance {
    const { reserved, promised, isForInvitation } = taken;
    const left = this.context.settings.allowanceBytes(totalBytes(reserved));
    const quota = leftBeside(promised, 'bytes', left ?? Infinity, isForInvitation === true ? undefined : by);
    return this.#limits.allowance(by, taken, quota);
  }

  /**
   * Checks that the key that uploads a pending file, and the account, still have room for it.
   * @param isReserved whether it is that of an upload that has its allowance
   */
  checkAllowance(fileId: string, isReserved = false): Failure | undefined {
    const [file] = recordsOf(this.sql, fileColumns, `SELECT * FROM ${pending}`, fileId);
    if (file === undefined) return undefined;
    const { createdBy, bytes } = file;
    return exceedsAllowance(isReserved ? this.allowanceOfReserved(createdBy) : this.allowance(createdBy), bytes);
  }

  /** Writes a pending row, which the sweep removes at `dueMs`; null: only its ID removes it. */
  add(file: NewFile, createdBy: string, nowMs: number, dueMs: number | null): void {
    const row = { ...file, state: 'pending' as const, createdBy, createdAt: nowMs, due: dueMs };
    insert(this.sql, 'file', rowOf(fileColumns, row));
    this.addDetails(file.fileId, file);
  }

  /** Writes the details of a pending file, unless they are there, or are all null. */
  addDetails(fileId: string, details: FileDetails): void {
    const row = rowOf(detailColumns, details);
    if (Object.values(row).every((value) => value === null)) return;
    insert(this.sql, 'file_detail', { file_id: fileId, ...row }, 'ON CONFLICT DO NOTHING');
  }

  /** Changes a ready file, in the caller's transaction; what is replaced is overwritten first. */
  update(fileId: string, { header, plain, expiresAt, details, tags }: Omit<FileUpdate, 'version' | 'rewrapped'>): void {
    const isThis = 'file_id = ?';
    const counted = `INSERT INTO file_detail (file_id, version, changed_at) VALUES (?1, 1, ?2)
      ON CONFLICT (file_id) DO UPDATE SET version = version + 1, changed_at = ?2`;
    this.sql.exec(counted, fileId, this.context.now());
    if (expiresAt !== undefined) update(this.sql, 'file_detail', { expires_at: expiresAt }, isThis, fileId);
    if (header !== undefined) this.#replaceHeader(fileId, header);
    if (details !== undefined) this.#replaceDetails(fileId, details);
    if (plain !== undefined) {
      const { filename, contentType, metadata, tags: texts } = plain;
      const description = { ...(metadata && { metadata }), ...(texts && { tags: texts }) };
      update(this.sql, 'file', rowOf(fileColumns, { filename, contentType }), isThis, fileId);
      update(this.sql, 'file_detail', rowOf(changeColumns, { description }), isThis, fileId);
    }
    if (tags !== undefined) this.#replaceTags(fileId, tags);
  }

  /**
   * Replaces what of a file, ready or pending, is sealed to the account's key pair, in a
   * transaction of the caller's.
   */
  rewrap({ fileId, header, tags }: Pick<Rewrapped, 'fileId' | 'header' | 'tags'>): void {
    if (tags !== undefined) this.#replaceTags(fileId, tags);
    if (header === null || !exists(this.sql, 'file WHERE file_id = ?', fileId)) return;
    this.#replaceHeader(fileId, header);
    const counted = `INSERT INTO file_detail (file_id, rewrapped) VALUES (?, 1)
      ON CONFLICT (file_id) DO UPDATE SET rewrapped = rewrapped + 1`;
    this.sql.exec(counted, fileId);
  }

  /** Replaces a header, overwritten first. */
  #replaceHeader(fileId: string, header: Uint8Array): void {
    overwrite(this.sql, 'file', 'header', 'file_id = ?', fileId);
    update(this.sql, 'file', { header }, 'file_id = ?', fileId);
  }

  #replaceDetails(fileId: string, details: Uint8Array | null): void {
    const [seq] = list<number>(this.sql, 'SELECT seq FROM file WHERE file_id = ?', fileId);
    if (seq === undefined) return;
    this.#removeDetails('seq = ?', seq);
    if (details !== null) insert(this.sql, 'file_sealed', { seq, details });
  }

  /** Removes details, overwritten first, as headers are. */
  #removeDetails(where: string, ...values: SqlStorageValue[]): void {
    overwrite(this.sql, 'file_sealed', 'details', where, ...values);
    this.sql.exec(`DELETE FROM file_sealed WHERE ${where}`, ...values);
  }

  #replaceTags(fileId: string, tags: readonly string[]): void {
    this.sql.exec('DELETE FROM file_tag WHERE seq = (SELECT seq FROM file WHERE file_id = ?)', fileId);
    const added = 'INSERT INTO file_tag (tag, seq) SELECT value, seq FROM file, json_each(?) WHERE file_id = ?';
    this.sql.exec(added, JSON.stringify(tags), fileId);
  }

  /** The details of a file, ready or pending. */
  detailsOf(fileId: string): FileDetails {
    return recordOf(detailColumns, first(this.sql, 'SELECT * FROM file_detail WHERE file_id = ?', fileId) ?? {});
  }

  /** Forgets the details of a pending file that has no row. */
  forget(fileId: string): void {
    if (this.find(fileId) === undefined) this.provisional.remove(fileId);
    const isThis = 'file_id = ?1 AND NOT EXISTS (SELECT 1 FROM file WHERE file_id = ?1)';
    for (const table of ['file_detail', 'rotation_file']) this.sql.exec(`DELETE FROM ${table} WHERE ${isThis}`, fileId);
  }

  /** Checks that no other file has this name. In encrypted mode names cannot be compared. */
  checkNameUnused(fileId: string, filename: string | null): Failure | undefined {
    const others = `${rows} WHERE filename = ? AND file_id <> ? AND ${isReady}`;
    if (!exists(this.sql, others, filename, fileId, this.context.now())) return undefined;
    return err('precondition_failed', 'a file with this name is stored already');
  }

  /** The name of a pending file. */
  pendingName(fileId: string): string | null {
    return list<string | null>(this.sql, `SELECT filename FROM ${pending}`, fileId)[0] ?? null;
  }

  /** Makes a pending file ready. @returns whether it is ready now, as it may have been before */
  markReady(fileId: string): boolean {
    const statement = `UPDATE file SET state = 'ready', due = NULL WHERE file_id = ? AND state = 'pending' RETURNING *`;
    const [file] = recordsOf(this.sql, fileColumns, statement, fileId);
    if (file === undefined) return this.find(fileId) !== undefined;
    this.#count(1, file);
    this.provisional.begin(fileId, this.context.now());
    this.context.events.add({ action: 'file.stored', by: file.createdBy, subject: fileId });
    return true;
  }

  /**
   * A ready file whose bytes may be served.
   * @returns `not_found`; `content_denied` where its CID is on the denylist
   */
  readable(fileId: string): Result<{ file: FileRecord }> {
    const file = this.find(fileId);
    if (file === undefined) return this.missing(fileId);
    return exists(this.sql, 'denied_file WHERE file_id = ?', fileId) ? err('content_denied') : { ok: true, file };
  }

  /** Marks files with a CID, also pending ones, as denied, or takes the mark from them. */
  deny(cid: string, denied: boolean): void {
    this.sql.exec(
      denied
        ? 'INSERT OR IGNORE INTO denied_file (file_id) SELECT file_id FROM file WHERE cid = ?'
        : 'DELETE FROM denied_file WHERE file_id IN (SELECT file_id FROM file WHERE cid = ?)',
      cid,
    );
  }

  isPending(fileId: string): boolean {
    return exists(this.sql, pending, fileId);
  }

  /** A ready file. */
  find(fileId: string): FileRecord | undefined {
    return this.#read(`file_id = ? AND ${isReady}`, fileId, this.context.now())[0];
  }

  /**
   * Tells why there is no ready file: none is stored, or it is being finished and all of its bytes
   * have arrived.
   */
  missing(fileId: string): Failure {
    const isFinishing = exists(this.sql, `upload WHERE id = ? AND state = 'finishing'`, fileId);
    return isFinishing ? err('finishing', undefined, finishingSeconds) : err('not_found');
  }

  /** Lets the files that these keys stored, all of which expire some time, expire now. */
  expireStoredBy(apiKeys: readonly string[]): void {
    const ended = `UPDATE file_detail SET expires_at = min(coalesce(expires_at, ?1), ?1) WHERE file_id IN
      (SELECT file_id FROM file WHERE created_by IN (SELECT value FROM json_each(?2)))`;
    this.sql.exec(ended, this.context.now(), JSON.stringify(apiKeys));
  }

  /** Removes a row in that state, its header overwritten first. */
  remove(fileId: string, state: 'pending' | 'ready'): FileRecord | undefined {
    const [file] = this.#read('file_id = ? AND state = ?', fileId, state);
    if (file === undefined) return undefined;
    overwrite(this.sql, 'file', 'header', 'seq = ?', file.number);
    this.sql.exec('DELETE FROM file WHERE seq = ?', file.number);
    this.#removeDetails('seq = ?', file.number);
    for (const table of ['file_detail', 'denied_file', 'rotation_file'])
      this.sql.exec(`DELETE FROM ${table} WHERE file_id = ?`, fileId);
    this.sql.exec('DELETE FROM file_tag WHERE seq = ?', file.number);
    this.provisional.remove(fileId);
    if (state === 'ready') this.#count(-1, file);
    return file;
  }

  /**
   * Removes every row, headers overwritten first, with a message to `Pin` for each; of a pending
   * one when it is due, as its pin may still be on its way.
   * @param dueMs when the others are
   * @returns how many were ready
   */
  removeAll(dueMs: number, requestId: string): number {
    const ready = count(this.sql, `file WHERE state = 'ready'`);
    overwrite(this.sql, 'file', 'header', 'true');
    this.#removeDetails('true');
    const messages = `INSERT INTO outbox (op, target, service, file_id, due, attempts, request_id)
      SELECT 'unrefer', cid, service, file_id, coalesce(due, ?), 0, ? FROM file`;
    this.sql.exec(messages, dueMs, requestId);
    for (const table of ['file', 'file_detail', 'file_tag', 'denied_file', 'provisional_file', 'named_file'])
      this.sql.exec(`DELETE FROM ${table}`);
    return ready;
  }

  /** Pending files whose time is up. */
  stale(nowMs: number): FileRecord[] {
    return this.#read(`state = 'pending' AND due <= ?`, nowMs);
  }

  /** Returns the time at which the next pending file is due, in ms. */
  nextDue(): number | undefined {
    return least(this.sql, 'due', `file WHERE state = 'pending'`);
  }

  /** The IDs of files that have expired, the earliest first, then of those that nothing names. */
  expired(limit: number): string[] {
    const query = `SELECT file_id FROM ${byExpiry} AND expires_at <= ? ORDER BY expires_at LIMIT ?`;
    const expired = list<string>(this.sql, query, this.context.now(), limit);
    return [...new Set([...expired, ...this.provisional.due(this.context.now(), limit)])].slice(0, limit);
  }

  /** Returns the time at which the next ready file is removed by itself, in ms. */
  nextExpiry(): number | undefined {
    const [expiresAt] = list<number>(this.sql, `SELECT expires_at FROM ${byExpiry} ORDER BY expires_at LIMIT 1`);
    return soonest(expiresAt, this.provisional.nextDue());
  }

  #count(sign: 1 | -1, { bytes, createdBy }: Pick<FileRecord, 'bytes' | 'createdBy'>): void {
    this.#limits.count(createdBy, sign, bytes);
    this.context.row.count(sign, sign * bytes);
  }

  #read(where: string, ...values: SqlStorageValue[]): FileRow[] {
    return recordsOf(this.sql, wholeFileColumns, `SELECT * FROM ${rows} WHERE ${where}`, ...values);
  }
}
