/** Numbers of one account for the operator's metrics, without names. */
import type { AccountRow } from './account-row.ts';
import { backoffMs } from '../alarm.ts';

/** Counts, and times in ms. */
export type AccountGauges = {
  files: number;
  /** Bytes on IPFS. */
  bytes: number;
  shares: number;
  /** Uploads in several requests: some bytes are missing, or all have arrived. */
  open: number;
  finishing: number;
  /** Messages to other objects that have not been acknowledged, though their time has come. */
  undelivered: number;
  /** Time for which the oldest of them has waited. */
  undeliveredMs: number;
  /** Time by which the alarm is late. */
  lateMs: number;
};

const none: AccountGauges = {
  files: 0,
  bytes: 0,
  shares: 0,
  open: 0,
  finishing: 0,
  undelivered: 0,
  undeliveredMs: 0,
  lateMs: 0,
};

/**
 * Reads the gauges of an account; zeros where there is none.
 * @param o.nextDue when its alarm is to ring, in ms
 */
export function accountGauges(
  sql: SqlStorage,
  o: { row: AccountRow; nextDue: () => number | undefined; nowMs: number },
): AccountGauges {
  const { row, nextDue, nowMs } = o;
  if (row.id === undefined) return none;
  return {
    ...row.usage(),
    shares: count(sql, `share WHERE state = 'active'`),
    open: count(sql, `upload WHERE state = 'open'`),
    finishing: count(sql, `upload WHERE state = 'finishing'`),
    ...undeliveredOf(sql, nowMs),
    lateMs: Math.max(0, nowMs - (nextDue() ?? nowMs)),
  };
}

function count(sql: SqlStorage, from: string): number {
  return sql.exec<{ count: number }>(`SELECT count(*) AS count FROM ${from}`).one().count;
}

/** A row has no time of its own: when its message went out first follows from the number of attempts and the next one. */
function undeliveredOf(sql: SqlStorage, nowMs: number): Pick<AccountGauges, 'undelivered' | 'undeliveredMs'> {
  const groups = sql
    .exec<{ attempts: number; due: number; count: number }>(
      'SELECT attempts, min(due) AS due, count(*) AS count FROM outbox WHERE attempts > 0 OR due <= ? GROUP BY attempts',
      nowMs,
    )
    .toArray();
  const ages = groups.map(({ attempts, due }) => {
    let first = due;
    for (let attempt = 1; attempt <= attempts; attempt += 1) first -= backoffMs(attempt);
    return nowMs - first;
  });
  return {
    undelivered: groups.reduce((sum, group) => sum + group.count, 0),
    undeliveredMs: Math.max(0, ...ages),
  };
}
