/**
 * The messages that an account owes `Pin`, `Share` and KV: written in the transaction that makes
 * them true, kept until acknowledged.
 */
import type { RemovedPin } from '../../../shared/api.ts';
import { errorText, log } from '../../log.ts';
import { backoffMs } from '../alarm.ts';
import { leastDone, type Removal } from '../pin/pin-steps.ts';
import type { Result } from '../result.ts';
import { StorageRows } from '../storage-rows.ts';
import { all, exists, first, insert, least, update } from '../sql.ts';

/** The values of `op` are stored in rows, so they never change. */
export type Message =
  | { op: 'unrefer'; target: string; service: string; fileId: string }
  | { op: 'unshare'; target: string }
  | KvMessage;

/** The message that an entry of KV is not what the rows say: of a key, or of the account. */
export type KvMessage = { op: 'remember' | 'forget' | 'enlist' | 'delist' | 'origins'; target: string };

/** The message that a file, or a part of an upload, no longer needs its CID. */
export function referenceRemoval({ cid, service, fileId }: Record<'cid' | 'service' | 'fileId', string>): Message {
  return { op: 'unrefer', target: cid, service, fileId };
}

/** Outcome of removals: altogether, and at each service. Messages to `Share` or KV have no pins. */
export type Delivered = { status: Removal; pins: RemovedPin[] };

/** Sends a message; one that succeeds is acknowledged. */
type Send = (message: Message, requestId: string) => Promise<Result<Delivered>>;

type OutboxRow = {
  id: number;
  op: Message['op'];
  target: string;
  service: string;
  file_id: string;
  attempts: number;
  request_id: string | null;
};

/** Number of messages that one alarm delivers, within the subrequests of one event. */
const maxSent = 200;
/**
 * Time after which an alarm sends no more to `Pin`, in ms: a backend that hangs answers after some
 * seconds, and what ends links and keys meanwhile goes first in the next alarm.
 */
const sendingMs = 5_000;

type OutboxOptions = {
  send: Send;
  /** Takes note of what became of a file's reference, in the step that removes the message. */
  unreferred(fileId: string, pins: readonly RemovedPin[]): void;
  now(): number;
};

/** The outbox in an object's storage. */
export class Outbox extends StorageRows<OutboxOptions> {
  /**
   * Writes a message that is due at once, unless `dueMs` says when.
   * @param requestId of the request from which it follows @returns its ID
   */
  add(message: Message, o: { dueMs?: number; requestId?: string | undefined } = {}): number {
    const { op, target, service = '', fileId = '' } = { service: undefined, fileId: undefined, ...message };
    const due = o.dueMs ?? this.context.now();
    const row = { op, target, service, file_id: fileId, due, attempts: 0, request_id: o.requestId ?? null };
    return Number(insert(this.sql, 'outbox', row, 'RETURNING id')?.['id']);
  }

  /**
   * Has what ends a share wait until `dueMs`.
   * @returns whether nothing of it is on its way; otherwise nothing waits
   */
  postponeEnd(shareId: string, dueMs: number): boolean {
    if (exists(this.sql, `outbox WHERE op = 'unshare' AND target = ? AND attempts > 0`, shareId)) return false;
    update(this.sql, 'outbox', { due: dueMs }, `op = 'unshare' AND target = ?`, shareId);
    return true;
  }

  /** Drops what ends a share, since there is another one with its ID. */
  dropEnd(shareId: string): void {
    this.sql.exec(`DELETE FROM outbox WHERE op = 'unshare' AND target = ?`, shareId);
  }

  /** Tells whether the reference of a file, or of a part, is about to be removed. */
  isLeaving(fileId: string): boolean {
    return exists(this.sql, `outbox WHERE op = 'unrefer' AND file_id = ?`, fileId);
  }

  /**
   * Delivers the messages with these IDs that are still there.
   * @returns what became of the pins altogether; `scheduled` when a message is not acknowledged yet
   */
  async deliver(ids: readonly number[]): Promise<Removal> {
    let result: Removal = 'unpinned';
    for (const id of ids) {
      const row = first<OutboxRow>(this.sql, 'SELECT * FROM outbox WHERE id = ?', id);
      if (row !== undefined) result = leastDone(result, await this.#deliverRow(row));
    }
    return result;
  }

  /**
   * Delivers messages that are due, at most as many as one event can: first those that end shares
   * and keys, which no backend holds up.
   */
  async flush(): Promise<void> {
    const until = this.context.now() + sendingMs;
    const others = this.#due(`op <> 'unrefer'`, maxSent);
    for (const row of others) await this.#deliverRow(row);
    for (const row of this.#due(`op = 'unrefer'`, maxSent - others.length)) {
      if (this.context.now() >= until) return;
      await this.#deliverRow(row);
    }
  }

  #due(which: string, limit: number): OutboxRow[] {
    const query = `SELECT * FROM outbox WHERE ${which} AND due <= ? ORDER BY due LIMIT ?`;
    return all(this.sql, query, this.context.now(), limit);
  }

  /** Returns the time at which the next message is due, in ms. */
  nextDue(): number | undefined {
    return least(this.sql, 'due', 'outbox');
  }

  async #deliverRow(row: OutboxRow): Promise<Removal> {
    const attempts = row.attempts + 1;
    // What follows from no request has an ID of its own, for as long as it takes.
    const requestId = row.request_id ?? crypto.randomUUID();
    // Before the message goes out: the next alarm must not send it once more while this one waits.
    const due = this.context.now() + backoffMs(attempts);
    update(this.sql, 'outbox', { attempts, due, request_id: requestId }, 'id = ?', row.id);
    const acknowledged = await this.#attempt(row, attempts, requestId);
    if (acknowledged === undefined) return 'scheduled';
    this.sql.exec('DELETE FROM outbox WHERE id = ?', row.id);
    if (row.op === 'unrefer') this.context.unreferred(row.file_id, acknowledged.pins);
    return acknowledged.status;
  }

  async #attempt(row: OutboxRow, attempts: number, requestId: string): Promise<Delivered | undefined> {
    const { op, target, service, file_id: fileId } = row;
    try {
      const result = await this.context.send({ op, target, service, fileId }, requestId);
      if (result.ok) return result;
      log({ event: 'outbox.refused', requestId, op, attempts, code: result.code });
    } catch (error) {
      log({ event: 'outbox.failed', requestId, op, attempts, error: errorText(error) });
    }
    return undefined;
  }
}
