/** Uploads that may be continued, as rows. */
import type { Code } from '../../../../shared/errors.ts';
import { digestBytes } from '../../../../shared/ipfs/index.ts';
import { kindOfCode, kindCode, type ContentKind } from '../files/beginning.ts';
import type { NewFile } from '../files/file-rows.ts';

/** `finishing`: every byte has arrived, and the file is not pinned as a whole yet. */
type UploadState = 'open' | 'finishing' | 'done' | 'failed';

/** An upload that begins. What is sealed opens with the API key that it belongs to, and with nothing that is stored. */
export type NewUpload = {
  /** The ID of the pending file. */
  uploadId: string;
  mode: NewFile['mode'];
  /** Bytes of the file, where they are known. */
  length: number | null;
  service: string;
  /** The CID that the client announced. */
  announced: string | null;
  /** Encrypted mode: the file key. */
  sealedKey: Uint8Array | null;
  /** Preamble of the payload; empty in plain mode. */
  preamble: Uint8Array;
  sealedMetadata: Uint8Array;
  /** First bytes of the next leaf. */
  tail: Uint8Array;
};

/** State that changes with each commit. */
export type Progress = {
  /** Bytes of the file that were accepted. */
  offset: number;
  /** Encrypted mode: bytes that were accepted and fill no chunk yet. */
  sealedRest: Uint8Array | null;
  tail: Uint8Array;
  /** Plain mode: what the file begins like. */
  beginning: ContentKind;
};

/** Properties of the file that are known once all of its bytes have arrived. */
export type Ending = Pick<NewFile, 'filename' | 'contentType' | 'header'>;

/** An upload; times in ms. */
export type UploadRecord = NewUpload &
  Progress &
  Ending & {
    apiKey: string;
    state: UploadState;
    code: Code | null;
    /** CID of the file, once all of its bytes have arrived. */
    cid: string | null;
    expiresAt: number;
    attempts: number;
    /** ID of the request with the last bytes. */
    requestId: string | undefined;
  };

type UploadRow = {
  id: string;
  api_key: string;
  mode: NewFile['mode'];
  state: UploadState;
  code: Code | null;
  length: number | null;
  offset: number;
  lease: string | null;
  service: string;
  announced: string | null;
  cid: string | null;
  sealed_key: ArrayBuffer | null;
  preamble: ArrayBuffer;
  sealed_metadata: ArrayBuffer | null;
  sealed_rest: ArrayBuffer | null;
  tail: ArrayBuffer | null;
  container: number;
  filename: string | null;
  content_type: string | null;
  header: ArrayBuffer | null;
  expires_at: number;
  attempts: number;
  request_id: string | null;
};

/** Columns that only the running upload needs. */
const secrets = ['sealed_key', 'sealed_metadata', 'sealed_rest'];
/** Columns that hold something of the file. */
const contents = [...secrets, 'tail', 'header', 'filename', 'content_type'];

/** The most rows of a list. All uploads that can be continued fit. */
const listRows = 200;

/** The uploads in an object's storage, and the digests of what was sent of them. */
export class UploadRows {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Writes the row of an upload of an API key. */
  add(upload: NewUpload, apiKey: string, expiresAtMs: number): void {
    this.#sql.exec(
      `INSERT INTO upload (id, api_key, mode, state, length, offset, service, announced, sealed_key, preamble, sealed_metadata, tail,
         container, expires_at, due, attempts)
       VALUES (?1, ?2, ?3, 'open', ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?11, ?11, 0)`,
      upload.uploadId,
      apiKey,
      upload.mode,
      upload.length,
      upload.service,
      upload.announced,
      upload.sealedKey,
      upload.preamble,
      upload.sealedMetadata,
      upload.tail,
      expiresAtMs,
    );
  }

  find(id: string): UploadRecord | undefined {
    const [row] = this.#sql.exec<UploadRow>('SELECT * FROM upload WHERE id = ?', id).toArray();
    return row && recordOf(row);
  }

  /** The uploads of an API key, or of all without `apiKey`, newest first: those that are not finished, then the others. */
  list(apiKey: string | undefined): UploadRecord[] {
    return this.#sql
      .exec<UploadRow>(
        `SELECT * FROM upload WHERE ?1 IS NULL OR api_key = ?1 ORDER BY state IN ('open', 'finishing') DESC, seq DESC LIMIT ?2`,
        apiKey ?? null,
        listRows,
      )
      .toArray()
      .map((row) => recordOf(row));
  }

  /** Counts uploads that are not finished: of the account, and of an API key. */
  countUnfinished(apiKey: string): { all: number; own: number } {
    return this.#sql
      .exec<{ all: number; own: number }>(
        `SELECT count(*) AS "all", coalesce(sum(api_key = ?), 0) AS own FROM upload WHERE state IN ('open', 'finishing')`,
        apiKey,
      )
      .one();
  }

  /** Hands an upload to a request, or to none. What an earlier one still commits is refused. */
  setLease(id: string, lease: string | null): void {
    this.#sql.exec('UPDATE upload SET lease = ? WHERE id = ?', lease, id);
  }

  /** Tells whether an upload is open, and belongs to the request with this lease. */
  isHeld(id: string, lease: string): boolean {
    const rows = this.#sql.exec(`SELECT 1 FROM upload WHERE id = ? AND lease = ? AND state = 'open'`, id, lease);
    return rows.toArray().length > 0;
  }

  setLength(id: string, length: number): void {
    this.#sql.exec('UPDATE upload SET length = ? WHERE id = ?', length, id);
  }

  /** Records how far an upload has come. */
  advance(id: string, { offset, sealedRest, tail, beginning }: Progress, expiresAtMs: number): void {
    this.#sql.exec(
      `UPDATE upload SET offset = ?1, sealed_rest = ?2, tail = ?3, container = ?4, expires_at = ?5, due = ?5 WHERE id = ?6`,
      offset,
      sealedRest,
      tail,
      kindCode(beginning),
      expiresAtMs,
      id,
    );
  }

  /** Ends the part of an upload that needs its API key. @param dueMs when the alarm continues, unless a request does */
  seal(id: string, { filename, contentType, header }: Ending, dueMs: number): void {
    this.#erase(id, secrets);
    this.#sql.exec('DELETE FROM shown WHERE upload_id = ?', id);
    this.#sql.exec(
      `UPDATE upload SET state = 'finishing', lease = NULL, filename = ?, content_type = ?, header = ?, due = ? WHERE id = ?`,
      filename,
      contentType,
      header,
      dueMs,
      id,
    );
  }

  /** Records the CID of the file, and the request with its last bytes. */
  finish(id: string, cid: string, requestId: string): void {
    this.#sql.exec('UPDATE upload SET cid = ?, request_id = ? WHERE id = ?', cid, requestId, id);
  }

  /** Says when the alarm looks at an upload. */
  setDue(id: string, dueMs: number): void {
    this.#sql.exec('UPDATE upload SET due = ? WHERE id = ?', dueMs, id);
  }

  /** Counts an attempt to finish. @param dueMs when the next one is due, if this one does not succeed */
  attempt(id: string, attempts: number, dueMs: number, requestId: string): void {
    this.#sql.exec(
      'UPDATE upload SET attempts = ?, due = ?, request_id = ? WHERE id = ?',
      attempts,
      dueMs,
      requestId,
      id,
    );
  }

  /** Ends an upload, with nothing left of its file. The row tells what became of it until `expiresAtMs`. */
  end(id: string, o: { state: 'done' | 'failed'; code: Code | null; expiresAtMs: number }): void {
    this.#erase(id, contents);
    this.#sql.exec('DELETE FROM shown WHERE upload_id = ?', id);
    this.#sql.exec(
      'UPDATE upload SET state = ?1, code = ?2, lease = NULL, expires_at = ?3, due = ?3 WHERE id = ?4',
      o.state,
      o.code,
      o.expiresAtMs,
      id,
    );
  }

  /** Removes a row, overwritten first. */
  remove(id: string): void {
    this.#erase(id, contents);
    this.#sql.exec('DELETE FROM shown WHERE upload_id = ?', id);
    this.#sql.exec('DELETE FROM upload WHERE id = ?', id);
  }

  /** The uploads of API keys that are not done; of all keys without `apiKeys`. */
  unfinished(apiKeys?: readonly string[]): UploadRecord[] {
    return this.#sql
      .exec<UploadRow>(
        `SELECT * FROM upload WHERE state IN ('open', 'finishing') AND (?1 IS NULL OR api_key IN (SELECT value FROM json_each(?1)))`,
        apiKeys === undefined ? null : JSON.stringify(apiKeys),
      )
      .toArray()
      .map((row) => recordOf(row));
  }

  /** Removes every row; those of unfinished uploads were ended before. */
  removeAll(): void {
    this.#sql.exec('DELETE FROM shown');
    this.#sql.exec('DELETE FROM upload');
  }

  /** The rows whose time has come. */
  due(nowMs: number): UploadRecord[] {
    return this.#sql
      .exec<UploadRow>('SELECT * FROM upload WHERE due <= ? ORDER BY due LIMIT ?', nowMs, listRows)
      .toArray()
      .map((row) => recordOf(row));
  }

  nextDue(): number | undefined {
    const [row] = this.#sql.exec<{ due: number | null }>('SELECT min(due) AS due FROM upload').toArray();
    return row?.due ?? undefined;
  }

  /**
   * Records that leaves are about to be sent. @param first the number of the first one @param digests 32 bytes each, in order
   * @returns whether they may be: each is the first one with its number, or the same bytes again
   */
  show(id: string, first: number, digests: Uint8Array): boolean {
    const rows = Array.from({ length: digests.length / digestBytes }, (_, index) => ({
      leaf: first + index,
      digest: digests.subarray(index * digestBytes, (index + 1) * digestBytes).toHex(),
    }));
    const written = this.#sql.exec(
      `INSERT INTO shown (upload_id, leaf, digest)
       SELECT ?1, value ->> 'leaf', value ->> 'digest' FROM json_each(?2) WHERE true
       ON CONFLICT (upload_id, leaf) DO UPDATE SET digest = digest WHERE digest = excluded.digest RETURNING leaf`,
      id,
      JSON.stringify(rows),
    );
    return written.toArray().length === rows.length;
  }

  /** Forgets the digests of leaves before this number: nothing is sealed for them any more. */
  forgetShown(id: string, before: number): void {
    this.#sql.exec('DELETE FROM shown WHERE upload_id = ? AND leaf < ?', id, before);
  }

  /** Overwrites columns. The page of the database is overwritten, not only given back. */
  #erase(id: string, columns: readonly string[]): void {
    const zeros = columns.map((column) => `${column} = zeroblob(length(${column}))`);
    this.#sql.exec(`UPDATE upload SET ${zeros.join(', ')} WHERE id = ?`, id);
    this.#sql.exec(`UPDATE upload SET ${columns.map((column) => `${column} = NULL`).join(', ')} WHERE id = ?`, id);
  }
}

function bytesOf(value: ArrayBuffer | null): Uint8Array | null {
  return value === null ? null : new Uint8Array(value);
}

function recordOf(row: UploadRow): UploadRecord {
  return {
    uploadId: row.id,
    apiKey: row.api_key,
    mode: row.mode,
    state: row.state,
    code: row.code,
    length: row.length,
    offset: row.offset,
    service: row.service,
    announced: row.announced,
    cid: row.cid,
    sealedKey: bytesOf(row.sealed_key),
    preamble: new Uint8Array(row.preamble),
    sealedMetadata: bytesOf(row.sealed_metadata) ?? new Uint8Array(0),
    sealedRest: bytesOf(row.sealed_rest),
    tail: bytesOf(row.tail) ?? new Uint8Array(0),
    beginning: kindOfCode(row.container),
    filename: row.filename,
    contentType: row.content_type,
    header: bytesOf(row.header),
    expiresAt: row.expires_at,
    attempts: row.attempts,
    requestId: row.request_id ?? undefined,
  };
}
