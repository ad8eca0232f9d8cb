/** The files of an account, as rows. */
import type { FileInfo } from '../../../../shared/crypto/index.ts';
import { AccountSettings } from '../account-settings.ts';
import { kindOfCode, kindCode, type ContentKind } from './beginning.ts';
import type { Events } from '../event-rows.ts';
import { exceedsAllowance, KeyLimits, type Allowance } from '../keys/key-limits.ts';
import { ProvisionalFiles } from './provisional-files.ts';
import { reservedBy, type Reserved } from './reserved.ts';
import { err, type Failure, type Result } from '../../result.ts';

/** A file that is being uploaded. All of this is known before its last bytes go out. */
export type NewFile = {
  fileId: string;
  mode: 'encrypted' | 'plain';
  /** Plain mode only: in encrypted mode name and type are inside the header. */
  filename: string | null;
  contentType: string | null;
  /** Bytes on IPFS. */
  bytes: number;
  /** Plain mode only: what the bytes begin like. */
  beginning: ContentKind;
  cid: string;
  service: string;
  header: Uint8Array | null;
  /** Time of its deletion, in ms; null: none. */
  expiresAt: number | null;
};

/** A file that is stored; `createdAt` in ms, `createdBy`: the ID of the API key that stored it. */
export type FileRecord = NewFile & {
  createdAt: number;
  createdBy: string;
  /** Number of changes, and the time of the last one, in ms. */
  version: number;
  changedAt: number | null;
  /** Plain mode only: in encrypted mode both are inside the header. */
  description: FileText;
};

/** Owner's description of a file. */
type FileText = Pick<FileInfo, 'metadata' | 'tags'>;

/** A change of a file. What is undefined stays as it is. */
export type FileUpdate = {
  /** Version of the file that the change was made from. */
  version: number;
  /** Encrypted mode only. */
  header?: Uint8Array | undefined;
  /** Plain mode only. */
  plain?: (FileText & { filename: string | null; contentType: string }) | undefined;
  /** Time in ms; null: never. */
  expiresAt?: number | null | undefined;
  /** Search tags. */
  tags?: readonly string[] | undefined;
};

/** A row of a file, with what it has besides. */
export type FileRow = {
  seq: number;
  file_id: string;
  mode: 'encrypted' | 'plain';
  filename: string | null;
  content_type: string | null;
  bytes: number;
  container: number;
  cid: string;
  service: string;
  header: ArrayBuffer | null;
  created_at: number;
  created_by: string;
  expires_at: number | null;
  version: number | null;
  changed_at: number | null;
  description: string | null;
};

/** Files with what they have besides. */
export const rows = 'file LEFT JOIN file_detail USING (file_id)';

/** Seconds after which an upload is usually finished whose bytes have all arrived. */
const finishingSeconds = 2;

/** Ready files that expire some time. */
const byExpiry = `SELECT file_id, expires_at FROM file_detail JOIN file USING (file_id)
  WHERE expires_at IS NOT NULL AND state = 'ready'`;

/**
 * Condition of rows that are ready at a time, its one parameter: an expired file is gone, however late its alarm is.
 */
export const isReady = `state = 'ready' AND (expires_at IS NULL OR expires_at > ?)`;

/** The files in an object's storage, and the counts of them in the rows of the account and of API keys with limits. */
export class Files {
  readonly #sql: SqlStorage;
  readonly #events: Events;
  readonly #limits: KeyLimits;
  readonly #now: () => number;
  readonly #settings: AccountSettings;
  /** Files that stay only if another upload names them. */
  readonly provisional: ProvisionalFiles;

  /** @param now the clock, in ms */
  constructor(sql: SqlStorage, events: Events, now: () => number) {
    this.#sql = sql;
    this.#events = events;
    this.#now = now;
    this.#limits = new KeyLimits(sql);
    this.#settings = new AccountSettings(sql);
    this.provisional = new ProvisionalFiles(sql);
  }

  /**
   * Returns what a key may still store, by its limits and the quota of the account, less what unfinished uploads have
   * announced.
   * @param by its ID
   * @param except the ID of an upload that does not count
   */
  allowance(by: string, except?: string): Allowance {
    return this.#allowance(by, reservedBy(this.#sql, except));
  }

  /** The same for an upload that has announced its length, and so has its allowance. */
  allowanceOfReserved(by: string): Allowance {
    return this.#allowance(by, []);
  }

  #allowance(by: string, reserved: readonly Reserved[]): Allowance {
    return { ...this.#limits.allowance(by, reserved), accountBytes: this.#settings.allowanceBytes(reserved) };
  }

  /**
   * Checks that the key that uploads a pending file, and the account, still have room for it.
   * @param isReserved whether it is that of an upload that has its allowance
   */
  checkAllowance(fileId: string, isReserved = false): Failure | undefined {
    const [row] = this.#sql
      .exec<{ created_by: string; bytes: number }>(
        `SELECT created_by, bytes FROM file WHERE file_id = ? AND state = 'pending'`,
        fileId,
      )
      .toArray();
    if (row === undefined) return undefined;
    const { created_by: by, bytes } = row;
    return exceedsAllowance(isReserved ? this.allowanceOfReserved(by) : this.allowance(by), bytes);
  }

  /** Writes a pending row, which the sweep removes at `dueMs`; null: not before it is removed by its ID. */
  add(file: NewFile, by: string, nowMs: number, dueMs: number | null): void {
    this.#sql.exec(
      `INSERT INTO file (file_id, state, mode, filename, content_type, bytes, container, cid, service, header, created_at, created_by, due)
       VALUES (?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      file.fileId,
      file.mode,
      file.filename,
      file.contentType,
      file.bytes,
      kindCode(file.beginning),
      file.cid,
      file.service,
      file.header,
      nowMs,
      by,
      dueMs,
    );
    this.setExpiry(file.fileId, file.expiresAt);
  }

  /** Sets the time at which a file, ready or pending, is deleted; null: not by itself. */
  setExpiry(fileId: string, expiresAtMs: number | null): void {
    this.#sql.exec(
      `INSERT INTO file_detail (file_id, expires_at) SELECT ?1, ?2 WHERE ?2 IS NOT NULL OR EXISTS
         (SELECT 1 FROM file_detail WHERE file_id = ?1)
       ON CONFLICT (file_id) DO UPDATE SET expires_at = ?2`,
      fileId,
      expiresAtMs,
    );
  }

  /** Changes a ready file, in a transaction of the caller's; what is replaced is overwritten first. */
  update(fileId: string, { header, plain, expiresAt, tags }: FileUpdate): void {
    this.#sql.exec(
      `INSERT INTO file_detail (file_id, version, changed_at) VALUES (?1, 1, ?2)
       ON CONFLICT (file_id) DO UPDATE SET version = version + 1, changed_at = ?2`,
      fileId,
      this.#now(),
    );
    if (expiresAt !== undefined) this.setExpiry(fileId, expiresAt);
    if (header !== undefined) {
      this.#sql.exec('UPDATE file SET header = zeroblob(length(header)) WHERE file_id = ?', fileId);
      this.#sql.exec('UPDATE file SET header = ? WHERE file_id = ?', header, fileId);
    }
    if (plain !== undefined) {
      const { filename, contentType, metadata, tags: words } = plain;
      const description = JSON.stringify({ metadata, tags: words });
      this.#sql.exec('UPDATE file SET filename = ?, content_type = ? WHERE file_id = ?', filename, contentType, fileId);
      this.#sql.exec('UPDATE file_detail SET description = ? WHERE file_id = ?', description, fileId);
    }
    if (tags !== undefined) {
      this.#sql.exec('DELETE FROM file_tag WHERE seq = (SELECT seq FROM file WHERE file_id = ?)', fileId);
      this.#sql.exec(
        'INSERT INTO file_tag (tag, seq) SELECT value, seq FROM file, json_each(?) WHERE file_id = ?',
        JSON.stringify(tags),
        fileId,
      );
    }
  }

  /** Returns the time at which a file, ready or pending, is deleted, in ms. */
  expiryOf(fileId: string): number | null {
    const [row] = this.#sql
      .exec<{ expires_at: number | null }>('SELECT expires_at FROM file_detail WHERE file_id = ?', fileId)
      .toArray();
    return row?.expires_at ?? null;
  }

  /** Forgets the details of a pending file that has no row. */
  forget(fileId: string): void {
    if (this.find(fileId) === undefined) this.provisional.remove(fileId);
    this.#sql.exec(
      'DELETE FROM file_detail WHERE file_id = ?1 AND NOT EXISTS (SELECT 1 FROM file WHERE file_id = ?1)',
      fileId,
    );
  }

  /** Checks that no other file has this name. In encrypted mode names cannot be compared. */
  checkNameUnused(fileId: string, filename: string | null): Failure | undefined {
    const others = this.#sql.exec(
      `SELECT 1 FROM ${rows} WHERE filename = ? AND file_id <> ? AND ${isReady} LIMIT 1`,
      filename,
      fileId,
      this.#now(),
    );
    return others.toArray().length > 0
      ? err('precondition_failed', 'a file with this name is stored already')
      : undefined;
  }

  /** The name of a pending file. */
  pendingName(fileId: string): string | null {
    const [row] = this.#sql
      .exec<{ filename: string | null }>(`SELECT filename FROM file WHERE file_id = ? AND state = 'pending'`, fileId)
      .toArray();
    return row?.filename ?? null;
  }

  /** Makes a pending file ready. @returns whether it is ready now, as it may have been before */
  markReady(fileId: string): boolean {
    const [row] = this.#sql
      .exec<{ bytes: number; created_by: string }>(
        `UPDATE file SET state = 'ready', due = NULL WHERE file_id = ? AND state = 'pending' RETURNING bytes, created_by`,
        fileId,
      )
      .toArray();
    if (row !== undefined) {
      this.#count(1, row);
      this.provisional.begin(fileId, this.#now());
      this.#events.add({ action: 'file.stored', by: row.created_by, subject: fileId });
    }
    return row !== undefined || this.find(fileId) !== undefined;
  }

  /** A ready file whose bytes may be served. @returns `not_found`; `content_denied` where its CID is on the denylist */
  readable(fileId: string): Result<{ file: FileRecord }> {
    const file = this.find(fileId);
    if (file === undefined) return this.missing(fileId);
    const isDenied = this.#sql.exec('SELECT 1 FROM denied_file WHERE file_id = ?', fileId).toArray().length > 0;
    return isDenied ? err('content_denied') : { ok: true, file };
  }

  /** Marks the files with a CID, also those that are pending, as denied, or takes the mark from them. */
  deny(cid: string, denied: boolean): void {
    this.#sql.exec(
      denied
        ? 'INSERT OR IGNORE INTO denied_file (file_id) SELECT file_id FROM file WHERE cid = ?'
        : 'DELETE FROM denied_file WHERE file_id IN (SELECT file_id FROM file WHERE cid = ?)',
      cid,
    );
  }

  isPending(fileId: string): boolean {
    const found = this.#sql.exec(`SELECT 1 FROM file WHERE file_id = ? AND state = 'pending'`, fileId);
    return found.toArray().length > 0;
  }

  /** A ready file. */
  find(fileId: string): FileRecord | undefined {
    const [row] = this.#sql
      .exec<FileRow>(`SELECT * FROM ${rows} WHERE file_id = ? AND ${isReady}`, fileId, this.#now())
      .toArray();
    return row && recordOf(row);
  }

  /** Tells why there is no ready file: none is stored, or it is being finished and all of its bytes have arrived. */
  missing(fileId: string): Failure {
    const finishing = this.#sql.exec(`SELECT 1 FROM upload WHERE id = ? AND state = 'finishing'`, fileId);
    return finishing.toArray().length > 0 ? err('finishing', undefined, finishingSeconds) : err('not_found');
  }

  /** Removes a row in that state, its header overwritten with zeros first. */
  remove(fileId: string, state: 'pending' | 'ready'): FileRecord | undefined {
    const [row] = this.#sql
      .exec<FileRow>(`SELECT * FROM ${rows} WHERE file_id = ? AND state = ?`, fileId, state)
      .toArray();
    if (row === undefined) return undefined;
    // The page of the database is overwritten, not only given back.
    this.#sql.exec('UPDATE file SET header = zeroblob(length(header)) WHERE seq = ? AND header IS NOT NULL', row.seq);
    this.#sql.exec('DELETE FROM file WHERE seq = ?', row.seq);
    this.#sql.exec('DELETE FROM file_detail WHERE file_id = ?', fileId);
    this.#sql.exec('DELETE FROM file_tag WHERE seq = ?', row.seq);
    this.#sql.exec('DELETE FROM denied_file WHERE file_id = ?', fileId);
    this.provisional.remove(fileId);
    if (state === 'ready') this.#count(-1, row);
    return recordOf(row);
  }

  /**
   * Removes every row, headers overwritten first, with a message to `Pin` for each; of a pending one when it is due, as its pin may
   * still be on its way. @returns how many were ready
   */
  removeAll(nowMs: number, requestId: string): number {
    const { ready } = this.#sql
      .exec<{ ready: number }>(`SELECT count(*) AS ready FROM file WHERE state = 'ready'`)
      .one();
    this.#sql.exec('UPDATE file SET header = zeroblob(length(header)) WHERE header IS NOT NULL');
    this.#sql.exec(
      `INSERT INTO outbox (op, target, service, file_id, due, attempts, request_id)
       SELECT 'unrefer', cid, service, file_id, coalesce(due, ?), 0, ? FROM file`,
      nowMs,
      requestId,
    );
    this.#sql.exec('DELETE FROM file');
    this.#sql.exec('DELETE FROM file_detail');
    this.#sql.exec('DELETE FROM file_tag');
    this.#sql.exec('DELETE FROM denied_file');
    this.provisional.removeAll();
    return ready;
  }

  /** Pending files whose time is up. */
  stale(nowMs: number): FileRecord[] {
    return this.#sql
      .exec<FileRow>(`SELECT * FROM ${rows} WHERE state = 'pending' AND due <= ?`, nowMs)
      .toArray()
      .map((row) => recordOf(row));
  }

  /** Returns the time at which the next pending file is due, in ms. */
  nextDue(): number | undefined {
    const [row] = this.#sql
      .exec<{ due: number | null }>(`SELECT min(due) AS due FROM file WHERE state = 'pending'`)
      .toArray();
    return row?.due ?? undefined;
  }

  /** The IDs of ready files that have expired, the earliest first, then those that nothing names. */
  expired(limit: number): string[] {
    const expired = this.#sql
      .exec<{ file_id: string }>(`${byExpiry} AND expires_at <= ? ORDER BY expires_at LIMIT ?`, this.#now(), limit)
      .toArray()
      .map((row) => row.file_id);
    return [...new Set([...expired, ...this.provisional.due(this.#now(), limit)])].slice(0, limit);
  }

  /** Returns the time at which the next ready file is removed by itself, in ms. */
  nextExpiry(): number | undefined {
    const [row] = this.#sql.exec<{ expires_at: number }>(`${byExpiry} ORDER BY expires_at LIMIT 1`).toArray();
    const due = [row?.expires_at, this.provisional.nextDue()].filter((each) => each !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  #count(sign: 1 | -1, { bytes, created_by: by }: { bytes: number; created_by: string }): void {
    this.#limits.count(by, sign, bytes);
    this.#sql.exec('UPDATE account SET files = files + ?, bytes = bytes + ?', sign, sign * bytes);
  }
}

/** The file of a row. */
export function recordOf(row: FileRow): FileRecord {
  return {
    fileId: row.file_id,
    mode: row.mode,
    filename: row.filename,
    contentType: row.content_type,
    bytes: row.bytes,
    beginning: kindOfCode(row.container),
    cid: row.cid,
    service: row.service,
    header: row.header === null ? null : new Uint8Array(row.header),
    expiresAt: row.expires_at,
    createdAt: row.created_at,
    createdBy: row.created_by,
    version: row.version ?? 0,
    changedAt: row.changed_at,
    description: row.description === null ? {} : (JSON.parse(row.description) as FileText),
  };
}
