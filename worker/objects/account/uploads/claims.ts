/**
 * Claims, by which a thing happens once. Uploads may be sent again: requests with an
 * `Idempotency-Key` hold claims. Signed URLs that may be used once, and were, are remembered until
 * they expire.
 */
import { err, type Failure, type Result } from '../../result.ts';
import { soonest } from '../../alarm.ts';
import { StorageRows } from '../../storage-rows.ts';
import { exists, first, insert, least } from '../../sql.ts';

/**
 * Scoped to API key, method and path. `name` and `fingerprint` are HMACs in hex; the fingerprint
 * has two of them, joined by a dot: of the parameters, and of the length of the body, which is
 * empty where the request announced none.
 *
 * `expiresAt`: of a signed URL, which stands for one upload until then, in ms; also when the file
 * was deleted.
 */
export type Claim = { apiKey: string; route: string; name: string; fingerprint: string; expiresAt?: number };

/** A signed URL: the ID of its API key, its own name, and when it expires, in ms. */
type SignedUse = Required<Pick<Claim, 'apiKey' | 'name' | 'expiresAt'>>;

/** Retention of a finished upload's claim, in ms. */
const claimRetentionMs = 86_400_000;
/** Time for which a claim belongs to a request that does not renew it, in ms. */
export const claimLeaseMs = 60_000;
/** Time after which a client may ask again for a claim that was renewed just now, in ms. */
const firstGuessMs = 2000;

const isClaim = 'api_key = ? AND route = ? AND hash = ?';

/** `leaseMs` gives `claimLeaseMs`, unless a test shortens it. */
type ClaimOptions = { isReady(fileId: string): boolean; now(): number; leaseMs(): number };

/**
 * The claims in an object's storage. A claim is a lease: it belongs to the request that uploads
 * `file_id` until it runs out, and that request renews it while it lives. A request that died
 * renews nothing, so the next one takes its claim over.
 */
export class Claims extends StorageRows<ClaimOptions> {
  /** Claims for a new file, if it has a claim, or finds the file of the first request. */
  take(claim: Claim | undefined, fileId: string): Result<{ first?: string }> {
    if (claim === undefined) return { ok: true };
    this.expire();
    const { apiKey, route, name } = claim;
    const query = `SELECT fingerprint, file_id, expires_at FROM idempotency WHERE ${isClaim}`;
    type ClaimRow = { fingerprint: string; file_id: string; expires_at: number };
    const row = first<ClaimRow>(this.sql, query, apiKey, route, name);
    if (row === undefined) {
      if (claim.expiresAt !== undefined && this.isUsed(claim))
        return err('gone', 'this URL has stored its file already');
      this.#hold(claim, fileId, this.context.leaseMs());
      return { ok: true };
    }
    if (!isSameRequest(row.fingerprint, claim.fingerprint)) return err('idempotency_mismatch');
    if (this.context.isReady(row.file_id)) return { ok: true, first: row.file_id };
    return err('idempotency_running', undefined, this.#guessSeconds(row.expires_at));
  }

  /**
   * Renews the claim of a running upload, if it has one; fails when another request has taken it
   * over. A renewal may come after the end of its upload: it neither shortens a claim that is kept
   * nor brings back one that was given up.
   */
  renew(claim: Claim | undefined, fileId: string): Failure | undefined {
    if (claim === undefined) return undefined;
    const { apiKey, route, name } = claim;
    const others = `idempotency WHERE ${isClaim} AND file_id <> ?`;
    if (exists(this.sql, others, apiKey, route, name, fileId)) return takenOver();
    const renewed = `UPDATE idempotency SET expires_at = max(expires_at, ?) WHERE ${isClaim}`;
    this.sql.exec(renewed, this.context.now() + this.context.leaseMs(), apiKey, route, name);
    return undefined;
  }

  /** Remembers a file that is ready now; fails when another request has taken the claim over. */
  keep(claim: Claim | undefined, fileId: string): Failure | undefined {
    const leftMs = (claim?.expiresAt ?? 0) - this.context.now();
    return claim && this.#hold(claim, fileId, Math.max(claimRetentionMs, leftMs));
  }

  /** Uses up the signed URL of a file that is ready now, if it came by one. */
  spend(claim: Claim | undefined): void {
    if (claim?.expiresAt !== undefined) this.use({ ...claim, expiresAt: claim.expiresAt });
  }

  /** Returns the interval at which a claim must be renewed, in ms. */
  renewMs(): number {
    return this.context.leaseMs() / 3;
  }

  /** Gives up the claim of a file that is not stored, or not any more. */
  drop(fileId: string): void {
    this.sql.exec('DELETE FROM idempotency WHERE file_id = ?', fileId);
  }

  /** Removes what has run out. */
  expire(): void {
    this.sql.exec('DELETE FROM idempotency WHERE expires_at <= ?', this.context.now());
    this.sql.exec('DELETE FROM signed_use WHERE expires_at <= ?', this.context.now());
  }

  /** Returns the time at which the next of both runs out, in ms. */
  nextDue(): number | undefined {
    return soonest(...['idempotency', 'signed_use'].map((table) => least(this.sql, 'expires_at', table)));
  }

  /** Uses a signed URL, in a transaction of the caller's. @returns whether it is the first time */
  use({ apiKey, name, expiresAt }: SignedUse): boolean {
    const row = { api_key: apiKey, name, expires_at: expiresAt };
    return insert(this.sql, 'signed_use', row, 'ON CONFLICT DO NOTHING RETURNING name') !== undefined;
  }

  isUsed({ apiKey, name }: Pick<SignedUse, 'apiKey' | 'name'>): boolean {
    return exists(this.sql, 'signed_use WHERE api_key = ? AND name = ?', apiKey, name);
  }

  /**
   * A lease that has run out stays its holder's until another request claims it: then the row is
   * missing, or its own.
   */
  #hold({ apiKey, route, name, fingerprint }: Claim, fileId: string, forMs: number): Failure | undefined {
    const now = this.context.now();
    const times = { created_at: now, expires_at: now + forMs };
    const row = { api_key: apiKey, route, hash: name, fingerprint, file_id: fileId, ...times };
    const own = `ON CONFLICT (api_key, route, hash) DO UPDATE SET expires_at = excluded.expires_at
      WHERE file_id = excluded.file_id RETURNING file_id`;
    return insert(this.sql, 'idempotency', row, own) === undefined ? takenOver() : undefined;
  }

  /**
   * Guesses when to ask again for a claim that runs out at a time. Most requests whose client has
   * left end within a second, so the first guess is short; each one after it is as long as nothing
   * was heard of the request, but never longer than the claim.
   */
  #guessSeconds(expiresAt: number): number {
    const leftMs = expiresAt - this.context.now();
    const silentMs = this.context.leaseMs() - leftMs;
    return Math.max(1, Math.ceil(Math.min(leftMs, Math.max(firstGuessMs, silentMs)) / 1000));
  }
}

function takenOver(): Failure {
  const detail = 'another request with this Idempotency-Key has taken the upload over';
  return err('idempotency_running', detail, firstGuessMs / 1000);
}

/**
 * Compares fingerprints. HTTP stacks may send a length once and chunks the next time: it counts
 * where both requests have one.
 */
function isSameRequest(one: string, other: string): boolean {
  const [first = '', firstLength = ''] = one.split('.');
  const [second = '', secondLength = ''] = other.split('.');
  return first === second && (firstLength === '' || secondLength === '' || firstLength === secondLength);
}
