/**
 * The allowance that unfinished uploads take: what they announced counts for limits and quota
 * before it has come.
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

type UnfinishedUploadRow = { id: string; api_key: string; mode: Mode; length: number | null; offset: number };

/** Bytes on IPFS of a file with so many. */
export function storedBytes(mode: Mode, bytes: number): number {
  return mode === 'encrypted' ? detachedPayloadBytes(bytes) : bytes;
}

/**
 * Returns what the unfinished uploads of the account take.
 * @param except the ID of one that does not count
 */
export function reservedBy(sql: SqlStorage, except?: string): Reserved[] {
  return all<UnfinishedUploadRow>(
    sql,
    `SELECT id, api_key, mode, length, offset FROM upload WHERE state IN ('open', 'finishing')`,
  )
    .filter(({ id }) => id !== except)
    .map((row) => ({ apiKey: row.api_key, bytes: storedBytes(row.mode, row.length ?? row.offset) }));
}
