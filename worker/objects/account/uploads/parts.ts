/** The parts of uploads, as rows: what a file that is not stored yet keeps pinned. */
import { digestBytes } from '../../../../shared/ipfs/index.ts';
import { referenceRemoval, type Outbox } from '../outbox.ts';

/** A part that a service holds. Its `id` stands for it in the references of `Pin`, where the ID of a file would be. */
export type NewPart = {
  id: string;
  /** ID of the file that the upload makes. */
  uploadId: string;
  cid: string;
  service: string;
  /** The number of its first leaf in the file. */
  firstLeaf: number;
  /** SHA-256 of each of its leaves, 32 bytes each, in order. */
  digests: Uint8Array;
  /** Bytes of its leaves. */
  bytes: number;
  /** The request that sends it, for the log; no row has it. */
  requestId?: string;
};

/** The time at which a part is due that does not come due by itself. */
const never = Number.MAX_SAFE_INTEGER;

type PartRow = {
  id: string;
  upload_id: string;
  cid: string;
  service: string;
  first_leaf: number;
  digests: ArrayBuffer;
  bytes: number;
  state: 'intended' | 'pinned';
  due: number;
};

/**
 * The parts in an object's storage. A part is `intended` until its pin is acknowledged. To release one is to remove its row and to
 * leave a message that removes its reference. Of one that is only intended the pin may still be on its way, so that it stays until
 * it is due.
 */
export class Parts {
  readonly #sql: SqlStorage;
  readonly #outbox: Outbox;

  constructor(sql: SqlStorage, outbox: Outbox) {
    this.#sql = sql;
    this.#outbox = outbox;
  }

  /** Writes the row of a part that is about to be pinned, which the sweep releases at `dueMs`. */
  intend(part: NewPart, dueMs: number): void {
    this.#sql.exec(
      `INSERT INTO part (id, upload_id, cid, service, first_leaf, digests, bytes, state, due)
       VALUES (?, ?, ?, ?, ?, ?, ?, 'intended', ?)`,
      part.id,
      part.uploadId,
      part.cid,
      part.service,
      part.firstLeaf,
      part.digests,
      part.bytes,
      dueMs,
    );
  }

  /** Records the pin of a part. @returns whether its row is still there */
  commit(id: string): boolean {
    return this.#sql.exec(`UPDATE part SET state = 'pinned' WHERE id = ? RETURNING id`, id).toArray().length > 0;
  }

  /** Records the pin of a part that stays until it is released. @returns whether its row is still there */
  commitForGood(id: string): boolean {
    if (!this.commit(id)) return false;
    this.#sql.exec('UPDATE part SET due = ? WHERE id = ?', never, id);
    return true;
  }

  /** Counts the leaves in the pinned parts of an upload. */
  leaves(uploadId: string): number {
    const { bytes } = this.#sql
      .exec<{ bytes: number | null }>(
        `SELECT sum(length(digests)) AS bytes FROM part WHERE upload_id = ? AND state = 'pinned'`,
        uploadId,
      )
      .one();
    return (bytes ?? 0) / digestBytes;
  }

  /** Lets the pinned parts of an upload stay until `dueMs`. */
  keepUntil(uploadId: string, dueMs: number): void {
    this.#sql.exec(`UPDATE part SET due = ? WHERE upload_id = ? AND state = 'pinned'`, dueMs, uploadId);
  }

  /** The pinned parts of an upload, in the order of the file. */
  pinned(uploadId: string): NewPart[] {
    return this.#sql
      .exec<PartRow>(`SELECT * FROM part WHERE upload_id = ? AND state = 'pinned' ORDER BY first_leaf, seq`, uploadId)
      .toArray()
      .map((row) => partOf(row));
  }

  /** Releases the pinned parts of an upload that has ended. */
  release(uploadId: string): void {
    this.#release(
      this.#sql.exec<PartRow>(`DELETE FROM part WHERE upload_id = ? AND state = 'pinned' RETURNING *`, uploadId),
    );
  }

  /** Releases a part that is known not to be pinned, at once. */
  withdraw(id: string, nowMs: number): void {
    this.#sql.exec('UPDATE part SET due = ? WHERE id = ?', nowMs, id);
    this.sweep(nowMs);
  }

  /** Removes every row, with a message for each that goes out once nothing of it is on its way. */
  removeAll(): void {
    this.#release(this.#sql.exec<PartRow>('DELETE FROM part RETURNING *'));
  }

  /** Releases the parts whose time is up. */
  sweep(nowMs: number): void {
    this.#release(this.#sql.exec<PartRow>('DELETE FROM part WHERE due <= ? RETURNING *', nowMs));
  }

  /** Returns the time at which the next part is due, in ms. */
  nextDue(): number | undefined {
    const [row] = this.#sql
      .exec<{ due: number | null }>('SELECT min(due) AS due FROM part WHERE due < ?', never)
      .toArray();
    return row?.due ?? undefined;
  }

  #release(removed: SqlStorageCursor<PartRow>): void {
    for (const { id, cid, service, state, due } of removed.toArray())
      this.#outbox.add(referenceRemoval({ cid, service, fileId: id }), state === 'intended' ? { dueMs: due } : {});
  }
}

function partOf(row: PartRow): NewPart {
  return {
    id: row.id,
    uploadId: row.upload_id,
    cid: row.cid,
    service: row.service,
    firstLeaf: row.first_leaf,
    digests: new Uint8Array(row.digests),
    bytes: row.bytes,
  };
}
