/** The parts of uploads, as rows: what a file that is not stored yet keeps pinned. */
import { digestBytes } from '../../../../shared/ipfs/index.ts';
import { bytes, integer, recordsOf, rowOf, text, type RecordOf } from '../../columns.ts';
import { StorageRows } from '../../storage-rows.ts';
import { exists, first, insert, least, list, update } from '../../sql.ts';
import { referenceRemoval, type Outbox } from '../outbox.ts';

const columns = {
  id: text('id'),
  uploadId: text('upload_id'),
  cid: text('cid'),
  service: text('service'),
  firstLeaf: integer('first_leaf'),
  digests: bytes('digests'),
  bytes: integer('bytes'),
  state: text<'intended' | 'pinned'>('state'),
  due: integer('due'),
};
type PartRecord = RecordOf<typeof columns>;

/**
 * A part that a service holds. Its `id` stands for it in the references of `Pin`, where the ID of a
 * file would be; `uploadId` is the ID of the file that the upload makes, `firstLeaf` the number of
 * its first leaf in the file. `digests`: SHA-256 of each of its leaves, 32 bytes each, in order;
 * `bytes` of its leaves. `requestId`: the request that sends it, for the log; no row has it.
 */
export type NewPart = Omit<PartRecord, 'state' | 'due'> & { requestId?: string };

/** The time at which a part is due that does not come due by itself. */
const never = Number.MAX_SAFE_INTEGER;

const pinned = `upload_id = ? AND state = 'pinned'`;

/**
 * The parts in an object's storage. A part is `intended` until its pin is acknowledged. To release
 * one is to remove its row and to leave a message that removes its reference. Of one that is only
 * intended the pin may still be on its way, so that it stays until it is due.
 */
export class PartRows extends StorageRows<{ outbox: Outbox }> {
  /** Writes the row of a part that is about to be pinned, which the sweep releases at `dueMs`. */
  intend(part: NewPart, dueMs: number): void {
    insert(this.sql, 'part', rowOf(columns, { ...part, state: 'intended', due: dueMs }));
  }

  /** Records the pin of a part. @returns whether its row is still there */
  commit(id: string): boolean {
    return first(this.sql, `UPDATE part SET state = 'pinned' WHERE id = ? RETURNING id`, id) !== undefined;
  }

  /**
   * Records the pin of a part that stays until it is released.
   * @returns whether its row is still there
   */
  commitForGood(id: string): boolean {
    update(this.sql, 'part', { due: never }, 'id = ?', id);
    return this.commit(id);
  }

  /** Tells whether the pin of a part is not acknowledged. */
  isIntended(id: string): boolean {
    return exists(this.sql, `part WHERE id = ? AND state = 'intended'`, id);
  }

  /** Counts the leaves in the pinned parts of an upload. */
  leaves(uploadId: string): number {
    const query = `SELECT coalesce(sum(length(digests)), 0) FROM part WHERE ${pinned}`;
    return (list<number>(this.sql, query, uploadId)[0] ?? 0) / digestBytes;
  }

  /** Lets the pinned parts of an upload stay until `dueMs`. */
  keepUntil(uploadId: string, dueMs: number): void {
    update(this.sql, 'part', { due: dueMs }, pinned, uploadId);
  }

  /** The pinned parts of an upload, in the order of the file. */
  pinned(uploadId: string): NewPart[] {
    return recordsOf(this.sql, columns, `SELECT * FROM part WHERE ${pinned} ORDER BY first_leaf, seq`, uploadId);
  }

  /** Releases the pinned parts of an upload that has ended. */
  release(uploadId: string): void {
    this.#release(pinned, uploadId);
  }

  /** Releases a part that is known not to be pinned, at once. */
  withdraw(id: string, nowMs: number): void {
    update(this.sql, 'part', { due: nowMs }, 'id = ?', id);
    this.sweep(nowMs);
  }

  /** Removes every row, with a message for each that goes out once nothing of it is on its way. */
  removeAll(): void {
    this.#release('?1 IS NULL', null);
  }

  /** Releases the parts whose time is up. */
  sweep(nowMs: number): void {
    this.#release('due <= ?', nowMs);
  }

  /** Returns the time at which the next part is due, in ms. */
  nextDue(): number | undefined {
    return least(this.sql, 'due', 'part WHERE due < ?', never);
  }

  #release(where: string, value: SqlStorageValue): void {
    const released = recordsOf(this.sql, columns, `DELETE FROM part WHERE ${where} RETURNING *`, value);
    for (const { id: fileId, state, due, ...part } of released)
      this.context.outbox.add(referenceRemoval({ ...part, fileId }), state === 'intended' ? { dueMs: due } : {});
  }
}
