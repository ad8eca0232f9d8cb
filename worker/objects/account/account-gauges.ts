/** Numbers of one account for the operator's metrics, without names. */
import { backoffMs } from '../alarm.ts';
import { all, count } from '../sql.ts';
import type { AccountContext } from './account-context.ts';

/** Counts, and times in ms. */
export type AccountGauges = typeof zeroGauges;

/** The gauges where there is no account. */
const zeroGauges = {
  files: 0,
  /** Bytes on IPFS. */
  bytes: 0,
  shares: 0,
  /** Uploads in several requests: some bytes are missing, or all have arrived. */
  open: 0,
  finishing: 0,
  /** Messages to other objects that have not been acknowledged, though their time has come. */
  undelivered: 0,
  /** Time for which the oldest of them has waited. */
  undeliveredMs: 0,
  /** Time by which the alarm is late. */
  lateMs: 0,
};

/** Reads the gauges of an account; zeros where there is none. */
export function accountGauges(account: AccountContext): AccountGauges {
  const { row, sql, now } = account;
  if (row.id === undefined) return zeroGauges;
  return {
    ...row.usage(),
    shares: count(sql, `share WHERE state = 'active'`),
    open: count(sql, `upload WHERE state = 'open'`),
    finishing: count(sql, `upload WHERE state = 'finishing'`),
    ...undeliveredOf(sql, now()),
    lateMs: Math.max(0, now() - (account.nextDue() ?? now())),
  };
}

/**
 * A row has no time of its own: when its message went out first follows from the number of attempts
 * and the next one.
 */
function undeliveredOf(sql: SqlStorage, nowMs: number): Pick<AccountGauges, 'undelivered' | 'undeliveredMs'> {
  const query = `SELECT attempts, min(due) AS due, count(*) AS count FROM outbox
    WHERE attempts > 0 OR due <= ? GROUP BY attempts`;
  const groups = all<{ attempts: number; due: number; count: number }>(sql, query, nowMs);
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
