/** Uploads that may be sent again and happen once: the claims that requests with an `Idempotency-Key` hold. */
import { refuse, type Refusal } from './result.ts';

/**
 * Scoped to API key, method and path. `name` and `fingerprint` are HMACs in hex; the fingerprint has two of them, joined by a
 * dot: of the parameters, and of the length of the body, which is empty where the request announced none.
 */
export type Claim = { apiKey: string; route: string; name: string; fingerprint: string };

/** How long a finished upload is remembered. */
const keptMs = 86_400_000;
/** How long a claim belongs to a request that does not renew it. */
const leaseMs = 60_000;

/** What claims need to know from outside. `leaseMs` is 60 s unless a test shortens it. */
export type ClaimOptions = { isReady(fileId: string): boolean; now(): number; leaseMs?(): number | undefined };

/**
 * A claim is a lease: it belongs to the request that uploads `file_id` until it runs out, and that request renews it while it
 * lives. A request that died renews nothing, so the next one takes its claim over.
 */
export type Claims = {
  /** Claims for a new file, or gives the file of the first request. */
  take(claim: Claim, fileId: string): Refusal | { ok: true; first?: string };
  /** Renews the claim of a running upload, if there is one, unless another request has taken it over. */
  renew(claim: Claim | undefined, fileId: string): Refusal | undefined;
  /** Remembers a file that is ready now, unless another request has taken the claim over. */
  keep(claim: Claim | undefined, fileId: string): Refusal | undefined;
  /** How often a claim has to be renewed, in ms. */
  renewMs(): number;
  /** Gives up the claim of a file that is not stored, or not any more. */
  drop(fileId: string): void;
  dropAll(): void;
  /** Removes what has run out. */
  expire(): void;
  nextDue(): number | undefined;
};

/** The claims in an object's storage. */
export function claims(sql: SqlStorage, { isReady, now, leaseMs: length }: ClaimOptions): Claims {
  const lease = (): number => length?.() ?? leaseMs;

  /** A lease that has run out is still its holder's until somebody else comes: then the row is missing, or its own. */
  function hold({ apiKey, route, name, fingerprint }: Claim, fileId: string, forMs: number): Refusal | undefined {
    const written = sql.exec(
      `INSERT INTO idempotency (api_key, route, hash, fingerprint, file_id, created_at, expires_at)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
       ON CONFLICT (api_key, route, hash) DO UPDATE SET expires_at = ?7 WHERE file_id = ?5 RETURNING file_id`,
      apiKey,
      route,
      name,
      fingerprint,
      fileId,
      now(),
      now() + forMs,
    );
    if (written.toArray().length > 0) return undefined;
    const detail = 'another request with this Idempotency-Key has taken the upload over';
    return refuse('idempotency_running', detail, Math.ceil(lease() / 1000));
  }

  return {
    take(claim, fileId) {
      this.expire();
      const [row] = sql
        .exec<{ fingerprint: string; file_id: string; expires_at: number }>(
          'SELECT fingerprint, file_id, expires_at FROM idempotency WHERE api_key = ? AND route = ? AND hash = ?',
          claim.apiKey,
          claim.route,
          claim.name,
        )
        .toArray();
      if (row === undefined) {
        hold(claim, fileId, lease());
        return { ok: true };
      }
      if (!isSame(row.fingerprint, claim.fingerprint)) return refuse('idempotency_mismatch');
      if (isReady(row.file_id)) return { ok: true, first: row.file_id };
      return refuse('idempotency_running', undefined, Math.max(1, Math.ceil((row.expires_at - now()) / 1000)));
    },
    renew: (claim, fileId) => (claim === undefined ? undefined : hold(claim, fileId, lease())),
    keep: (claim, fileId) => (claim === undefined ? undefined : hold(claim, fileId, keptMs)),
    renewMs: () => lease() / 3,
    drop(fileId) {
      sql.exec('DELETE FROM idempotency WHERE file_id = ?', fileId);
    },
    dropAll() {
      sql.exec('DELETE FROM idempotency');
    },
    expire() {
      sql.exec('DELETE FROM idempotency WHERE expires_at <= ?', now());
    },
    nextDue() {
      const [row] = sql.exec<{ due: number | null }>('SELECT min(expires_at) AS due FROM idempotency').toArray();
      return row?.due ?? undefined;
    },
  };
}

/** Whether two requests are the same. HTTP stacks may send a length once and chunks the next time: it counts where both have one. */
function isSame(one: string, other: string): boolean {
  const [first = '', firstLength = ''] = one.split('.');
  const [second = '', secondLength = ''] = other.split('.');
  return first === second && (firstLength === '' || secondLength === '' || firstLength === secondLength);
}
