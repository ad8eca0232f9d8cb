/** The API keys of an account, as the Worker calls them on the account's object. */
import { RpcTarget } from 'cloudflare:workers';
import type { Scope } from '../../../../shared/api.ts';
import type { Recovery } from './recovery-file.ts';
import type { AccountRecord, AccountRow, StoredRecovery } from '../account-row.ts';
import type { EndedShare, Shares } from '../shares/account-shares.ts';
import type { Events } from '../event-rows.ts';
import {
  exceedsIssuer,
  isSameHash,
  type KeyMaterial,
  type KeyRecord,
  type KeyRegistry,
  type NewKey,
  type RevokeOptions,
} from './key-registry.ts';
import { KeyUsage, type UsagePage, type Used } from './key-usage.ts';
import type { Outbox } from '../outbox.ts';
import type { Removal } from '../../pin/pin-steps.ts';
import { err, type Result } from '../../result.ts';
import type { ResumableUploads } from '../uploads/resumable-uploads.ts';

/** A caller whose key is valid. */
export type Authorized = { key: KeyRecord; account: AccountRecord };

type AccountKeysOptions = {
  storage: DurableObjectStorage;
  row: AccountRow;
  registry: KeyRegistry;
  outbox: Outbox;
  events: Events;
  uploads: ResumableUploads;
  shares: Shares;
  /** Finds the key with a hash, where it is valid and has the scope. */
  authorize(hash: string, scope: Scope | undefined): Result<Authorized>;
  /** Rings the alarm at that time (in ms) or before. */
  alarmBy(dueMs: number): Promise<void>;
  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  deliver(ids: readonly number[]): Promise<Removal>;
  /** Runs after sealed keys are overwritten. */
  erased(): Promise<void>;
  now(): number;
};

/** The keys of an account: what issues, lists and revokes them, the recovery that replaces them all, and what they use. */
export class Keys extends RpcTarget {
  readonly #o: AccountKeysOptions;
  readonly #usage: KeyUsage;

  constructor(options: AccountKeysOptions) {
    super();
    this.#o = options;
    this.#usage = new KeyUsage(options.storage.sql, options.now);
  }

  /** The key material of a caller who may issue keys. */
  async issuer(hash: string): Promise<Result<KeyMaterial>> {
    const { registry, authorize } = this.#o;
    const caller = authorize(hash, 'keys');
    if (!caller.ok) return caller;
    const { key, account } = caller;
    return { ok: true, key, spki: account.spki, sealed: registry.sealed(key.id) };
  }

  /** Adds a key within its issuer's scopes and expiry. */
  async add(hash: string, key: NewKey): Promise<Result> {
    const caller = this.#o.authorize(hash, 'keys');
    if (!caller.ok) return caller;
    const { storage, registry } = this.#o;
    const failure = exceedsIssuer(caller.key, key);
    if (failure !== undefined) return failure;
    storage.transactionSync(() => registry.add({ ...key, createdBy: caller.key.id }));
    return { ok: true };
  }

  /** Takes the public half of what the caller's key signs with, which keys of earlier versions lack. */
  async learnSigner(hash: string, signer: Uint8Array): Promise<Result> {
    const caller = this.#o.authorize(hash, undefined);
    if (!caller.ok) return caller;
    this.#o.registry.setSigner(caller.key.id, signer);
    return { ok: true };
  }

  /** The keys that are not revoked; `current` is the ID of the caller's. */
  async list(hash: string): Promise<Result<{ keys: KeyRecord[]; current: string }>> {
    const caller = this.#o.authorize(hash, 'keys');
    return caller.ok ? { ok: true, keys: this.#o.registry.list(), current: caller.key.id } : caller;
  }

  /** Revokes a key with its shares and unfinished uploads: here first, where it counts, then in KV. */
  async revoke(
    hash: string,
    id: string,
    o: RevokeOptions,
  ): Promise<Result<{ revoked: string[]; shares: EndedShare[] }>> {
    const { registry, authorize, now } = this.#o;
    const caller = authorize(hash, 'keys');
    if (!caller.ok) return caller;
    const revocable = registry.revocable(caller.key, id, o, now());
    if (!revocable.ok) return revocable;
    return { ok: true, revoked: revocable.ids, shares: await this.#revoke(revocable.ids, caller.key.id) };
  }

  /** The recovery file, and what a recovery is checked against. */
  async recovery(): Promise<Result<{ spki: Uint8Array; recovery: StoredRecovery }>> {
    const { open, recovery } = this.#opened();
    return open === undefined || recovery === undefined ? err('not_found') : { ok: true, spki: open.spki, recovery };
  }

  /**
   * Takes a new key from a caller who has shown the secret of the recovery file, replaces that file, and revokes all other keys,
   * in one transaction. The secret is compared again here: of two recoveries at once, one wins.
   */
  async recover(secretHash: string, next: Recovery, key: NewKey): Promise<Result<{ account: AccountRecord }>> {
    const { row, registry, events } = this.#o;
    const { open: account, recovery } = this.#opened();
    if (account === undefined || recovery === undefined) return err('not_found');
    const { secretHash: current } = recovery;
    if (current === null || !isSameHash(secretHash, current))
      return err('forbidden', 'the recovery file was replaced in the meantime');
    const others = registry.list().map((each) => each.id);
    await this.#revoke(others, null, () => {
      events.add({ action: 'account.recovered', by: null, subject: '' });
      row.replaceRecovery(next);
      registry.add(key);
    });
    return { ok: true, account };
  }

  /** A page of what keys have used by day, the newest first. */
  async usage(hash: string, o: { before: number | undefined; limit: number }): Promise<Result<UsagePage>> {
    const caller = this.#o.authorize(hash, 'read');
    return caller.ok ? { ok: true, ...this.#usage.page(o) } : caller;
  }

  /** Adds to what keys have used today. @param used by the IDs of keys, which need not exist */
  async addUsage(used: ReadonlyMap<string, Used>): Promise<Result> {
    const { row, storage, alarmBy } = this.#o;
    if (row.open === undefined) return { ok: true };
    storage.transactionSync(() => this.#usage.add(used));
    const due = this.#usage.nextDue();
    if (due !== undefined) await alarmBy(due);
    return { ok: true };
  }

  /** Forgets what keys used too long ago to be kept. */
  sweep(): void {
    this.#usage.prune();
  }

  /** Forgets what keys used, in the transaction of the caller's that deletes the account. */
  forgetUsage(): void {
    this.#usage.removeAll();
  }

  /** Returns the time at which the alarm must look at what keys have used, in ms. */
  nextDue(): number | undefined {
    return this.#usage.nextDue();
  }

  #opened(): { open: AccountRecord | undefined; recovery: StoredRecovery | undefined } {
    const { row } = this.#o;
    return { open: row.open, recovery: row.open && row.recovery() };
  }

  /** Revokes keys, in one transaction with what must happen at the same moment. */
  async #revoke(ids: readonly string[], by: string | null, besides?: () => void): Promise<EndedShare[]> {
    const { storage, registry, outbox, uploads, shares, deliver, erased, now } = this.#o;
    const { ending, messages } = storage.transactionSync(() => {
      besides?.();
      uploads.removeOf(ids);
      return { ending: shares.endOfKeys(ids, by), messages: registry.revoke(ids, by, outbox, now()) };
    });
    const ended = await shares.deliver(ending);
    await deliver(messages);
    await erased();
    return ended;
  }
}
