/**
 * Promises to invitations: the limits of their keys, which are set aside in the quota of the
 * account and in the limits of the keys that they descend from, for as long as they last.
 */
import { all } from '../../sql.ts';
import { totalBytes, type Reserved } from './reserved.ts';

/** Room that an invitation still has; 0 where its key has no such limit. */
export type Promised = { apiKey: string; files: number; bytes: number };

/** Returns what all invitations that have not ended may still store, besides what is reserved. */
export function promisedIn(sql: SqlStorage, reserved: readonly Reserved[], nowMs: number): Promised[] {
  const query = `SELECT id AS apiKey, coalesce(max_files - files, 0) AS files, coalesce(max_bytes - bytes, 0) AS bytes
    FROM api_key JOIN key_limit ON key_id = id
    WHERE scopes = 'send' AND revoked_at IS NULL AND coalesce(expires_at > ?, 1)`;
  return all<Promised>(sql, query, nowMs).map(({ apiKey, files, bytes }) => {
    const own = reserved.filter((each) => each.apiKey === apiKey);
    return { apiKey, files: Math.max(0, files - own.length), bytes: Math.max(0, bytes - totalBytes(own)) };
  });
}

/**
 * Returns what is left for a key beside what others are promised. Where more is promised than is
 * left, as after a quota was lowered, nothing is set aside: who comes first is served.
 * @param left by a quota or a limit, with what is promised
 * @param by the ID of the key; undefined: for an invitation that is new
 */
export function leftBeside(
  promised: readonly Promised[],
  what: 'files' | 'bytes',
  left: number,
  by: string | undefined,
): number {
  const all = promised.reduce((sum, each) => sum + each[what], 0);
  if (by !== undefined && all > left) return left;
  return left - all + (promised.find(({ apiKey }) => apiKey === by)?.[what] ?? 0);
}
