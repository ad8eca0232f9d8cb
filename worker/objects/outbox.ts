/** What an account still has to tell `Pin` and KV: written in the transaction that makes it true, kept until it is acknowledged. */
import { type Answer } from './result.ts';
import { errorText, log } from '../log.ts';
import { backoffMs } from './alarm.ts';
import type { FileRecord } from './file-rows.ts';
import type { Removal } from './pin.ts';

export type Message =
  | { op: 'unrefer'; target: string; service: string; fileId: string }
  | { op: 'discard'; target: string; service: string }
  | { op: 'forget'; target: string };

/** The message that a file does not need its CID any more. */
export function unrefer({ cid, service, fileId }: FileRecord): Message {
  return { op: 'unrefer', target: cid, service, fileId };
}

type Delivery = (message: Message) => Promise<Answer<{ status: Removal }>>;

type OutboxRow = { id: number; op: Message['op']; target: string; service: string; file_id: string; attempts: number };

export type Outbox = {
  /** Writes a message, due at once; its id. */
  add(message: Message, nowMs: number): number;
  /** Delivers what is due, or the one message of that id. What the answers come to; `scheduled` when one is still missing. */
  flush(deliver: Delivery, nowMs: number, id?: number): Promise<Removal>;
  nextDue(): number | undefined;
};

/** How many messages one ringing of the alarm delivers, so that it stays within the subrequests of one event. */
const batch = 200;

/** The outbox in an object's storage. */
export function outbox(sql: SqlStorage): Outbox {
  return {
    add(message, nowMs) {
      const { op, target, service = '', fileId = '' } = { service: undefined, fileId: undefined, ...message };
      const [row] = sql
        .exec<{ id: number }>(
          'INSERT INTO outbox (op, target, service, file_id, due, attempts) VALUES (?, ?, ?, ?, ?, 0) RETURNING id',
          op,
          target,
          service,
          fileId,
          nowMs,
        )
        .toArray();
      return row!.id;
    },
    async flush(deliver, nowMs, id) {
      const rows =
        id === undefined
          ? sql.exec<OutboxRow>('SELECT * FROM outbox WHERE due <= ? ORDER BY due LIMIT ?', nowMs, batch).toArray()
          : sql.exec<OutboxRow>('SELECT * FROM outbox WHERE id = ?', id).toArray();
      let result: Removal = 'unpinned';
      for (const row of rows) {
        const attempts = row.attempts + 1;
        // Before the message goes out: the next ringing must not send it once more while this one waits.
        sql.exec('UPDATE outbox SET attempts = ?, due = ? WHERE id = ?', attempts, nowMs + backoffMs(attempts), row.id);
        const acknowledged = await attempt(deliver, row);
        if (acknowledged !== undefined) sql.exec('DELETE FROM outbox WHERE id = ?', row.id);
        result = lesser(result, acknowledged ?? 'scheduled');
      }
      return result;
    },
    nextDue() {
      const [row] = sql.exec<{ due: number | null }>('SELECT min(due) AS due FROM outbox').toArray();
      return row?.due ?? undefined;
    },
  };
}

/** What two removals come to: the one that leaves more. */
export function lesser(a: Removal, b: Removal): Removal {
  const order: Removal[] = ['scheduled', 'kept', 'unpinned'];
  return order.find((each) => each === a || each === b)!;
}

async function attempt(deliver: Delivery, row: OutboxRow): Promise<Removal | undefined> {
  const { op, target, service, file_id: fileId, attempts } = row;
  try {
    const answer = await deliver({ op, target, service, fileId });
    if (answer.ok) return answer.status;
    log({ event: 'outbox.refused', op, attempts, code: answer.code });
  } catch (error) {
    log({ event: 'outbox.failed', op, attempts, error: errorText(error) });
  }
  return undefined;
}
