/** Signed URLs that were used and may be used once: remembered until they expire. */

/** A signed URL: the ID of its API key, its own name, and when it expires, in ms. */
export type SignedUse = { apiKey: string; name: string; expiresAt: number };

/** The uses in an object's storage. */
export class SignedUses {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Records a use, in a transaction of the caller's. @returns whether it is the first one */
  add({ apiKey, name, expiresAt }: SignedUse): boolean {
    return (
      this.#sql
        .exec(
          'INSERT INTO signed_use (api_key, name, expires_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING name',
          apiKey,
          name,
          expiresAt,
        )
        .toArray().length > 0
    );
  }

  has({ apiKey, name }: Pick<SignedUse, 'apiKey' | 'name'>): boolean {
    const rows = this.#sql.exec('SELECT 1 FROM signed_use WHERE api_key = ? AND name = ?', apiKey, name);
    return rows.toArray().length > 0;
  }

  /** Forgets those of URLs that have expired. */
  expire(nowMs: number): void {
    this.#sql.exec('DELETE FROM signed_use WHERE expires_at <= ?', nowMs);
  }

  /** Returns the time at which the next URL expires, in ms. */
  nextDue(): number | undefined {
    return (
      this.#sql.exec<{ due: number | null }>('SELECT min(expires_at) AS due FROM signed_use').one().due ?? undefined
    );
  }
}
