/**
 * Account: one object an account. It owns the files and the API keys, and decides on both. It authorizes each request in the call
 * that also does the work, and to callers without a valid key it does not reveal whether the account exists.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Scope } from '../../shared/api.ts';
import type { Recovery } from '../auth/recovery-file.ts';
import { errorText, log } from '../log.ts';
import { serviceOf } from '../pinning/configured.ts';
import { AccountRow, type AccountRecord, type StoredRecovery, type Usage } from './account-row.ts';
import { Alarm, backoffMs } from './alarm.ts';
import { Claims, type Claim } from './claims.ts';
import { Files, type FileRecord, type NewFile, type Page, type PageOptions } from './file-rows.ts';
import {
  exceedsIssuer,
  isSameHash,
  KeyRegistry,
  type KeyMaterial,
  type KeyRecord,
  type NewKey,
  type RevokeOptions,
} from './key-registry.ts';
import { refer, send, type AccountEnv } from './delivery.ts';
import { Outbox, referenceRemoval, type Delivered } from './outbox.ts';
import { Parts, type NewPart } from './parts.ts';
import { PendingUploads, pendingMs } from './pending-uploads.ts';
import type { PinPlan, RemovedHome } from './pin.ts';
import { err, type Result } from './result.ts';
import { ResumableUploads } from './resumable-uploads.ts';
import { Shares, type EndedShare } from './account-shares.ts';

export type { AccountRecord } from './account-row.ts';
export type { KeyMaterial } from './key-registry.ts';

/**
 * `first`: the file of the first request, if this is a second one. `renewMs`: how often to renew the claim. `roomBytes`: how many
 * the file may have, by the limits of the key.
 */
type BegunUpload = KeyMaterial & { first: FileRecord | undefined; renewMs: number; roomBytes: number | undefined };

/** A caller whose key is valid. */
type Authorized = { key: KeyRecord; account: AccountRecord };

/** The object of one account. */
export class Account extends DurableObject<AccountEnv> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = new Alarm(this.ctx.storage);
  readonly #row = new AccountRow(this.#sql);
  readonly #keys = new KeyRegistry(this.#sql);
  readonly #files = new Files(this.#sql);
  readonly #outbox = new Outbox(this.#sql, {
    send: (message) => send(this.env, this.#row.id, message),
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
    now: () => this.now(),
  };
  readonly #uploads = new PendingUploads(this.#stores);
  readonly #resumable = new ResumableUploads({
    ...this.#stores,
    account: () => this.#row.open?.id,
    authorize: (hash) => this.#authorize(hash, 'write'),
    service: (id) => serviceOf(this.env, id),
    refer: (reference) => refer(this.env, reference),
    alarmBy: (dueMs) => this.#alarm.by(dueMs),
    flushSoon: () => this.#flushSoon(),
    erased: () => this.erased(),
  });
  readonly #shares = new Shares({
    ...this.#stores,
    env: this.env,
    authorize: (hash) => this.#authorize(hash, 'share'),
    alarmBy: (dueMs) => this.#alarm.by(dueMs),
    deliver: (ids) => this.#deliver(ids),
  });
  /** How long a claim lasts, for tests. */
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

  /** Shares, with calls of their own. */
  get shares(): Shares {
    return this.#shares;
  }

  /** Creates the account with its first key. */
  async create(account: AccountRecord, recovery: Recovery | null, key: NewKey): Promise<Result> {
    if (this.#row.id !== undefined) return err('conflict', 'the account exists');
    this.ctx.storage.transactionSync(() => {
      this.#row.create(account);
      if (recovery !== null) this.#row.replaceRecovery(recovery);
      this.#keys.add(key);
    });
    this.#row.reload();
    return { ok: true };
  }

  /** The account, what it uses, and the caller's key material. */
  about(hash: string): Promise<Result<KeyMaterial & { account: AccountRecord; usage: Usage }>> {
    return this.#as(hash, undefined, (caller) => ({
      ok: true,
      ...this.#material(caller, true),
      account: caller.account,
      usage: this.#row.usage(),
    }));
  }

  /** The key material of a caller who may issue keys. */
  issuer(hash: string): Promise<Result<KeyMaterial>> {
    return this.#as(hash, 'keys', (caller) => ({ ok: true, ...this.#material(caller, true) }));
  }

  /** Adds a key within its issuer's scopes and expiry. */
  addKey(hash: string, key: NewKey): Promise<Result> {
    return this.#as(hash, 'keys', (caller) => {
      const failure = exceedsIssuer(caller.key, key);
      if (failure === undefined) this.#keys.add({ ...key, createdBy: caller.key.id });
      return failure ?? { ok: true };
    });
  }

  /** The keys that are not revoked; `current` is the ID of the caller's. */
  listKeys(hash: string): Promise<Result<{ keys: KeyRecord[]; current: string }>> {
    return this.#as(hash, 'keys', ({ key }) => ({ ok: true, keys: this.#keys.list(), current: key.id }));
  }

  /** Revokes a key with its shares and unfinished uploads: here first, where it counts, then in KV. */
  revokeKey(hash: string, id: string, o: RevokeOptions): Promise<Result<{ revoked: string[]; shares: EndedShare[] }>> {
    return this.#as(hash, 'keys', async ({ key }) => {
      const revocable = this.#keys.revocable(key, id, o, this.now());
      if (!revocable.ok) return revocable;
      return { ok: true, revoked: revocable.ids, shares: await this.#revoke(revocable.ids) };
    });
  }

  /** The recovery file, and what a recovery is checked against. */
  async recovery(): Promise<Result<{ spki: Uint8Array; recovery: StoredRecovery }>> {
    const recovery = this.#row.open && this.#row.recovery();
    if (this.#row.open === undefined || recovery === undefined) return err('not_found');
    return { ok: true, spki: this.#row.open.spki, recovery };
  }

  /**
   * Takes a new key from a caller who has shown the secret of the recovery file, replaces that file, and revokes all other keys,
   * in one transaction. The secret is compared again here: of two recoveries at once, one wins.
   */
  async recover(secretHash: string, next: Recovery, key: NewKey): Promise<Result<{ account: AccountRecord }>> {
    const account = this.#row.open;
    const current = account && this.#row.recovery()?.secretHash;
    if (account === undefined || current === undefined) return err('not_found');
    if (current === null || !isSameHash(secretHash, current))
      return err('forbidden', 'the recovery file was replaced in the meantime');
    const others = this.#keys.list().map((each) => each.id);
    await this.#revoke(others, () => {
      this.#row.replaceRecovery(next);
      this.#keys.add(key);
    });
    return { ok: true, account };
  }

  /** Deletes the account with all its files and keys, in one transaction; the outbox then delivers the consequences. */
  async close(): Promise<Result<{ files: number; keys: number; shares: number }>> {
    if (this.#row.open === undefined) return err('not_found');
    const now = this.now();
    const removed = this.ctx.storage.transactionSync(() => {
      const files = this.#files.removeAll(now);
      const shares = this.#shares.endOfKeys(undefined).length;
      this.#resumable.removeOf(undefined);
      this.#parts.removeAll();
      const keys = this.#keys.list().map((key) => key.id);
      this.#keys.revoke(keys, this.#outbox, now);
      this.#claims.dropAll();
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
    return this.#as(hash, 'write', async (caller) => {
      const begun = this.#uploads.begin(claim, fileId, caller.key.id, bytes);
      if (!begun.ok) return begun;
      if (claim !== undefined) await this.#alarm.by(this.now() + pendingMs);
      const material = this.#material(caller, begun.first?.mode === 'encrypted');
      return { ...begun, ...material, renewMs: this.#claims.renewMs() };
    });
  }

  /** Renews the claim of an upload that is running. */
  renewClaim(hash: string, fileId: string, claim: Claim): Promise<Result> {
    return this.#as(hash, 'write', () => this.#claims.renew(claim, fileId) ?? { ok: true });
  }

  /** Gives up the claim and the parts of an upload that has ended, unless its file is stored. */
  async giveUp(fileId: string): Promise<Result> {
    if (this.#row.open === undefined) return { ok: true };
    this.#uploads.giveUp(fileId);
    await this.#flushSoon();
    return { ok: true };
  }

  /** Writes the row of a part, then the reference, before the part is pinned. */
  intendPart(hash: string, part: NewPart): Promise<Result<PinPlan>> {
    return this.#as(hash, 'write', async ({ account }) => {
      const now = this.now();
      this.#uploads.intendPart(part, now);
      await this.#alarm.by(now + pendingMs);
      const result = await refer(this.env, { ...part, fileId: part.id, account: account.id, isPart: true });
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
    return this.#as(hash, 'write', () => this.#uploads.commitPart(part) ?? { ok: true });
  }

  /** Writes the pending row, then the reference, before the file is pinned: from here on, they say what to undo. */
  prepare(hash: string, file: NewFile, claim?: Claim): Promise<Result<PinPlan & { createdAt: number }>> {
    return this.#as(hash, 'write', async ({ key, account }) => {
      const createdAt = this.now();
      const { cid, service, fileId } = file;
      const taken = this.#uploads.add(file, key.id, claim, createdAt);
      if (taken !== undefined) return taken;
      await this.#alarm.by(createdAt + pendingMs);
      const result = await refer(this.env, { cid, service, fileId, account: account.id });
      if (result.ok) return { ...result, createdAt };
      await this.abort(fileId);
      return result;
    });
  }

  /**
   * Makes a file ready, after the service holds its bytes. An upload whose claim another request has taken over is
   * undone.
   */
  async commit(fileId: string, claim?: Claim): Promise<Result> {
    if (this.#row.open === undefined) return err('pinning_timeout', 'the upload timed out');
    const failure = this.#uploads.commit(fileId, claim);
    if (failure !== undefined) await this.abort(fileId);
    else await this.#flushSoon();
    return failure ?? { ok: true };
  }

  /** Undoes a pending upload that is known to have failed. Where the service may still be about to pin it, the sweep does. */
  async abort(fileId: string): Promise<Result> {
    if (this.#row.open !== undefined) await this.#deliver(this.#uploads.abort(fileId));
    return { ok: true };
  }

  /** A file, and what opens it. */
  file(hash: string, fileId: string, o: { sealed: boolean }): Promise<Result<KeyMaterial & { file: FileRecord }>> {
    return this.#as(hash, 'read', (caller) => {
      const file = this.#files.find(fileId);
      if (file === undefined) return err('not_found');
      return { ok: true, ...this.#material(caller, o.sealed && file.mode === 'encrypted'), file };
    });
  }

  /** A page of files, newest first, and what opens them. */
  list(hash: string, o: PageOptions & { sealed: boolean }): Promise<Result<KeyMaterial & Page>> {
    return this.#as(hash, 'read', (caller) => ({
      ok: true,
      ...this.#material(caller, o.sealed),
      ...this.#files.page(o),
    }));
  }

  /** The caller's own sealed copy of the account's private key. */
  sealed(hash: string): Promise<Result<{ sealed: Uint8Array | null }>> {
    return this.#as(hash, 'read', ({ key }) => ({ ok: true, sealed: this.#keys.sealed(key.id) }));
  }

  /** Deletes a file: header, row and shares in one transaction before anything else, then the shares' records, then the reference. */
  remove(
    hash: string,
    fileId: string,
  ): Promise<Result<{ file: FileRecord; pins: RemovedHome[]; shares: EndedShare[] }>> {
    return this.#as(hash, 'delete', async () => {
      const removed = this.ctx.storage.transactionSync(() => {
        const file = this.#files.remove(fileId, 'ready');
        if (file === undefined) return undefined;
        this.#claims.drop(fileId);
        const ending = this.#shares.endOfFile(fileId);
        return { file, ending, message: this.#outbox.add(referenceRemoval(file)) };
      });
      if (removed === undefined) return err('not_found');
      const shares = await this.#shares.deliver(removed.ending);
      const { pins } = await this.#deliver([removed.message]);
      await this.erased();
      return { ok: true, file: { ...removed.file, header: null }, pins, shares };
    });
  }

  /** Aborts pending uploads whose time is up, and delivers what is left in the outbox. */
  override async alarm(): Promise<void> {
    if (this.#row.id === undefined) return;
    try {
      this.#uploads.sweep();
      await this.#resumable.sweep();
      this.#shares.sweep();
      await this.#outbox.flush();
      const sources = [this.#uploads, this.#resumable, this.#shares, this.#outbox];
      const due = sources.map((each) => each.nextDue()).filter((each) => each !== undefined);
      if (due.length === 0 && this.#row.open === undefined) return await this.#purge();
      await this.#alarm.reset(due.length === 0 ? undefined : Math.min(...due));
    } catch (error) {
      log({ event: 'account.alarm', error: errorText(error) });
      await this.#alarm.reset(this.now() + backoffMs(1));
    }
  }

  /** Runs an operation for the caller with this key, if the key is valid and has the scope. */
  async #as<T extends object>(
    hash: string,
    scope: Scope | undefined,
    operation: (caller: Authorized) => Result<T> | Promise<Result<T>>,
  ): Promise<Result<T>> {
    const caller = this.#authorize(hash, scope);
    return caller.ok ? await operation(caller) : caller;
  }

  #authorize(hash: string, scope: Scope | undefined): Result<Authorized> {
    const account = this.#row.open;
    if (account === undefined) return err('unauthorized');
    const found = this.#keys.authorize(hash, scope, this.now());
    return found.ok ? { ok: true, key: found.key, account } : found;
  }

  #material({ key, account }: Authorized, withSealed: boolean): KeyMaterial {
    return { key, spki: account.spki, sealed: withSealed ? this.#keys.sealed(key.id) : null };
  }

  /** Removes the tables of a deleted account, when its outbox is empty. */
  async #purge(): Promise<void> {
    await this.#alarm.reset(undefined);
    await this.ctx.storage.deleteAll();
    this.#row.reload();
  }

  /** Revokes keys, in one transaction with what has to happen at the same moment. */
  async #revoke(ids: readonly string[], besides?: () => void): Promise<EndedShare[]> {
    const { ending, messages } = this.ctx.storage.transactionSync(() => {
      besides?.();
      this.#resumable.removeOf(ids);
      return { ending: this.#shares.endOfKeys(ids), messages: this.#keys.revoke(ids, this.#outbox, this.now()) };
    });
    const shares = await this.#shares.deliver(ending);
    await this.#deliver(messages);
    await this.erased();
    return shares;
  }

  /** Rings the alarm for what is due in the outbox. */
  async #flushSoon(): Promise<void> {
    const due = this.#outbox.nextDue();
    if (due !== undefined) await this.#alarm.by(due);
  }

  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  async #deliver(ids: readonly number[]): Promise<Delivered> {
    await this.#alarm.by(this.now() + backoffMs(1));
    return await this.#outbox.deliver(ids);
  }
}
