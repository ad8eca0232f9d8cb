/** Access to an account: each operation runs for the holder of a valid API key with the scope that it needs. */
import type { Scope } from '../../../shared/api.ts';
import type { Authorized } from './keys/account-keys.ts';
import type { AccountRow } from './account-row.ts';
import type { AccountSettings } from './account-settings.ts';
import type { KeyMaterial, KeyRegistry } from './keys/key-registry.ts';
import { err, type Result } from '../result.ts';

type AccessOptions = {
  row: AccountRow;
  registry: KeyRegistry;
  settings: AccountSettings;
  /** Lists an account from before there was a list. */
  listAccount(): void;
  /** Runs for each request of a key that may store. */
  wroteBy(keyId: string): void;
  now(): number;
};

/** The callers of one account. */
export class AccountAccess {
  readonly #o: AccessOptions;
  #isListed: boolean;

  constructor(options: AccessOptions) {
    this.#o = options;
    this.#isListed = options.row.open === undefined || options.settings.isListed;
  }

  /** Finds the key with a hash. @returns unauthorized, insufficient_scope, account_disabled where it may not be used */
  authorize(hash: string, scope: Scope | undefined): Result<Authorized> {
    const account = this.#o.row.open;
    if (account === undefined) return err('unauthorized');
    const found = this.#o.registry.authorize(hash, scope, this.#o.now());
    if (!found.ok) return found;
    if (this.#o.settings.get().disabled) return err('account_disabled');
    if (!this.#isListed) {
      this.#isListed = true;
      this.#o.listAccount();
    }
    if (found.key.scopes.includes('write')) this.#o.wroteBy(found.key.id);
    return { ok: true, key: found.key, account };
  }

  /** Runs an operation for the caller with this key, if the key is valid and has the scope. */
  async as<T extends object>(
    hash: string,
    scope: Scope | undefined,
    operation: (caller: Authorized) => Result<T> | Promise<Result<T>>,
  ): Promise<Result<T>> {
    const caller = this.authorize(hash, scope);
    return caller.ok ? await operation(caller) : caller;
  }

  /** The caller's key, and the account's keys. @param withSealed also the private one, sealed to the caller's key */
  material({ key, account }: Authorized, withSealed: boolean): KeyMaterial {
    return { key, spki: account.spki, sealed: withSealed ? this.#o.registry.sealed(key.id) : null };
  }
}
