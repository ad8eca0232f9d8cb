/**
 * Allowance that is set aside: for unfinished uploads, what they announced; for invitations, the
 * limits of their keys, in the quota of the account and the limits of the keys above them.
 */
import type { StoredFile } from '../../../../shared/api.ts';
import { detachedPayloadBytes } from '../../../../shared/crypto/index.ts';
import { all } from '../../sql.ts';

type Mode = StoredFile['mode'];

/**
 * An unfinished upload of an API key, and the bytes on IPFS that it will have; those that have
 * come, where it did not announce more.
 */
export type Reserved = { apiKey: string; bytes: number };

/** Bytes on IPFS of a file with so many. */
export function storedBytes(mode: Mode, bytes: number): number {
  return mode === 'encrypted' ? detachedPayloadBytes(bytes) : bytes;
}

/**
 * Returns what the unfinished uploads of the account take.
 * @param except the ID of one that does not count
 */
export function reservedBy(sql: SqlStorage, except?: string): Reserved[] {
  const query = `SELECT id, api_key AS apiKey, mode, coalesce(length, offset) AS bytes FROM upload
    WHERE state IN ('open', 'finishing')`;
  return all<Reserved & { id: string; mode: Mode }>(sql, query)
    .filter(({ id }) => id !== except)
    .map(({ apiKey, mode, bytes }) => ({ apiKey, bytes: storedBytes(mode, bytes) }));
}

/** Adds up the bytes of uploads, files or parts. */
export function totalBytes(some: readonly { bytes: number }[]): number {
  return some.reduce((sum, { bytes }) => sum + bytes, 0);
}

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
