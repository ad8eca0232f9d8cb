/**
 * Account: one object an account. It owns the files and the API keys, and decides on both. It authorizes each request in the call
 * that also does the work, and to callers without a valid key it does not reveal whether the account exists.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Scope } from '../../../shared/api.ts';
import type { Recovery } from './keys/recovery-file.ts';
import { errorText, log } from '../../log.ts';
import { AccountAccess } from './account-access.ts';
import { AccountFiles } from './files/account-files.ts';
import { Keys } from './keys/account-keys.ts';
import { AccountSettings, defaultSettings, type Settings } from './account-settings.ts';
import { AccountRow, type AccountRecord, type Usage } from './account-row.ts';
import { Administration, noAccount } from './administration.ts';
import { Alarm, backoffMs } from '../alarm.ts';
import { Claims, type Claim } from './uploads/claims.ts';
import { Files, type FileRecord, type NewFile } from './files/file-rows.ts';
import type { Allowance } from './keys/key-limits.ts';
import { KeyRegistry, type KeyMaterial, type NewKey } from './keys/key-registry.ts';
import { addReference, removingAt, send, type AccountEnv } from './delivery.ts';
import { Events, eventRetentionMs, type EventPage } from './event-rows.ts';
import type { Opening } from '../share/openings.ts';
import { Outbox } from './outbox.ts';
import { Parts, type NewPart } from './uploads/parts.ts';
import { resumedIntake } from './uploads/resumed-intake.ts';
import { PendingUploads, pendingMs, type UploadTerms } from './uploads/pending-uploads.ts';
import type { PinPlan } from '../pin/pin-ownership.ts';
import type { RemovedPin } from '../pin/backend-pin.ts';
import type { Removal } from '../pin/pin-steps.ts';
import { err, type Result } from '../result.ts';
import { Receipts } from './files/receipt-rows.ts';
import { ResumableUploads } from './uploads/resumable-uploads.ts';
import { Shares } from './shares/account-shares.ts';
import { SignedRequests } from './signed/signed-requests.ts';
import { SignedUses } from './signed/signed-uses.ts';

export type { AccountRecord } from './account-row.ts';
export type { KeyMaterial } from './keys/key-registry.ts';

/**
 * `first`: the file of the first request, if this is a second one. `renewMs`: how often to renew the claim. `room`: what the limits
 * of the key and the quota leave for the file.
 */
type BegunUpload = KeyMaterial & { first: FileRecord | undefined; renewMs: number; room: Allowance | undefined };

/** An account for one of its keys. `canSign`: the public half of what the key signs with is known. `room`: what its limits and the quota leave for it. */
type AboutAccount = KeyMaterial & {
  canSign: boolean;
  account: AccountRecord;
  usage: Usage;
  settings: Settings;
  room: Allowance;
};

/** The object of one account. */
export class Account extends DurableObject<AccountEnv> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = new Alarm(this.ctx.storage);
  readonly #row = new AccountRow(this.#sql);
  readonly #settings = new AccountSettings(this.#sql);
  readonly #events = new Events(this.#sql, () => this.now());
  readonly #registry = new KeyRegistry(this.#sql, this.#events);
  readonly #files = new Files(this.#sql, this.#events, () => this.now());
  readonly #access = new AccountAccess({
    row: this.#row,
    registry: this.#registry,
    settings: this.#settings,
    listAccount: () => this.ctx.waitUntil(this.#administration.listAccount()),
    wroteBy: (keyId) => this.#files.provisional.postpone(keyId, this.now()),
    now: () => this.now(),
  });
  readonly #receipts = new Receipts(this.#sql);
  readonly #outbox = new Outbox(this.#sql, {
    send: (message, requestId) => send(this.env, this.#row.id, message, requestId),
    unreferred: (fileId, pins) => this.#receipts.setPins(fileId, pins),
    now: () => this.now(),
  });
  readonly #claims = new Claims(this.#sql, {
    isReady: (fileId) => this.#files.find(fileId) !== undefined || this.#resumable.exists(fileId),
    now: () => this.now(),
    leaseMs: () => this.leaseMs,
  });
  readonly #parts = new Parts(this.#sql, this.#outbox);
  readonly #stores = {
    storage: this.ctx.storage,
    files: this.#files,
    parts: this.#parts,
    claims: this.#claims,
    outbox: this.#outbox,
    events: this.#events,
    account: () => this.#row.open?.id,
    authorize: (hash: string, scope: Scope) => this.#access.authorize(hash, scope),
    alarmBy: (dueMs: number) => this.#alarm.by(dueMs),
    deliver: (ids: readonly number[]) => this.#deliver(ids),
    erased: () => this.erased(),
    now: () => this.now(),
    env: this.env,
  };
  readonly #uploads = new PendingUploads(this.#stores);
  readonly #resumable = new ResumableUploads({
    ...this.#stores,
    authorize: (hash, scope) => this.#access.authorize(hash, scope),
    intake: ({ uploadId, service }, requestId) =>
      resumedIntake(this.env, service, { account: this.#row.open?.id ?? '', uploadId, parts: this.#parts, requestId }),
    addReference: (reference) => addReference(this.env, reference),
    flushSoon: () => this.#flushSoon(),
  });
  readonly #shares = new Shares({
    ...this.#stores,
    authorize: (hash) => this.#access.authorize(hash, 'share'),
  });
  readonly #signed = new SignedRequests({
    ...this.#stores,
    uses: new SignedUses(this.#sql),
    signerOf: (keyId) => this.#row.open && this.#registry.signerOf(keyId),
  });
  readonly #keys = new Keys({
    ...this.#stores,
    row: this.#row,
    registry: this.#registry,
    uploads: this.#resumable,
    shares: this.#shares,
  });
  readonly #accountFiles = new AccountFiles({
    ...this.#stores,
    shares: this.#shares,
    receipts: this.#receipts,
    sealedFor: (keyId) => this.#registry.sealed(keyId),
    removingAt: () => removingAt(this.env),
  });
  readonly #administration = new Administration({
    ...this.#stores,
    row: this.#row,
    settings: this.#settings,
    nextDue: () => this.#nextDue(),
    flushSoon: () => this.#flushSoon(),
  });
  /** Duration of a claim, for tests. */
  protected leaseMs: number | undefined;

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /**
   * Runs after headers or sealed keys are overwritten and before the result is returned. On Cloudflare there is nothing to do; a
   * runtime that keeps old pages of its database in files overrides it.
   */
  protected async erased(): Promise<void> {}

  /** Uploads that may be continued, with calls of their own. */
  get uploads(): ResumableUploads {
    return this.#resumable;
  }

  /** Requests with a signed URL, with calls of their own. */
  get signed(): SignedRequests {
    return this.#signed;
  }

  /** Files that are stored, with calls of their own. */
  get files(): AccountFiles {
    return this.#accountFiles;
  }

  /** Shares, with calls of their own. */
  get shares(): Shares {
    return this.#shares;
  }

  /** API keys, with calls of their own. */
  get keys(): Keys {
    return this.#keys;
  }

  /** Calls of the operator. */
  get administration(): Administration {
    return this.#administration;
  }

  /** Creates the account with its first key. @param quotaBytes null: no quota */
  async create(
    account: AccountRecord,
    recovery: Recovery | null,
    key: NewKey,
    quotaBytes: number | null,
  ): Promise<Result> {
    if (this.#row.id !== undefined) return err('conflict', 'the account exists');
    this.ctx.storage.transactionSync(() => {
      this.#row.create(account);
      if (recovery !== null) this.#row.replaceRecovery(recovery);
      this.#registry.add(key);
      this.#settings.set({ ...defaultSettings, quotaBytes });
    });
    this.#row.reload();
    await this.#administration.listAccount();
    await this.#alarm.by(this.now() + eventRetentionMs);
    return { ok: true };
  }

  /** The account, what it uses, and the caller's key material. `canSign`: the public half of what the key signs with is known. */
  about(hash: string): Promise<Result<AboutAccount>> {
    return this.#access.as(hash, undefined, (caller) => ({
      ok: true,
      ...this.#access.material(caller, true),
      canSign: this.#registry.signerOf(caller.key.id)?.signer !== null,
      room: this.#files.allowance(caller.key.id),
      account: caller.account,
      usage: this.#row.usage(),
      settings: this.#settings.get(),
    }));
  }

  /** Deletes the account with all its files and keys, in one transaction; the outbox then delivers the consequences. */
  async close(requestId: string): Promise<Result<{ files: number; keys: number; shares: number }>> {
    if (this.#row.open === undefined) return noAccount();
    const { id } = this.#row.open;
    const now = this.now();
    const removed = this.ctx.storage.transactionSync(() => {
      const files = this.#files.removeAll(now, requestId);
      const shares = this.#shares.endOfKeys(undefined, null).length;
      this.#resumable.removeOf(undefined);
      this.#parts.removeAll();
      const keys = this.#registry.list().map((key) => key.id);
      this.#registry.revoke(keys, null, this.#outbox, now);
      this.#receipts.removeAll();
      this.#claims.dropAll();
      this.#outbox.add({ op: 'delist', target: id });
      this.#events.removeAll();
      this.#keys.forgetUsage();
      this.#row.close(now);
      return { files, keys: keys.length, shares };
    });
    this.#row.reload();
    await this.#alarm.by(now);
    await this.erased();
    return { ok: true, ...removed };
  }

  /** Lets an upload begin, and takes its claim. @param bytes of the body, where they are known */
  beginUpload(hash: string, fileId: string, claim: Claim | undefined, bytes = 0): Promise<Result<BegunUpload>> {
    return this.#access.as(hash, 'write', async (caller) => {
      const begun = this.#uploads.begin(claim, fileId, caller.key.id, bytes);
      if (!begun.ok) return begun;
      if (claim !== undefined) await this.#alarm.by(this.now() + pendingMs);
      const material = this.#access.material(caller, begun.first?.mode === 'encrypted');
      return { ...begun, ...material, renewMs: this.#claims.renewMs() };
    });
  }

  /** Renews the claim of an upload that is running. */
  renewClaim(hash: string, fileId: string, claim: Claim): Promise<Result> {
    return this.#access.as(hash, 'write', () => this.#claims.renew(claim, fileId) ?? { ok: true });
  }

  /** Gives up the claim and the parts of an upload that has ended, unless its file is stored. */
  async abandon(fileId: string): Promise<Result> {
    if (this.#row.open === undefined) return { ok: true };
    this.#uploads.abandon(fileId);
    await this.#flushSoon();
    return { ok: true };
  }

  /** Writes the row of a part, then the reference, before the part is pinned. */
  intendPart(hash: string, part: NewPart): Promise<Result<PinPlan>> {
    return this.#access.as(hash, 'write', async ({ account }) => {
      const now = this.now();
      this.#uploads.intendPart(part, now);
      await this.#alarm.by(now + pendingMs);
      const result = await addReference(this.env, { ...part, fileId: part.id, account: account.id, isPart: true });
      if (!result.ok) await this.withdrawPart(part.id);
      return result;
    });
  }

  /** Releases a part that is known not to be pinned. */
  async withdrawPart(id: string): Promise<Result> {
    if (this.#row.open === undefined) return { ok: true };
    this.#uploads.withdrawPart(id);
    await this.#flushSoon();
    return { ok: true };
  }

  /** Records that a part is pinned. It then stays for an hour, and longer with each part that follows. */
  commitPart(hash: string, part: Pick<NewPart, 'id' | 'uploadId'>): Promise<Result> {
    return this.#access.as(hash, 'write', () => this.#uploads.commitPart(part) ?? { ok: true });
  }

  /** Writes the pending row, then the reference, before the file is pinned: from here on, they say what to undo. */
  prepare(hash: string, file: NewFile, terms: UploadTerms): Promise<Result<PinPlan & { createdAt: number }>> {
    return this.#access.as(hash, 'write', async ({ key, account: { id: account } }) => {
      const createdAt = this.now();
      const { cid, service, fileId } = file;
      const taken = this.#uploads.add(file, key.id, terms, createdAt);
      if (taken !== undefined) return taken;
      await this.#alarm.by(createdAt + pendingMs);
      const result = await addReference(this.env, { cid, service, fileId, account, requestId: terms.requestId });
      if (result.ok) return { ...result, createdAt };
      await this.abort(fileId, terms.requestId);
      return result;
    });
  }

  /**
   * Makes a file ready, after the service holds its bytes. An upload whose claim another request has taken over is
   * undone.
   */
  async commit(fileId: string, by: string, terms: UploadTerms): Promise<Result> {
    if (this.#row.open === undefined) return err('pinning_timeout', 'the upload timed out');
    const failure = this.#uploads.commit(fileId, by, terms);
    if (failure !== undefined) await this.abort(fileId, terms.requestId);
    else await this.#flushSoon();
    return failure ?? { ok: true };
  }

  /** Undoes a pending upload that is known to have failed. Where the service may still be about to pin it, the sweep does. */
  async abort(fileId: string, requestId: string): Promise<Result> {
    if (this.#row.open !== undefined) await this.#deliver(this.#uploads.abort(fileId, requestId));
    return { ok: true };
  }

  /** The caller's own sealed copy of the account's private key. */
  sealed(hash: string): Promise<Result<{ sealed: Uint8Array | null }>> {
    return this.#access.as(hash, 'read', ({ key }) => ({ ok: true, sealed: this.#registry.sealed(key.id) }));
  }

  /** Events after a position, oldest first. */
  events(hash: string, o: { after: number | undefined; limit: number }): Promise<Result<EventPage>> {
    return this.#access.as(hash, undefined, ({ key }) => this.#events.page(key, o));
  }

  /** Records what `Pin` reports of the pins of a deleted file. */
  async unreferred(fileId: string, pins: readonly RemovedPin[]): Promise<Result> {
    if (this.#row.open !== undefined) this.#receipts.setPins(fileId, pins);
    return { ok: true };
  }

  /** Records openings that a share reports. */
  async shareOpened(share: string, openings: readonly Opening[]): Promise<Result> {
    if (this.#row.open === undefined) return { ok: true };
    this.ctx.storage.transactionSync(() => this.#events.reportOpenings(share, openings));
    await this.#alarm.by(this.now() + eventRetentionMs);
    return { ok: true };
  }

  /** Aborts pending uploads whose time is up, and delivers what is left in the outbox. */
  override async alarm(): Promise<void> {
    if (this.#row.id === undefined) return;
    try {
      await this.#accountFiles.sweep();
      this.#uploads.sweep();
      await this.#resumable.sweep();
      this.#shares.sweep();
      this.#events.prune();
      this.#keys.sweep();
      await this.#outbox.flush();
      const due = this.#nextDue();
      if (due === undefined && this.#row.open === undefined) return await this.#purge();
      await this.#alarm.reset(due);
    } catch (error) {
      log({ event: 'account.alarm', error: errorText(error) });
      await this.#alarm.reset(this.now() + backoffMs(1));
    }
  }

  /** Returns the time of the next work, in ms. */
  #nextDue(): number | undefined {
    const sources = [
      this.#accountFiles,
      this.#uploads,
      this.#resumable,
      this.#shares,
      this.#outbox,
      this.#events,
      this.#keys,
    ];
    const due = sources.map((each) => each.nextDue()).filter((each) => each !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  /** Removes the tables of a deleted account, when its outbox is empty. */
  async #purge(): Promise<void> {
    await this.#alarm.reset(undefined);
    await this.ctx.storage.deleteAll();
    this.#row.reload();
  }

  /** Rings the alarm for what is due in the outbox, and for the next file that expires. */
  async #flushSoon(): Promise<void> {
    for (const due of [this.#outbox.nextDue(), this.#files.nextExpiry()])
      if (due !== undefined) await this.#alarm.by(due);
  }

  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  async #deliver(ids: readonly number[]): Promise<Removal> {
    await this.#alarm.by(this.now() + backoffMs(1));
    return await this.#outbox.deliver(ids);
  }
}
