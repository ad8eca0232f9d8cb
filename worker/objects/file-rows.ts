/** The files of an account, as rows. */
import { AccountSettings } from './account-settings.ts';
import type { Events } from './event-rows.ts';
import { exceedsRoom, KeyLimits, type Room } from './key-limits.ts';
import { err, type Failure, type Result } from './result.ts';

/**
 * What a plain file begins like: a `container`, which carries its own header; a `payload`, whose header or file key is elsewhere.
 */
export type Beginning = 'other' | 'container' | 'payload';

/** By the numbers in the rows, which never change. */
const beginnings = ['other', 'container', 'payload'] as const satisfies readonly Beginning[];

/** The number of a beginning in a row. */
export function numberOf(beginning: Beginning): number {
  return beginnings.indexOf(beginning);
}

/** The beginning with a number. */
export function beginningOf(number: number): Beginning {
  return beginnings[number] ?? 'other';
}

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
  beginning: Beginning;
  cid: string;
  service: string;
  header: Uint8Array | null;
};

/** A file that is stored; `createdAt` in ms. */
export type FileRecord = NewFile & { createdAt: number };

type FileRow = {
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
};

/** `before` is a cursor, undefined for the first page; `cid` restricts the page to files with that CID. */
export type PageOptions = { before: number | undefined; limit: number; cid: string | undefined };

/** `next` is the cursor of the next page, if there is one. */
export type Page = { files: FileRecord[]; next: number | undefined };

/** The files in an object's storage, and the counts of them in the rows of the account and of API keys with limits. */
export class Files {
  readonly #sql: SqlStorage;
  readonly #events: Events;
  readonly #limits: KeyLimits;
  readonly #settings: AccountSettings;

  constructor(sql: SqlStorage, events: Events) {
    this.#sql = sql;
    this.#events = events;
    this.#limits = new KeyLimits(sql);
    this.#settings = new AccountSettings(sql);
  }

  /** What a key may still store, by its limits and the quota of the account. @param by its ID */
  room(by: string): Room {
    return { ...this.#limits.room(by), accountBytes: this.#settings.roomBytes() };
  }

  /** Why a pending file may not become ready: the key that uploads it, or the account, has no room for it any more. */
  lacksRoom(fileId: string): Failure | undefined {
    const [row] = this.#sql
      .exec<{ created_by: string; bytes: number }>(
        `SELECT created_by, bytes FROM file WHERE file_id = ? AND state = 'pending'`,
        fileId,
      )
      .toArray();
    return row && exceedsRoom(this.room(row.created_by), row.bytes);
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
      numberOf(file.beginning),
      file.cid,
      file.service,
      file.header,
      nowMs,
      by,
      dueMs,
    );
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
      this.#events.add({ action: 'file.stored', by: row.created_by, subject: fileId });
    }
    return row !== undefined || this.find(fileId) !== undefined;
  }

  /** A ready file whose bytes may be served. @returns `not_found`; `content_denied` where its CID is on the denylist */
  readable(fileId: string): Result<{ file: FileRecord }> {
    const file = this.find(fileId);
    if (file === undefined) return err('not_found');
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
    const rows = this.#sql.exec(`SELECT 1 FROM file WHERE file_id = ? AND state = 'pending'`, fileId);
    return rows.toArray().length > 0;
  }

  /** A ready file. */
  find(fileId: string): FileRecord | undefined {
    const [row] = this.#sql.exec<FileRow>(`SELECT * FROM file WHERE file_id = ? AND state = 'ready'`, fileId).toArray();
    return row && recordOf(row);
  }

  /** Ready files before the cursor `before`, newest first: all, or those with a CID. */
  page({ before, limit, cid }: PageOptions): Page {
    const rows = this.#sql
      .exec<FileRow>(
        `SELECT * FROM file WHERE state = 'ready' AND seq < ? ${cid === undefined ? '' : 'AND cid = ?'} ORDER BY seq DESC LIMIT ?`,
        before ?? Number.MAX_SAFE_INTEGER,
        ...(cid === undefined ? [] : [cid]),
        limit + 1,
      )
      .toArray();
    const page = rows.slice(0, limit);
    return { files: page.map((row) => recordOf(row)), next: rows.length > limit ? page.at(-1)?.seq : undefined };
  }

  /** Removes a row in that state, its header overwritten with zeros first. */
  remove(fileId: string, state: 'pending' | 'ready'): FileRecord | undefined {
    const [row] = this.#sql
      .exec<FileRow>('SELECT * FROM file WHERE file_id = ? AND state = ?', fileId, state)
      .toArray();
    if (row === undefined) return undefined;
    // The page of the database is overwritten, not only given back.
    this.#sql.exec('UPDATE file SET header = zeroblob(length(header)) WHERE seq = ? AND header IS NOT NULL', row.seq);
    this.#sql.exec('DELETE FROM file WHERE seq = ?', row.seq);
    this.#sql.exec('DELETE FROM denied_file WHERE file_id = ?', fileId);
    if (state === 'ready') this.#count(-1, row);
    return recordOf(row);
  }

  /**
   * Removes every row, headers overwritten first, with a message to `Pin` for each; of a pending one when it is due, as its pin may
   * still be on its way. @returns how many were ready
   */
  removeAll(nowMs: number): number {
    const { ready } = this.#sql
      .exec<{ ready: number }>(`SELECT count(*) AS ready FROM file WHERE state = 'ready'`)
      .one();
    this.#sql.exec('UPDATE file SET header = zeroblob(length(header)) WHERE header IS NOT NULL');
    this.#sql.exec(
      `INSERT INTO outbox (op, target, service, file_id, due, attempts) SELECT 'unrefer', cid, service, file_id, coalesce(due, ?), 0 FROM file`,
      nowMs,
    );
    this.#sql.exec('DELETE FROM file');
    this.#sql.exec('DELETE FROM denied_file');
    return ready;
  }

  /** Pending files whose time is up. */
  stale(nowMs: number): FileRecord[] {
    return this.#sql
      .exec<FileRow>(`SELECT * FROM file WHERE state = 'pending' AND due <= ?`, nowMs)
      .toArray()
      .map((row) => recordOf(row));
  }

  /** When the next pending file is due, in ms. */
  nextDue(): number | undefined {
    const [row] = this.#sql
      .exec<{ due: number | null }>(`SELECT min(due) AS due FROM file WHERE state = 'pending'`)
      .toArray();
    return row?.due ?? undefined;
  }

  #count(sign: 1 | -1, { bytes, created_by: by }: { bytes: number; created_by: string }): void {
    this.#limits.count(by, sign, bytes);
    this.#sql.exec('UPDATE account SET files = files + ?, bytes = bytes + ?', sign, sign * bytes);
  }
}

function recordOf(row: FileRow): FileRecord {
  return {
    fileId: row.file_id,
    mode: row.mode,
    filename: row.filename,
    contentType: row.content_type,
    bytes: row.bytes,
    beginning: beginningOf(row.container),
    cid: row.cid,
    service: row.service,
    header: row.header === null ? null : new Uint8Array(row.header),
    createdAt: row.created_at,
  };
}
