/** The key registry of an account: it has the last word on what a key may do. */
import type { Scope } from '../../shared/api.ts';
import { refuse, type Answer, type Refusal } from './result.ts';

/** An API key as the registry knows it; times in ms. The key itself is nowhere. */
export type KeyRecord = {
  id: string;
  label: string;
  scopes: Scope[];
  createdAt: number;
  expiresAt: number | null;
  createdBy: string | null;
};

/** A key to be added: its record, its hash, and for a key with `read` the account's private key sealed to it. */
export type NewKey = KeyRecord & { hash: string; sealed: Uint8Array | null };

type KeyRow = {
  id: string;
  hash: string;
  label: string;
  scopes: string;
  created_at: number;
  expires_at: number | null;
  created_by: string | null;
  revoked_at: number | null;
  sealed: ArrayBuffer | null;
};

/** The id of a key, by which it is looked up: what stands before it in the hash says nothing about the rest. */
export function keyIdOf(hash: string): string {
  return hash.slice(0, 16);
}

export type Registry = {
  /** Whether a key is good at this time and has the scope, if one is asked for. The rest of the hash is compared in constant time. */
  authorize(hash: string, scope: Scope | undefined, nowMs: number): Answer<{ key: KeyRecord }>;
  /** The account's private key, sealed to this key; null for a key without `read`. */
  sealed(id: string): Uint8Array | null;
  add(key: NewKey): void;
  /** Keys that were not revoked, oldest first. */
  list(): KeyRecord[];
  /** A key that was not revoked and, with `cascade`, what descends from it, whoever stood between; none: there is no such key. */
  family(id: string, cascade: boolean): KeyRecord[];
  /** Revokes keys, overwriting what was sealed to them; their hashes. */
  revoke(ids: readonly string[], nowMs: number): string[];
};

/** `cascade`: descendants too. `destroy`: even where that locks the account out. `self`: even the caller's own key. */
export type RevokeOptions = { cascade: boolean; destroy: boolean; self: boolean };

/** 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can write. */
const lastMs = 253_402_300_799_999;

/**
 * Why a key may not make another one: its scopes and expiry have to be within its own, and the expiry has to be a time.
 * @returns undefined where it may
 */
export function beyond(maker: KeyRecord, made: Pick<KeyRecord, 'scopes' | 'expiresAt'>): Refusal | undefined {
  // A comparison with NaN is false, and SQLite stores NaN as NULL: a key without an end.
  if (made.expiresAt !== null && !(Number.isSafeInteger(made.expiresAt) && made.expiresAt <= lastMs))
    return refuse('invalid_request', 'expiresAt has to be a time until the year 9999');
  const lacking = made.scopes.filter((scope) => !maker.scopes.includes(scope));
  if (lacking.length > 0)
    return refuse('insufficient_scope', `the new key would have scopes that yours lacks: ${lacking.join(', ')}`);
  if (maker.expiresAt !== null && (made.expiresAt === null || made.expiresAt > maker.expiresAt)) {
    return refuse('forbidden', 'the new key would outlive yours');
  }
  return undefined;
}

/** What each of these scopes is needed for, for good: without it the account has lost something that no other key brings back. */
const lossOf = {
  read: 'without it nobody opens the encrypted files again',
  keys: 'without it nobody makes, lists or revokes keys of this account again',
} as const;

/**
 * Why keys are not to be revoked: none that is left has the scope `read`, or `keys`, for as long as one of them has. A key that
 * ends before they do is no replacement.
 * @param keys all that are not revoked @param ids of the keys to be revoked
 * @returns undefined where nothing is lost
 */
export function locksOut(keys: readonly KeyRecord[], ids: readonly string[], nowMs: number): string | undefined {
  const going = new Set(ids);
  for (const scope of ['read', 'keys'] as const) {
    const until = (of: (key: KeyRecord) => boolean): number =>
      keys.reduce(
        (last, key) => (key.scopes.includes(scope) && of(key) ? Math.max(last, key.expiresAt ?? Infinity) : last),
        nowMs,
      );
    if (until((key) => !going.has(key.id)) < until((key) => going.has(key.id)))
      return `this is the last key with ${scope} that lives as long: ${lossOf[scope]}. destroy=true allows it`;
  }
  return undefined;
}

/** The registry in an object's storage. */
export function registry(sql: SqlStorage): Registry {
  const live = (): KeyRow[] =>
    sql.exec<KeyRow>('SELECT * FROM api_key WHERE revoked_at IS NULL ORDER BY created_at, rowid').toArray();
  return {
    authorize(hash, scope, nowMs) {
      const row = sql.exec<KeyRow>('SELECT * FROM api_key WHERE id = ?', keyIdOf(hash)).toArray()[0];
      // A row that is not there is compared, too, so that nothing is told by time.
      const same = isSameHash(row?.hash ?? '0'.repeat(hash.length), hash);
      const good =
        row !== undefined && same && row.revoked_at === null && (row.expires_at === null || row.expires_at > nowMs);
      if (!good) return refuse('unauthorized');
      const key = recordOf(row);
      if (scope !== undefined && !key.scopes.includes(scope))
        return refuse('insufficient_scope', `this needs a key with the scope ${scope}`);
      return { ok: true, key };
    },
    sealed(id) {
      const row = sql.exec<{ sealed: ArrayBuffer | null }>('SELECT sealed FROM api_key WHERE id = ?', id).toArray()[0];
      const sealed = row?.sealed ?? null;
      return sealed === null ? null : new Uint8Array(sealed);
    },
    add(key) {
      sql.exec(
        'INSERT INTO api_key (id, hash, label, scopes, created_at, expires_at, created_by, sealed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
        key.id,
        key.hash,
        key.label,
        key.scopes.join(' '),
        key.createdAt,
        key.expiresAt,
        key.createdBy,
        key.sealed,
      );
    },
    list: () => live().map((row) => recordOf(row)),
    family(id, cascade) {
      const rows = sql.exec<KeyRow>(
        cascade
          ? `WITH RECURSIVE family(id) AS (SELECT ? UNION SELECT api_key.id FROM api_key JOIN family ON api_key.created_by = family.id)
             SELECT * FROM api_key WHERE id IN family`
          : 'SELECT * FROM api_key WHERE id = ?',
        id,
      );
      const found = rows.toArray().filter((row) => row.revoked_at === null);
      return found.some((row) => row.id === id) ? found.map((row) => recordOf(row)) : [];
    },
    revoke(ids, nowMs) {
      return ids.flatMap((id) => {
        // The page of the database is overwritten, not only given back.
        sql.exec('UPDATE api_key SET sealed = zeroblob(length(sealed)) WHERE id = ? AND sealed IS NOT NULL', id);
        const rows = sql.exec<{ hash: string }>(
          'UPDATE api_key SET sealed = NULL, revoked_at = ? WHERE id = ? RETURNING hash',
          nowMs,
          id,
        );
        return rows.toArray().map((row) => row.hash);
      });
    },
  };
}

function recordOf(row: KeyRow): KeyRecord {
  return {
    id: row.id,
    label: row.label,
    scopes: row.scopes.split(' ') as Scope[],
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    createdBy: row.created_by,
  };
}

/** Compares two hashes in constant time. */
export function isSameHash(one: string, other: string): boolean {
  const encoder = new TextEncoder();
  return one.length === other.length && crypto.subtle.timingSafeEqual(encoder.encode(one), encoder.encode(other));
}
