/**
 * The messages that an account owes `Pin`, `Share` and KV: written in the transaction that makes them true, kept until
 * acknowledged.
 */
import { errorText, log } from '../../log.ts';
import { backoffMs } from '../alarm.ts';
import type { FileRecord } from './files/file-rows.ts';
import type { RemovedPin } from '../pin/backend-pin.ts';
import { leastDone, type Removal } from '../pin/pin-steps.ts';
import type { Result } from '../result.ts';

/** The values of `op` are stored in rows, so they never change. */
export type Message =
  | { op: 'unrefer'; target: string; service: string; fileId: string }
  | { op: 'unshare'; target: string }
  | { op: 'forget'; target: string }
  | { op: 'enlist'; target: string }
  | { op: 'delist'; target: string };

/** The message that a file, or a part of an upload, no longer needs its CID. */
export function referenceRemoval({ cid, service, fileId }: Pick<FileRecord, 'cid' | 'service' | 'fileId'>): Message {
  return { op: 'unrefer', target: cid, service, fileId };
}

/** Outcome of removals: altogether, and at each service of those CIDs. A message to `Share` or KV has no pins. */
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

/** Number of messages that one alarm delivers, so that it stays within the subrequests of one event. */
const maxSent = 200;

type OutboxOptions = {
  send: Send;
  /** Takes note of what became of a file's reference, in the step that removes the message. */
  unreferred(fileId: string, pins: readonly RemovedPin[]): void;
  now(): number;
};

/** The outbox in an object's storage. */
export class Outbox {
  readonly #sql: SqlStorage;
  readonly #options: OutboxOptions;

  constructor(sql: SqlStorage, options: OutboxOptions) {
    this.#sql = sql;
    this.#options = options;
  }

  /**
   * Writes a message that is due at once, unless `dueMs` says when.
   * @param o.requestId of the request from which it follows @returns its ID
   */
  add(
    message: Message,
    { dueMs = this.#options.now(), requestId }: { dueMs?: number; requestId?: string | undefined } = {},
  ): number {
    // One that waits for its next attempt would enter a deleted account in the list again.
    if (message.op === 'delist')
      this.#sql.exec(`DELETE FROM outbox WHERE op = 'enlist' AND target = ?`, message.target);
    return this.#sql
      .exec<{ id: number }>(
        `INSERT INTO outbox (op, target, service, file_id, due, attempts, request_id) VALUES (?, ?, ?, ?, ?, 0, ?)
         RETURNING id`,
        message.op,
        message.target,
        'service' in message ? message.service : '',
        'fileId' in message ? message.fileId : '',
        dueMs,
        requestId ?? null,
      )
      .one().id;
  }

  /**
   * Delivers the messages with these IDs that are still there.
   * @returns what became of the pins altogether; `scheduled` when a message is not acknowledged yet
   */
  async deliver(ids: readonly number[]): Promise<Removal> {
    let result: Removal = 'unpinned';
    for (const id of ids) {
      const rows = this.#sql.exec<OutboxRow>('SELECT * FROM outbox WHERE id = ?', id).toArray();
      result = leastDone(result, await this.#deliverRows(rows));
    }
    return result;
  }

  /** Delivers the messages that are due, at most as many as one event can. */
  async flush(): Promise<void> {
    const rows = this.#sql.exec<OutboxRow>(
      'SELECT * FROM outbox WHERE due <= ? ORDER BY due LIMIT ?',
      this.#options.now(),
      maxSent,
    );
    await this.#deliverRows(rows.toArray());
  }

  /** Returns the time at which the next message is due, in ms. */
  nextDue(): number | undefined {
    const [row] = this.#sql.exec<{ due: number | null }>('SELECT min(due) AS due FROM outbox').toArray();
    return row?.due ?? undefined;
  }

  async #deliverRows(rows: readonly OutboxRow[]): Promise<Removal> {
    const now = this.#options.now();
    let result: Removal = 'unpinned';
    for (const row of rows) {
      const attempts = row.attempts + 1;
      const due = now + backoffMs(attempts);
      // What follows from no request has an ID of its own, for as long as it takes.
      const requestId = row.request_id ?? crypto.randomUUID();
      // Before the message goes out: the next alarm must not send it once more while this one waits.
      this.#sql.exec(
        'UPDATE outbox SET attempts = ?, due = ?, request_id = ? WHERE id = ?',
        attempts,
        due,
        requestId,
        row.id,
      );
      const acknowledged = await this.#attempt({ ...row, attempts }, requestId);
      if (acknowledged !== undefined) {
        this.#sql.exec('DELETE FROM outbox WHERE id = ?', row.id);
        if (row.op === 'unrefer') this.#options.unreferred(row.file_id, acknowledged.pins);
      }
      result = leastDone(result, acknowledged?.status ?? 'scheduled');
    }
    return result;
  }

  async #attempt(
    { op, target, service, file_id: fileId, attempts }: OutboxRow,
    requestId: string,
  ): Promise<Delivered | undefined> {
    try {
      const result = await this.#options.send({ op, target, service, fileId }, requestId);
      if (result.ok) return result;
      log({ event: 'outbox.refused', requestId, op, attempts, code: result.code });
    } catch (error) {
      log({ event: 'outbox.failed', requestId, op, attempts, error: errorText(error) });
    }
    return undefined;
  }
}
