/** Uploads that may be continued, as rows. */
import type { Code } from '../../../../shared/errors.ts';
import { digestBytes } from '../../../../shared/ipfs/index.ts';
import { recordsOf, rowOf, type RecordOf } from '../../columns.ts';
import { StorageRows } from '../../storage-rows.ts';
import { all, exists, first, insert, least, overwrite, update } from '../../sql.ts';
import { ofInvitation } from '../keys/invitation.ts';
import { uploadColumns } from '../tables.ts';

type UploadRow = RecordOf<typeof uploadColumns>;

/**
 * An upload; times in ms. `uploadId` is the ID of the pending file, `createdBy` that of the API key
 * which continues it; what is sealed opens with that key, and with nothing that is stored. `length`
 * is null until it is known, `announced` the CID that the client announced, `cid` that of the file,
 * once all of its bytes have arrived. `finishing`: every byte has arrived, and the file is not
 * pinned as a whole yet. `requestId`: of the request with the last bytes.
 */
export type UploadRecord = Omit<UploadRow, 'number' | 'lease' | 'due'>;

/**
 * An upload that begins. `sealedKey`: in encrypted mode, the file key; `preamble`: of the payload;
 * `tail`: first bytes of the next leaf.
 */
export type NewUpload = Pick<
  UploadRow,
  'uploadId' | 'mode' | 'length' | 'service' | 'announced' | 'sealedKey' | 'preamble' | 'sealedMetadata' | 'tail'
>;

/**
 * State that changes with each commit: `offset` counts the bytes of the file that were accepted;
 * `sealedRest` has those of encrypted mode that fill no chunk yet.
 */
export type UploadProgress = Pick<UploadRow, 'offset' | 'sealedRest' | 'tail' | 'beginning'>;

/** Properties of the file that are known once all of its bytes have arrived. */
export type Ending = Pick<UploadRow, 'filename' | 'contentType' | 'header'>;

/** Columns that only the running upload needs. */
const secrets = ['sealed_key', 'sealed_metadata', 'sealed_rest'];
/** Columns that hold something of the file. */
const contents = [...secrets, 'tail', 'header', 'filename', 'content_type'];

/** The most rows of a list. All uploads that can be continued fit. */
const listRows = 500;

const isUnfinished = `state IN ('open', 'finishing')`;

/** The uploads in an object's storage, and the digests of what was sent of them. */
export class UploadRows extends StorageRows {
  /** Writes the row of an upload of an API key. */
  add(upload: NewUpload, createdBy: string, expiresAt: number): void {
    const begun = { state: 'open', offset: 0, beginning: 'other', attempts: 0 } as const;
    insert(this.sql, 'upload', rowOf(uploadColumns, { ...upload, ...begun, createdBy, expiresAt, due: expiresAt }));
  }

  find(id: string): UploadRecord | undefined {
    return this.#read('id = ?', id)[0];
  }

  /** Uploads of an API key, or of all, the newest first; unfinished ones before the others. */
  list(createdBy: string | undefined): UploadRecord[] {
    const where = `?1 IS NULL OR api_key = ?1 ORDER BY ${isUnfinished} DESC, seq DESC LIMIT ?2`;
    return this.#read(where, createdBy ?? null, listRows);
  }

  /** Counts unfinished uploads: of the account, without invitations', and of an API key. */
  countUnfinished(createdBy: string): { all: number; own: number } {
    const query = `SELECT coalesce(sum(NOT api_key ${ofInvitation}), 0) AS "all",
      coalesce(sum(api_key = ?), 0) AS own FROM upload WHERE ${isUnfinished}`;
    return first(this.sql, query, createdBy) ?? { all: 0, own: 0 };
  }

  /**
   * Changes a row, such as its lease, with which a request holds it: what an earlier one still
   * commits is refused.
   */
  update(id: string, changes: Partial<UploadRow>): void {
    update(this.sql, 'upload', rowOf(uploadColumns, changes), 'id = ?', id);
  }

  /** Tells whether an upload is there that has neither stored its file nor failed. */
  isUnfinished(id: string): boolean {
    return exists(this.sql, `upload WHERE id = ? AND ${isUnfinished}`, id);
  }

  /** Tells whether an upload is open, and belongs to the request with this lease. */
  isHeld(id: string, lease: string): boolean {
    return exists(this.sql, `upload WHERE id = ? AND lease = ? AND state = 'open'`, id, lease);
  }

  /** Records how far an upload has come. */
  advance(id: string, progress: UploadProgress, expiresAt: number): void {
    this.update(id, { ...progress, expiresAt, due: expiresAt });
  }

  /**
   * Ends the part of an upload that needs its API key.
   * @param due when the alarm continues, unless a request does
   */
  seal(id: string, ending: Ending, due: number): void {
    this.#erase(id, secrets);
    this.update(id, { ...ending, state: 'finishing', lease: null, due });
  }

  /** Replaces the header of an upload that is being finished, overwritten first. */
  rewrap(id: string, header: Uint8Array): void {
    const isThis = 'id = ? AND header IS NOT NULL';
    overwrite(this.sql, 'upload', 'header', isThis, id);
    update(this.sql, 'upload', { header }, isThis, id);
  }

  /** Ends an upload. Nothing of its file is left, and until `expiresAt` its row says why. */
  end(id: string, ended: { state: 'done' | 'failed'; code: Code | null; expiresAt: number }): void {
    this.#erase(id, contents);
    this.update(id, { ...ended, lease: null, due: ended.expiresAt });
  }

  /** Removes a row, overwritten first. */
  remove(id: string): void {
    this.#erase(id, contents);
    this.sql.exec('DELETE FROM upload WHERE id = ?', id);
  }

  /** The uploads of API keys that are not done; of all keys without `apiKeys`. */
  unfinished(apiKeys?: readonly string[]): UploadRecord[] {
    const where = `${isUnfinished} AND (?1 IS NULL OR api_key IN (SELECT value FROM json_each(?1)))`;
    return this.#read(where, apiKeys === undefined ? null : JSON.stringify(apiKeys));
  }

  /** The rows whose time has come. */
  due(nowMs: number): UploadRecord[] {
    return this.#read('due <= ? ORDER BY due LIMIT ?', nowMs, listRows);
  }

  nextDue(): number | undefined {
    return least(this.sql, 'due', 'upload');
  }

  /**
   * Records that leaves are about to be sent.
   * @param firstLeaf the number of the first one
   * @param digests 32 bytes each, in order
   * @returns whether they may be: each is the first one with its number, or the same bytes again
   */
  show(id: string, firstLeaf: number, digests: Uint8Array): boolean {
    const rows = Array.from({ length: digests.length / digestBytes }, (_, index) => ({
      leaf: firstLeaf + index,
      digest: digests.subarray(index * digestBytes, (index + 1) * digestBytes).toHex(),
    }));
    const statement = `INSERT INTO shown (upload_id, leaf, digest)
      SELECT ?1, value ->> 'leaf', value ->> 'digest' FROM json_each(?2) WHERE true
      ON CONFLICT (upload_id, leaf) DO UPDATE SET digest = digest WHERE digest = excluded.digest RETURNING leaf`;
    return all(this.sql, statement, id, JSON.stringify(rows)).length === rows.length;
  }

  /** Forgets the digests of leaves before this number: nothing is sealed for them any more. */
  forgetShown(id: string, before: number): void {
    this.sql.exec('DELETE FROM shown WHERE upload_id = ? AND leaf < ?', id, before);
  }

  #read(where: string, ...values: SqlStorageValue[]): UploadRecord[] {
    return recordsOf(this.sql, uploadColumns, `SELECT * FROM upload WHERE ${where}`, ...values);
  }

  /** Overwrites columns, and forgets what was shown. */
  #erase(id: string, columns: readonly string[]): void {
    this.sql.exec('DELETE FROM shown WHERE upload_id = ?', id);
    const zeros = columns.map((column) => `${column} = zeroblob(length(${column}))`);
    this.sql.exec(`UPDATE upload SET ${zeros.join(', ')} WHERE id = ?`, id);
    this.sql.exec(`UPDATE upload SET ${columns.map((column) => `${column} = NULL`).join(', ')} WHERE id = ?`, id);
  }
}
