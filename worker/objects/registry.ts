/** The key registry of an account: it has the last word on what a key may do. */
import type { Scope } from '../../shared/api.ts';
import { refuse, type Answer } from '../answer.ts';

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
};

/** The registry in an object's storage. */
export function registry(sql: SqlStorage): Registry {
  return {
    authorize(hash, scope, nowMs) {
      const row = sql.exec<KeyRow>('SELECT * FROM api_key WHERE id = ?', keyIdOf(hash)).toArray()[0];
      // A row that is not there is compared, too, so that nothing is told by time.
      const same = sameText(row?.hash ?? hash.replaceAll(/./g, '0'), hash);
      const good = row !== undefined && same && row.revoked_at === null && (row.expires_at === null || row.expires_at > nowMs);
      if (!good) return refuse('unauthorized');
      const key = recordOf(row);
      if (scope !== undefined && !key.scopes.includes(scope)) return refuse('insufficient_scope', `this needs a key with the scope ${scope}`);
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

/** Compares two hashes of the same length in constant time. */
function sameText(one: string, other: string): boolean {
  const encoder = new TextEncoder();
  return one.length === other.length && crypto.subtle.timingSafeEqual(encoder.encode(one), encoder.encode(other));
}
