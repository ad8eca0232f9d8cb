/** Signed URLs that were used and may be used once: remembered until they expire. */
import { StorageRows } from '../../storage-rows.ts';
import { exists, insert, least } from '../../sql.ts';

/** A signed URL: the ID of its API key, its own name, and when it expires, in ms. */
export type SignedUse = { apiKey: string; name: string; expiresAt: number };

/** The uses in an object's storage. */
export class SignedUses extends StorageRows {
  /** Records a use, in a transaction of the caller's. @returns whether it is the first one */
  add({ apiKey, name, expiresAt }: SignedUse): boolean {
    const row = { api_key: apiKey, name, expires_at: expiresAt };
    return insert(this.sql, 'signed_use', row, 'ON CONFLICT DO NOTHING RETURNING name') !== undefined;
  }

  has({ apiKey, name }: Pick<SignedUse, 'apiKey' | 'name'>): boolean {
    return exists(this.sql, 'signed_use WHERE api_key = ? AND name = ?', apiKey, name);
  }

  /** Forgets those of URLs that have expired. */
  expire(nowMs: number): void {
    this.sql.exec('DELETE FROM signed_use WHERE expires_at <= ?', nowMs);
  }

  /** Returns the time at which the next URL expires, in ms. */
  nextDue(): number | undefined {
    return least(this.sql, 'expires_at', 'signed_use');
  }
}
