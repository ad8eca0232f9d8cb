/**
 * Account: one object an account. It owns the files and the API keys, and decides on both. It
 * authorizes each request in the call that also does the work, and to callers without a valid key
 * it does not reveal whether the account exists.
 */
import { DurableObject } from 'cloudflare:workers';
import type { RemovedPin } from '../../../shared/api.ts';
import { backoffMs, everyStep } from '../alarm.ts';
import { err, type Result } from '../result.ts';
import type { Opening } from '../share/openings.ts';
import { AccountContext } from './account-context.ts';
import type { AccountRecord, Recovery } from './account-row.ts';
import { isRestoring } from './backup/account-backup.ts';
import { AdministrationCalls, noAccount } from './calls/administration-calls.ts';
import { FileCalls } from './calls/file-calls.ts';
import { KeyCalls } from './calls/key-calls.ts';
import { PendingCalls, pendingMs } from './calls/pending-calls.ts';
import { RotationCalls } from './calls/rotation-calls.ts';
import { ShareCalls } from './calls/share-calls.ts';
import { SignedCalls } from './calls/signed-calls.ts';
import { UploadCalls } from './calls/upload-calls.ts';
import { removeUploads } from './calls/upload-finisher.ts';
import type { AccountEnv } from './delivery.ts';
import { eventRetentionMs, watching, type EventPage } from './event-rows.ts';
import type { KeyMaterial, Needed, NewKey } from './keys/key-rows.ts';
import { claimLeaseMs } from './uploads/claims.ts';

/** Tables of an account that are emptied when it is deleted, and nothing more. */
const emptied = ['receipt', 'idempotency', 'signed_use', 'event', 'event_removed', 'key_usage', 'upload', 'shown'];

/** The object of one account. */
export class Account extends DurableObject<AccountEnv> {
  protected readonly context = new AccountContext({
    storage: this.ctx.storage,
    env: this.env,
    now: () => this.now(),
    erased: () => this.erased(),
    leaseMs: () => this.leaseMs,
  });
  readonly #administration = new AdministrationCalls(this.context);
  readonly #files = new FileCalls(this.context);
  readonly #keys = new KeyCalls(this.context);
  readonly #pending = new PendingCalls(this.context);
  readonly #rotation = new RotationCalls(this.context);
  readonly #shares = new ShareCalls(this.context);
  readonly #signed = new SignedCalls(this.context);
  readonly #uploads = new UploadCalls(this.context);
  /** Duration of a claim, for tests. */
  protected leaseMs = claimLeaseMs;

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /**
   * Runs after headers or sealed keys are overwritten and before the result is returned. On
   * Cloudflare there is nothing to do; a runtime that keeps old pages of its database in files
   * overrides it.
   */
  protected async erased(): Promise<void> {}

  // The calls of each subject, which RPC reaches by getters only.

  get administration(): AdministrationCalls {
    return this.#administration;
  }

  get files(): FileCalls {
    return this.#files;
  }

  get keys(): KeyCalls {
    return this.#keys;
  }

  get pending(): PendingCalls {
    return this.#pending;
  }

  get rotation(): RotationCalls {
    return this.#rotation;
  }

  get shares(): ShareCalls {
    return this.#shares;
  }

  get signed(): SignedCalls {
    return this.#signed;
  }

  get uploads(): UploadCalls {
    return this.#uploads;
  }

  /** Creates the account with its first key. @param quotaBytes null: no quota */
  async create(
    account: AccountRecord,
    recovery: Recovery | null,
    key: NewKey,
    quotaBytes: number | null,
  ): Promise<Result> {
    const { row, settings, alarm } = this.context;
    if (row.id !== undefined) return err('conflict', 'the account exists');
    const message = this.context.transaction(() => {
      row.create(account);
      if (recovery !== null) row.replaceRecovery(recovery);
      settings.set({ ...settings.get(), quotaBytes });
      return this.context.addKey(key);
    });
    row.reload();
    await this.context.listAccount();
    await this.context.deliver([message]);
    await alarm.by(this.now() + eventRetentionMs);
    return { ok: true };
  }

  /** The key material of a caller who has a scope, before a body is read. */
  caller(hash: string, scope: Needed): Promise<Result<KeyMaterial>> {
    return this.context.as(hash, scope, (caller) => ({ ok: true, ...this.context.material(caller, true) }));
  }

  /**
   * The account, what it uses, and the caller's key material. `canSign`: the public half of what
   * the key signs with is known. `allowance`: what its limits and the quota leave for it.
   * `remaining`: of a rotation that runs.
   */
  about(hash: string) {
    const { keys, files, row, settings, rotation } = this.context;
    return this.context.as(hash, undefined, (caller) => ({
      ok: true,
      ...this.context.material(caller, true),
      canSign: keys.signerOf(caller.key.id)?.signer !== null,
      allowance: files.allowance(caller.key.id),
      account: caller.account,
      usage: row.usage(),
      settings: settings.get(),
      remaining: rotation.remaining(),
    }));
  }

  /**
   * Deletes the account with all its files and keys, in one transaction; the outbox then delivers
   * the consequences.
   */
  async close(requestId: string): Promise<Result<{ files: number; keys: number; shares: number }>> {
    const { sql, row, files, shares, parts, keys, rotation, outbox, alarm } = this.context;
    if (row.open === undefined) return noAccount();
    const { id } = row.open;
    const now = this.now();
    const removed = this.context.transaction(() => {
      // Before the files: the pin of one that is being finished may be on its way.
      removeUploads(this.context);
      const ids = keys.list().map((key) => key.id);
      const counts = {
        files: files.removeAll(isRestoring(sql) ? now + pendingMs : now, requestId),
        keys: ids.length,
        shares: shares.endOfKeys(undefined, { by: null }).length,
      };
      rotation.end();
      parts.removeAll();
      keys.revoke(ids, null);
      outbox.add({ op: 'delist', target: id });
      for (const table of emptied) sql.exec(`DELETE FROM ${table}`);
      row.close(now);
      return counts;
    });
    row.reload();
    await alarm.by(now);
    await this.erased();
    return { ok: true, ...removed };
  }

  /** Events after a position, oldest first. */
  events(hash: string, page: { after: number | undefined; limit: number }): Promise<Result<EventPage>> {
    return this.context.as(hash, watching, ({ key }) => this.context.events.page(key, page));
  }

  /** Records what `Pin` reports of the pins of a deleted file. */
  async unreferred(fileId: string, pins: readonly RemovedPin[]): Promise<Result> {
    const { row, receipts } = this.context;
    if (row.open !== undefined) receipts.setPins(fileId, pins);
    return { ok: true };
  }

  /** Records openings and changes that a share reports. */
  async shareOpened(share: string, openings: readonly Opening[]): Promise<Result> {
    const { row, alarm } = this.context;
    if (row.open === undefined) return { ok: true };
    await this.#shares.report(share, openings);
    await alarm.by(this.now() + eventRetentionMs);
    return { ok: true };
  }

  /** Does what is due; of an account that is being restored, only what it owes others. */
  override async alarm(): Promise<void> {
    const { row, shares, events, usage, outbox, alarm } = this.context;
    if (row.id === undefined) return;
    const sweeps = [
      () => this.#files.sweep(),
      () => this.#pending.sweep(),
      () => this.#uploads.sweep(),
      () => this.context.transaction(() => shares.sweep()),
      () => this.context.transaction(() => events.prune()),
      () => usage.prune(),
    ];
    const isDone = await everyStep('account.alarm', [
      ...(this.#isPartial ? [] : sweeps),
      () => outbox.flush(),
      () => this.#rest(),
    ]);
    if (!isDone) await alarm.reset(this.now() + backoffMs(1));
  }

  /** Tells whether rows may be missing that a backup still brings. */
  get #isPartial(): boolean {
    const { sql, row } = this.context;
    return row.open !== undefined && isRestoring(sql);
  }

  /** Sets the alarm; removes the tables of a deleted account whose outbox is empty. */
  async #rest(): Promise<void> {
    const due = this.#isPartial ? this.context.outbox.nextDue() : this.context.nextDue();
    const isOver = due === undefined && this.context.row.open === undefined;
    await this.context.alarm.reset(due);
    if (!isOver) return;
    await this.ctx.storage.deleteAll();
    this.context.row.reload();
  }
}
