/** The shares of an account, as rows. The records are in the objects `Share`. */
import { json, recordsOf, rowOf, type RecordOf } from '../../columns.ts';
import { err, type Failure } from '../../result.ts';
import { StorageRows } from '../../storage-rows.ts';
import { all, exists, first, greatest, insert, least, update } from '../../sql.ts';
import type { EventRows } from '../event-rows.ts';
import type { Outbox } from '../outbox.ts';
import { ofInvitation } from '../keys/invitation.ts';
import { hiddenShareColumns, shareColumns as ownColumns } from '../tables.ts';

export const shareColumns = { ...ownColumns, files: json<string[]>('files') };
export const shareRowColumns = { ...shareColumns, ...hiddenShareColumns };

type ShareRow = RecordOf<typeof shareRowColumns>;

/** A share; times in ms. `createdBy`: the ID of a key; `files`: of those whose deletion ends it. */
export type ShareRecord = RecordOf<typeof shareColumns>;

/** A share that is being made. */
export type NewShare = Omit<ShareRecord, 'createdBy' | 'changedAt'>;

/** A share that has ended: its ID, and the message that has its record destroyed. */
export type Ended = { id: string; message: number };

/** `next` is the cursor of the next page, if there is one. */
export type SharePage = { shares: ShareRow[]; next: number | undefined };

/** Actor, and the request from which it follows. */
type Cause = { by: string | null; requestId?: string | undefined };

/** What follows `SELECT *,` for active shares with their files: JSON, in the order given. */
export const activeShares = `(SELECT json_group_array(file_id) FROM
  (SELECT file_id FROM share_file WHERE share_id = share.id ORDER BY place)) AS files
  FROM share WHERE state = 'active'`;

export function insertShare(sql: SqlStorage, share: Omit<ShareRow, 'number'> & { number?: number }): void {
  insert(sql, 'share', rowOf({ ...ownColumns, ...hiddenShareColumns }, share));
  share.files.forEach((fileId, place) => insert(sql, 'share_file', { share_id: share.id, file_id: fileId, place }));
}

/**
 * The shares in an object's storage. A row says that there may be a record, from before it is sent.
 * With the row goes a message, in the same transaction, that has the record destroyed.
 */
export class ShareRows extends StorageRows<{ outbox: Outbox; events: EventRows; now(): number }> {
  /**
   * Writes the row of a share whose record is about to be sent. What ends one that could not be
   * made with its ID waits, since it would end this one.
   * @param dueMs when it is given up, unless it is active by then
   * @returns `conflict` where it is there; `overloaded` where it is being made or ended
   */
  add(share: ShareRecord, dueMs: number): Failure | undefined {
    const row = first<Pick<ShareRow, 'state'>>(this.sql, 'SELECT state FROM share WHERE id = ?', share.id);
    if (row?.state === 'active') return err('conflict', 'there is a share with this ID');
    if (row !== undefined || !this.context.outbox.postponeEnd(share.id, dueMs)) return err('overloaded', undefined, 2);
    insertShare(this.sql, { ...share, state: 'making', due: dueMs });
    return undefined;
  }

  /**
   * Records that the object has the record.
   * @param dueMs when the row goes
   * @returns whether it is still there
   */
  activate({ id, createdBy }: Pick<ShareRecord, 'id' | 'createdBy'>, dueMs: number): boolean {
    const statement = `UPDATE share SET state = 'active', due = ? WHERE id = ? RETURNING id`;
    if (first(this.sql, statement, dueMs, id) === undefined) return false;
    this.context.outbox.dropEnd(id);
    this.context.events.add({ action: 'share.created', by: createdBy, subject: id });
    return true;
  }

  /**
   * Counts shares that have not expired: of the account, without those of invitations, and of an
   * API key; `kept`: all of that key that have a row.
   */
  count(apiKey: string): { all: number; own: number; kept: number } {
    const query = `SELECT coalesce(sum(expires_at > ?1 AND NOT api_key ${ofInvitation}), 0) AS "all",
      coalesce(sum(expires_at > ?1 AND api_key = ?2), 0) AS own, coalesce(sum(api_key = ?2), 0) AS kept FROM share`;
    return first(this.sql, query, this.context.now(), apiKey) ?? { all: 0, own: 0, kept: 0 };
  }

  /** An active share. */
  find(id: string): ShareRow | undefined {
    return this.#read('id = ?', id)[0];
  }

  /** Sets the terms of a share as its object has them, in a transaction of the caller's. */
  setTerms(id: string, terms: Pick<ShareRecord, 'opens' | 'expiresAt' | 'changedAt'>, dueMs: number): void {
    update(this.sql, 'share', { ...rowOf(ownColumns, terms), due: dueMs }, 'id = ?', id);
  }

  /** Returns the time at which the last of the shares with a file expires, in ms. */
  lastEnd(fileId: string): number | undefined {
    return greatest(this.sql, 'expires_at', 'share JOIN share_file ON share_id = share.id WHERE file_id = ?', fileId);
  }

  /** Tells whether a file is in a share. */
  hasFile(fileId: string): boolean {
    return exists(this.sql, 'share_file WHERE file_id = ?', fileId);
  }

  /** Active shares before the cursor `before`, newest first. */
  page({ before = Number.MAX_SAFE_INTEGER, limit }: { before: number | undefined; limit: number }): SharePage {
    const shares = this.#read('seq < ? ORDER BY seq DESC LIMIT ?', before, limit + 1);
    const next = shares.length > limit ? shares[limit - 1]?.number : undefined;
    return { shares: shares.slice(0, limit), next };
  }

  /** The same of one API key. Its cursors count its shares only, and tell nothing of others. */
  pageOf(apiKey: string, { before = Infinity, limit }: { before: number | undefined; limit: number }): SharePage {
    const own = this.#read('api_key = ? ORDER BY seq DESC', apiKey);
    const from = Math.max(0, own.length - before + 1);
    const next = own.length > from + limit ? own.length - (from + limit) + 1 : undefined;
    return { shares: own.slice(from, from + limit), next };
  }

  /** Ends a share that is active, in a transaction of the caller's, who then delivers. */
  end(id: string, cause: Cause): Ended | undefined {
    return this.#end(`id = ? AND state = 'active'`, id, cause)[0];
  }

  /** Does so for the shares of a file. */
  endOfFile(fileId: string, cause: Cause): Ended[] {
    return this.#end('id IN (SELECT share_id FROM share_file WHERE file_id = ?)', fileId, cause);
  }

  /** Does so for the shares that API keys made; for all without `apiKeys`. */
  endOfKeys(apiKeys: readonly string[] | undefined, cause: Cause): Ended[] {
    if (apiKeys === undefined) return this.#end('?1 IS NULL', null, cause);
    return this.#end('api_key IN (SELECT value FROM json_each(?))', JSON.stringify(apiKeys), cause);
  }

  /**
   * Removes the row of one that was not made, and ends it once its record must have arrived: until
   * then it can be made again. @param isSent whether there may be such a record
   */
  giveUp(id: string, isSent: boolean): void {
    for (const { due: dueMs } of this.#delete('id = ?', id))
      if (isSent) this.context.outbox.add({ op: 'unshare', target: id }, { dueMs });
  }

  /** Ends one that ended while it was made, whether or not its row is still there. */
  withdraw(id: string): Ended {
    const [ended] = this.#end('id = ?', id, { by: null });
    // The message that went with the row may have come before the record.
    return ended ?? { id, message: this.context.outbox.add({ op: 'unshare', target: id }) };
  }

  /** Forgets shares that ended long ago, and ends those that were never made. */
  sweep(): void {
    const nowMs = this.context.now();
    this.#delete(`state = 'active' AND due <= ?`, nowMs);
    this.#end('due <= ?', nowMs, { by: null });
  }

  nextDue(): number | undefined {
    return least(this.sql, 'due', 'share');
  }

  #read(rest: string, ...values: SqlStorageValue[]): ShareRow[] {
    return recordsOf(this.sql, shareRowColumns, `SELECT *, ${activeShares} AND ${rest}`, ...values);
  }

  #end(where: string, value: SqlStorageValue, { by, requestId }: Cause): Ended[] {
    return this.#delete(where, value).map(({ id, state, due: dueMs }) => {
      const message = { op: 'unshare', target: id } as const;
      if (state === 'active') this.context.events.add({ action: 'share.revoked', by, subject: id });
      // Again for when a record that may still be on its way has arrived.
      else this.context.outbox.add(message, { dueMs, requestId });
      return { id, message: this.context.outbox.add(message, { requestId }) };
    });
  }

  #delete(where: string, value: SqlStorageValue): Pick<ShareRow, 'id' | 'state' | 'due'>[] {
    const query = `SELECT id, state, due FROM share WHERE ${where} ORDER BY seq`;
    const rows = all<Pick<ShareRow, 'id' | 'state' | 'due'>>(this.sql, query, value);
    for (const { id } of rows) {
      this.sql.exec('DELETE FROM share WHERE id = ?', id);
      this.sql.exec('DELETE FROM share_file WHERE share_id = ?', id);
    }
    return rows;
  }
}
