/** Allowance that unfinished uploads take: what they announced counts before it comes. */
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
