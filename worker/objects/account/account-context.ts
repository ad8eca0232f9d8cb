/** Parts of an account's object that its calls share: rows, clock, alarm, and who may call. */
import { equalBytes } from '../../../shared/streams/equal-bytes.ts';
import { Alarm, backoffMs, soonest } from '../alarm.ts';
import type { Removal } from '../pin/pin-steps.ts';
import { err, type Result } from '../result.ts';
import { WithContext } from '../with-context.ts';
import { AccountRow, type AccountRecord } from './account-row.ts';
import { AccountSettings } from './account-settings.ts';
import { send, type AccountEnv } from './delivery.ts';
import { EventRows } from './event-rows.ts';
import { FileRows } from './files/file-rows.ts';
import { ReceiptRows } from './files/receipt-rows.ts';
import { storing } from './keys/invitation.ts';
import { KeyRows, type KeyMaterial, type KeyRecord, type Needed, type NewKey } from './keys/key-rows.ts';
import { KeyUsage } from './keys/key-usage.ts';
import { RotationRows } from './keys/rotation-rows.ts';
import { writeEntries } from './kv-entries.ts';
import { Outbox, type Delivered, type Message } from './outbox.ts';
import { ShareRows } from './shares/share-rows.ts';
import { Claims } from './uploads/claims.ts';
import { PartRows } from './uploads/part-rows.ts';
import { UploadRows } from './uploads/upload-rows.ts';

/** A caller whose key is valid. */
export type Caller = { key: KeyRecord; account: AccountRecord };

/** Work that is done for a caller. */
export type Operation<T extends object> = (caller: Caller) => Result<T> | Promise<Result<T>>;

/** The object itself: its storage and bindings, and members that a subclass may replace. */
type Host = {
  storage: DurableObjectStorage;
  env: AccountEnv;
  /** The clock, in ms. */
  now(): number;
  /** Runs after headers, records or keys are overwritten, and before the result is returned. */
  erased(): Promise<void>;
  /** Duration of a claim, for tests. */
  leaseMs(): number;
};

/** The context of one object; its rows are there before the account is. */
export class AccountContext extends WithContext<Host> {
  readonly storage = this.context.storage;
  readonly sql = this.storage.sql;
  readonly env = this.context.env;
  readonly now = this.context.now;
  readonly erased = this.context.erased;
  readonly alarm = new Alarm(this.storage);
  readonly row = new AccountRow(this.sql);
  readonly settings = new AccountSettings(this.sql);
  readonly events = new EventRows(this.sql, this);
  readonly keys = new KeyRows(this.sql, this);
  readonly usage = new KeyUsage(this.sql, this);
  readonly rotation = new RotationRows(this.sql);
  readonly files = new FileRows(this.sql, this);
  readonly receipts = new ReceiptRows(this.sql);
  readonly outbox = new Outbox(this.sql, {
    send: (message, requestId) => this.#send(message, requestId),
    unreferred: (fileId, pins) => this.receipts.setPins(fileId, pins),
    now: this.now,
  });
  readonly shares = new ShareRows(this.sql, this);
  readonly uploads = new UploadRows(this.sql);
  readonly parts = new PartRows(this.sql, this);
  readonly claims = new Claims(this.sql, {
    isReady: (id) => this.files.find(id) !== undefined || this.uploads.isUnfinished(id),
    now: this.now,
    leaseMs: this.context.leaseMs,
  });
  /** End the attempts to finish uploads that run, by the ID of the upload. */
  readonly finishing = new Map<string, (reason: unknown) => void>();
  #isListed = false;

  transaction<T>(work: () => T): T {
    return this.storage.transactionSync(work);
  }

  /**
   * Finds the key with a hash.
   * @returns unauthorized, insufficient_scope, account_disabled where it may not be used
   */
  authorize(hash: string, scope: Needed): Result<Caller> {
    const account = this.row.open;
    if (account === undefined) return err('unauthorized');
    const found = this.keys.authorize(hash, scope);
    if (!found.ok) return found;
    if (this.settings.get().disabled) return err('account_disabled');
    if (storing.some((each) => found.key.scopes.includes(each)))
      this.files.provisional.postpone(found.key.id, this.now());
    return { ok: true, key: found.key, account };
  }

  /** Runs an operation for the caller with this key, if the key is valid and has the scope. */
  async as<T extends object>(hash: string, scope: Needed, operation: Operation<T>): Promise<Result<T>> {
    const caller = this.authorize(hash, scope);
    if (!caller.ok) return caller;
    const result = await operation(caller);
    if (!this.#isListed) await this.listAccount();
    return result;
  }

  /** Runs an operation that adds to the log, as `as`, if the key may add to it today. */
  async adding<T extends object>(hash: string, scope: Needed, operation: Operation<T>): Promise<Result<T>> {
    return await this.as(hash, scope, (caller) => this.events.refusal(caller.key.id) ?? operation(caller));
  }

  /**
   * The caller's key, and the account's keys.
   * @param withSealed also the private one, sealed to the caller's key
   */
  material({ key, account: { spki } }: Caller, withSealed: boolean): KeyMaterial {
    const sealed = withSealed ? this.keys.sealed(key.id) : null;
    const before = sealed && this.rotation.previous();
    const replaced = before && this.row.replaced;
    return { key, spki, sealed, previous: before && replaced && { spki: replaced, sealed: before } };
  }

  /**
   * Tells whether headers are sealed to this public key by now. Without one, as a Worker of an
   * earlier version asks, there must have been no other.
   */
  isCurrent(spki: Uint8Array | undefined): boolean {
    const current = this.row.open?.spki;
    if (current === undefined) return false;
    return spki === undefined ? this.row.replaced === null : equalBytes(spki, current);
  }

  /**
   * Enters an account that is not in the list yet, in a transaction with the message that does it,
   * which is sent at once.
   */
  async listAccount(): Promise<void> {
    const { open } = this.row;
    if (open === undefined) return;
    this.#isListed = true;
    if (this.settings.isListed) return;
    const message = this.transaction(() => {
      this.settings.markListed();
      return this.outbox.add({ op: 'enlist', target: open.id });
    });
    await this.deliver([message]);
  }

  async #send(message: Message, requestId: string): Promise<Result<Delivered>> {
    if (message.op === 'unrefer' || message.op === 'unshare')
      return await send(this.env, this.row.id, message, requestId);
    await writeEntries(this.env.API_KEYS, this, message);
    return { ok: true, status: 'unpinned', pins: [] };
  }

  /**
   * Adds a key, in a transaction of the caller's, who then delivers.
   * @returns the ID of the message that takes it to KV
   */
  addKey(key: NewKey): number {
    this.keys.add(key);
    return this.outbox.add({ op: 'remember', target: key.hash });
  }

  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  async deliver(ids: readonly number[]): Promise<Removal> {
    await this.alarm.by(this.now() + backoffMs(1));
    return await this.outbox.deliver(ids);
  }

  /** Rings the alarm for what is due in the outbox, and for the next file that expires. */
  async flushSoon(): Promise<void> {
    await this.alarm.by(soonest(this.outbox.nextDue(), this.files.nextExpiry()));
  }

  /** Returns the time of the next work, in ms. */
  nextDue(): number | undefined {
    const { files, receipts, parts, claims, uploads, shares, outbox, events, usage } = this;
    const rows = [files, receipts, parts, claims, uploads, shares, outbox, events, usage];
    return soonest(files.nextExpiry(), ...rows.map((each) => each.nextDue()));
  }
}
