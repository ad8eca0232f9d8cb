/** The API keys of an account, as rows, which decide what a key may do. */
import type { Scope } from '../../../../shared/api.ts';
import { keyIdOf } from '../../../../shared/crypto/index.ts';
import { lastTimeMs } from '../../../../shared/time.ts';
import type { EventRows } from '../event-rows.ts';
import { covers, isInvitation } from './invitation.ts';
import { exceedsLimits, KeyLimits, limitsOf, type LimitColumns, type Limits } from './key-limits.ts';
import { recordOf, rowOf, type RecordOf } from '../../columns.ts';
import type { Outbox } from '../outbox.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { StorageRows } from '../../storage-rows.ts';
import { all, insert, list, overwrite, update } from '../../sql.ts';
import { hiddenKeyColumns, keyColumns } from '../tables.ts';

/** An API key as its account knows it; times in ms. The key itself is stored nowhere. */
export type KeyRecord = RecordOf<typeof keyColumns> & { limits?: Limits | undefined };

/**
 * Keys that open the account's encrypted files: the caller's key record, the account's public key,
 * and on demand the sealed private key. `previous`: while a rotation runs, the pair before, its
 * private key sealed to the current one.
 */
export type KeyMaterial = {
  key: KeyRecord;
  spki: Uint8Array;
  sealed: Uint8Array | null;
  previous: { spki: Uint8Array; sealed: Uint8Array } | null;
};

/**
 * A key to be added: its record, its hash, the public half of what it signs with, and for a key
 * with `read` the account's private key sealed to it.
 */
export type NewKey = KeyRecord & { hash: string; signer: Uint8Array; sealed: Uint8Array | null };

/** The scope that an operation asks for, or several of which one is enough. */
export type Needed = Scope | readonly Scope[] | undefined;

type StoredKey = RecordOf<typeof hiddenKeyColumns> & { key: KeyRecord };

const keys = 'SELECT * FROM api_key LEFT JOIN key_limit ON key_limit.key_id = api_key.id';

/**
 * `cascade`: descendants too. `destroy`: even where that locks the account out. `self`: even the
 * caller's own key.
 */
export type RevokeOptions = { cascade: boolean; destroy: boolean; self: boolean };

/**
 * Checks a new key against the key that issues it, whose scopes, expiry and limits it must not
 * exceed.
 * @returns undefined where it does not; `invalid_request` when the expiry is no time, or for scopes
 * that do not go together, `insufficient_scope`, `forbidden`
 */
export function exceedsIssuer(
  issuer: KeyRecord,
  issued: Pick<KeyRecord, 'scopes' | 'expiresAt' | 'limits'>,
): Failure | undefined {
  // A comparison with NaN is false, and SQLite stores NaN as NULL: a key without an end.
  if (issued.expiresAt !== null && !(Number.isSafeInteger(issued.expiresAt) && issued.expiresAt <= lastTimeMs))
    return err('invalid_request', 'expiresAt must be a time until the year 9999');
  if (isInvitation(issued) && issued.scopes.length > 1)
    return err('invalid_request', 'send is the only scope of a key that has it');
  const lacking = issued.scopes.filter((scope) => !covers(issuer, scope));
  if (lacking.length > 0)
    return err('insufficient_scope', `the new key would have scopes that yours lacks: ${lacking.join(', ')}`);
  if (issuer.expiresAt !== null && (issued.expiresAt === null || issued.expiresAt > issuer.expiresAt)) {
    return err('forbidden', 'the new key would outlive yours');
  }
  return exceedsLimits(issuer.limits, issued.limits);
}

/** Losses of an account with its last key of a scope. No other key brings it back. */
const lossOf = {
  read: 'without it nobody opens the encrypted files again',
  keys: 'without it nobody makes, lists or revokes keys of this account again',
} as const;

/**
 * Returns the loss with keys: the scope `read` or `keys`, if none of the keys that are left has it
 * for as long as one of these.
 * @param keys all that are not revoked
 * @param ids of the keys to be revoked
 * @returns undefined where nothing is lost
 */
function lockout(keys: readonly KeyRecord[], ids: readonly string[], nowMs: number): string | undefined {
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

/** The keys in an object's storage. */
export class KeyRows extends StorageRows<{ events: EventRows; outbox: Outbox; now(): number }> {
  /**
   * Finds the key with a hash, if it is valid at this time and has the scope, where one is asked
   * for.
   * @returns `unauthorized`, `insufficient_scope`
   */
  authorize(hash: string, needed: Needed): Result<{ key: KeyRecord }> {
    const [row] = this.#read('WHERE id = ?', keyIdOf(hash));
    // A hash that is not there is compared, too, so that the time reveals nothing.
    const same = isSameHash(row?.hash ?? '0'.repeat(hash.length), hash);
    if (row === undefined || !same || row.revokedAt !== null || this.#hasExpired(row.key)) return err('unauthorized');
    const scopes = [needed ?? []].flat();
    if (scopes.length > 0 && !scopes.some((scope) => row.key.scopes.includes(scope)))
      return err('insufficient_scope', `this needs a key with the scope ${scopes[0]}`);
    return { ok: true, key: row.key };
  }

  /** Returns what signatures of a key are checked with; undefined for none, or a revoked one. */
  signerOf(id: string): { hash: string; signer: Uint8Array | null } | undefined {
    const [row] = this.#read('WHERE id = ? AND revoked_at IS NULL', id);
    return row && { hash: row.hash, signer: row.signer };
  }

  /** Adds the public half of what a key signs with to the row of a key that is older than it. */
  setSigner(id: string, signer: Uint8Array): void {
    update(this.sql, 'api_key', { signer }, 'id = ? AND signer IS NULL', id);
  }

  /** The account's private key, sealed to this key; null for a key without `read`. */
  sealed(id: string): Uint8Array | null {
    return this.#read('WHERE id = ?', id)[0]?.sealed ?? null;
  }

  add(key: NewKey): void {
    insert(this.sql, 'api_key', { ...rowOf(keyColumns, key), ...rowOf(hiddenKeyColumns, key) });
    if (key.limits !== undefined) new KeyLimits(this.sql).add(key.id, key.limits);
    this.context.events.add({ action: 'key.created', by: key.createdBy, subject: key.id });
  }

  /** Finds the key with a hash, unless it is revoked. */
  findByHash(hash: string): KeyRecord | undefined {
    return this.#read('WHERE id = ? AND revoked_at IS NULL', keyIdOf(hash))[0]?.key;
  }

  /** Tells whether this key, revoked or not, is that of an invitation. */
  isInvitation(id: string): boolean {
    return this.#read('WHERE id = ?', id).some(({ key }) => isInvitation(key));
  }

  /** Tells whether this key is neither revoked nor expired. */
  isValid(id: string): boolean {
    return this.#read('WHERE id = ? AND revoked_at IS NULL', id).some(({ key }) => !this.#hasExpired(key));
  }

  /** The keys that are not revoked, oldest first. */
  list(): KeyRecord[] {
    return this.#read('WHERE revoked_at IS NULL ORDER BY created_at, api_key.rowid').map(({ key }) => key);
  }

  /**
   * The keys that a caller's request to revoke `id` covers.
   * @returns their IDs; `not_found`; `insufficient_scope` when one of them has a scope that the
   * caller lacks; `conflict` when an option is missing that allows it
   */
  revocable(caller: KeyRecord, id: string, options: RevokeOptions): Result<{ ids: string[] }> {
    const keys = this.#withDescendants(id, options.cascade);
    if (keys.length === 0) return err('not_found');
    if (keys.some((key) => key.scopes.some((scope) => !covers(caller, scope))))
      return err('insufficient_scope', 'a key among these has a scope that yours lacks');
    const ids = keys.map((key) => key.id);
    if (!options.self && ids.includes(caller.id))
      return err('conflict', 'this would revoke the key that the request is made with; self=true allows it');
    const loss = options.destroy ? undefined : lockout(this.list(), ids, this.context.now());
    return loss === undefined ? { ok: true, ids } : err('conflict', loss);
  }

  /**
   * The keys that end when a caller replaces the account's key pair: all others with `read`.
   * @returns their IDs; `insufficient_scope` when one of them has a scope that the caller lacks;
   * `conflict` when one of them lives longer than the caller's
   */
  superseded(caller: KeyRecord): Result<{ ids: string[] }> {
    const others = this.list().filter(({ id, scopes }) => id !== caller.id && scopes.includes('read'));
    const valid = others.filter((key) => !this.#hasExpired(key));
    if (valid.some(({ scopes }) => scopes.some((scope) => !caller.scopes.includes(scope))))
      return err('insufficient_scope', 'another key with read, which would be revoked, has a scope that yours lacks');
    const ids = others.map(({ id }) => id);
    if (lockout(this.list(), ids, this.context.now()) !== undefined)
      return err('conflict', 'a key that would be revoked lives longer than yours: use one that lives as long');
    return { ok: true, ids };
  }

  /** Seals another private key to a key, which overwrites the one before: it has the same size. */
  reseal(id: string, sealed: Uint8Array): void {
    update(this.sql, 'api_key', { sealed }, 'id = ?', id);
  }

  /**
   * Revokes keys, overwriting what was sealed to them.
   * @param by the ID of the key that revokes them; null: a recovery
   * @returns the IDs of the messages that remove them from KV
   */
  revoke(ids: readonly string[], by: string | null): number[] {
    const { events, outbox } = this.context;
    const nowMs = this.context.now();
    return ids.flatMap((id) => {
      events.add({ action: 'key.revoked', by, subject: id });
      overwrite(this.sql, 'api_key', 'sealed', 'id = ?', id);
      const statement = 'UPDATE api_key SET sealed = NULL, revoked_at = ? WHERE id = ? RETURNING hash';
      return list<string>(this.sql, statement, nowMs, id).map((hash) => outbox.add({ op: 'forget', target: hash }));
    });
  }

  /**
   * A key that is not revoked and, with `cascade`, those that descend from it, also from revoked
   * ones; none: there is no such key.
   */
  #withDescendants(id: string, cascade: boolean): KeyRecord[] {
    const family = `WITH RECURSIVE family(id) AS (SELECT ? UNION SELECT api_key.id FROM api_key
      JOIN family ON api_key.created_by = family.id)`;
    const rows = cascade ? this.#read('WHERE id IN family', id, family) : this.#read('WHERE id = ?', id);
    const found = rows.filter((row) => row.revokedAt === null);
    return found.some(({ key }) => key.id === id) ? found.map(({ key }) => key) : [];
  }

  #hasExpired({ expiresAt }: KeyRecord): boolean {
    return expiresAt !== null && expiresAt <= this.context.now();
  }

  #read(rest: string, id?: string, before = ''): StoredKey[] {
    const values = id === undefined ? [] : [id];
    return all<LimitColumns & Record<string, SqlStorageValue>>(this.sql, `${before} ${keys} ${rest}`, ...values).map(
      (row) => ({ ...recordOf(hiddenKeyColumns, row), key: { ...recordOf(keyColumns, row), limits: limitsOf(row) } }),
    );
  }
}

/** Compares two hashes in constant time. */
export function isSameHash(one: string, other: string): boolean {
  const encoder = new TextEncoder();
  return one.length === other.length && crypto.subtle.timingSafeEqual(encoder.encode(one), encoder.encode(other));
}
