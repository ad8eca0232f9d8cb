/** Uploads that may be asked for twice and happen once. */
import { refuse, type Refusal } from '../answer.ts';

/** Scoped to API key, method and path; `name` and `fingerprint` are HMACs, in hex. */
export type Claim = { route: string; name: string; fingerprint: string };

const keptMs = 86_400_000;
/** A first request whose Worker died says nothing any more: its claim ends by itself. */
const runningMs = 3_600_000;

export type Claims = {
  /** Claims for a new file; the file of the first request where there was one. */
  take(apiKey: string, claim: Claim, fileId: string, nowMs: number): Refusal | { ok: true; first: string | undefined };
  /** Keeps the claim of a file that is ready now. */
  keep(fileId: string, nowMs: number): void;
  /** Gives up the claim of a file that is not, or not any more. */
  drop(fileId: string): void;
  dropAll(): void;
  /** Removes what is over. */
  expire(nowMs: number): void;
  nextDue(): number | undefined;
};

/** The claims in an object's storage. @param isReady whether a file of that id is stored */
export function claims(sql: SqlStorage, isReady: (fileId: string) => boolean): Claims {
  return {
    take(apiKey, { route, name, fingerprint }, fileId, nowMs) {
      this.expire(nowMs);
      const [row] = sql
        .exec<{ fingerprint: string; file_id: string }>(
          'SELECT fingerprint, file_id FROM idempotency WHERE api_key = ? AND route = ? AND hash = ?',
          apiKey,
          route,
          name,
        )
        .toArray();
      if (row !== undefined) {
        if (row.fingerprint !== fingerprint) return refuse('idempotency_mismatch');
        return isReady(row.file_id) ? { ok: true, first: row.file_id } : refuse('idempotency_running', undefined, 2);
      }
      sql.exec(
        'INSERT INTO idempotency (api_key, route, hash, fingerprint, file_id, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
        apiKey,
        route,
        name,
        fingerprint,
        fileId,
        nowMs,
        nowMs + runningMs,
      );
      return { ok: true, first: undefined };
    },
    keep(fileId, nowMs) {
      sql.exec('UPDATE idempotency SET expires_at = ? WHERE file_id = ?', nowMs + keptMs, fileId);
    },
    drop(fileId) {
      sql.exec('DELETE FROM idempotency WHERE file_id = ?', fileId);
    },
    dropAll() {
      sql.exec('DELETE FROM idempotency');
    },
    expire(nowMs) {
      sql.exec('DELETE FROM idempotency WHERE expires_at <= ?', nowMs);
    },
    nextDue() {
      const [row] = sql.exec<{ due: number | null }>('SELECT min(expires_at) AS due FROM idempotency').toArray();
      return row?.due ?? undefined;
    },
  };
}
