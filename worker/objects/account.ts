/**
 * Account: one object an account. It owns the files and the key registry, and its word is the last one on both. It answers each
 * request in one call that authorizes and does; nothing that it answers to a stranger tells whether the account exists.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Scope } from '../../shared/api.ts';
import { refuse, type Answer, type Refusal } from './result.ts';
import type { Env } from '../env.ts';
import { kvKeyName } from '../auth/key-cache.ts';
import { errorText, log } from '../log.ts';
import type { Recovery } from '../auth/recovery-file.ts';
import { alarmOf, backoffMs } from './alarm.ts';
import { claims, type Claim } from './claims.ts';
import { files, type FileRecord, type NewFile } from './file-rows.ts';
import { lesser, outbox, unrefer, type Message } from './outbox.ts';
import type { Removal } from './pin.ts';
import { pinOf, type PinBinding } from './shard.ts';
import { recoveryRow, type StoredRecovery } from './recovery-row.ts';
import {
  beyond,
  isSameHash,
  locksOut,
  registry,
  type KeyRecord,
  type NewKey,
  type RevokeOptions,
} from './key-registry.ts';
import { schema, type AccountRow } from './tables.ts';

/** How long a pending upload may stay: far longer than its last bytes take. */
const pendingMs = 3_600_000;

/** `recoveryKey`: what the account can be recovered with, as text. Times in ms. */
export type AccountRecord = {
  id: string;
  label: string;
  spki: Uint8Array;
  recoveryKey: string | null;
  createdAt: number;
};

/** What a reader is given with a row: the key's record, the account's public key, and on demand the sealed private key. */
export type Reader = { key: KeyRecord; spki: Uint8Array; sealed: Uint8Array | null };

export class Account extends DurableObject<Env & PinBinding> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = alarmOf(this.ctx.storage);
  readonly #registry = registry(this.#sql);
  readonly #files = files(this.#sql);
  readonly #recovery = recoveryRow(this.#sql);
  readonly #outbox = outbox(this.#sql);
  readonly #claims = claims(this.#sql, {
    isReady: (fileId) => this.#files.find(fileId) !== undefined,
    now: () => this.now(),
    leaseMs: () => this.leaseMs,
  });
  #id: string | undefined;
  #account: AccountRecord | undefined;
  /** How long a claim lasts, for tests. */
  protected leaseMs: number | undefined;

  constructor(ctx: DurableObjectState, env: Env & PinBinding) {
    super(ctx, env);
    this.#load();
  }

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /**
   * Runs after headers or sealed keys are overwritten and before the answer. On Cloudflare there is nothing to do; a
   * runtime that keeps old pages of its database in files overrides it.
   */
  protected async erased(): Promise<void> {}

  /** Makes the account with its first key. */
  async create(account: AccountRecord, recovery: Recovery | null, key: NewKey): Promise<Answer> {
    if (this.#id !== undefined) return refuse('conflict', 'the account exists');
    this.ctx.storage.transactionSync(() => {
      this.#sql.exec(schema);
      this.#sql.exec(
        'INSERT INTO account (id, label, spki, recovery_key, created_at, files, bytes) VALUES (?, ?, ?, ?, ?, 0, 0)',
        account.id,
        account.label,
        account.spki,
        account.recoveryKey,
        account.createdAt,
      );
      if (recovery !== null) this.#recovery.replace(recovery);
      this.#registry.add(key);
    });
    this.#load();
    return { ok: true };
  }

  /** The account, what it uses, and the caller's own record. */
  async about(
    hash: string,
  ): Promise<Answer<Reader & { account: AccountRecord; usage: { files: number; bytes: number } }>> {
    const caller = this.#authorize(hash);
    if (!caller.ok) return caller;
    const { key, account } = caller;
    const usage = this.#sql.exec<{ files: number; bytes: number }>('SELECT files, bytes FROM account').one();
    return { ok: true, key, account, spki: account.spki, sealed: this.#registry.sealed(key.id), usage };
  }

  /** Lets a key be made: who asks, and what has to be sealed anew for a key with `read`. */
  async maker(hash: string): Promise<Answer<Reader>> {
    const caller = this.#authorize(hash, 'keys');
    if (!caller.ok) return caller;
    return { ok: true, key: caller.key, spki: caller.account.spki, sealed: this.#registry.sealed(caller.key.id) };
  }

  /** Adds a key within its maker's scopes and expiry. */
  async addKey(hash: string, key: NewKey): Promise<Answer> {
    const caller = this.#authorize(hash, 'keys');
    if (!caller.ok) return caller;
    const refusal = beyond(caller.key, key);
    if (refusal === undefined) this.#registry.add({ ...key, createdBy: caller.key.id });
    return refusal ?? { ok: true };
  }

  /** The keys that are not revoked; `current` is the id of the caller's. */
  async listKeys(hash: string): Promise<Answer<{ keys: KeyRecord[]; current: string }>> {
    const caller = this.#authorize(hash, 'keys');
    return caller.ok ? { ok: true, keys: this.#registry.list(), current: caller.key.id } : caller;
  }

  /** Revokes a key: here first, where it counts, then in KV. */
  async revokeKey(hash: string, id: string, o: RevokeOptions): Promise<Answer<{ revoked: string[] }>> {
    const caller = this.#authorize(hash, 'keys');
    if (!caller.ok) return caller;
    const family = this.#registry.family(id, o.cascade);
    if (family.length === 0) return refuse('not_found');
    if (family.some((key) => key.scopes.some((scope) => !caller.key.scopes.includes(scope)))) {
      return refuse('insufficient_scope', 'a key among these has a scope that yours lacks');
    }
    const ids = family.map((key) => key.id);
    if (!o.self && ids.includes(caller.key.id))
      return refuse('conflict', 'this would revoke the key that the request is made with; self=true allows it');
    const why = o.destroy ? undefined : locksOut(this.#registry.list(), ids, this.now());
    if (why !== undefined) return refuse('conflict', why);
    await this.#revoke(ids);
    return { ok: true, revoked: ids };
  }

  /** The recovery file, and what a recovery is checked with. */
  async recovery(): Promise<Answer<{ spki: Uint8Array; recovery: StoredRecovery }>> {
    const recovery = this.#account && this.#recovery.find();
    if (this.#account === undefined || recovery === undefined) return refuse('not_found');
    return { ok: true, spki: this.#account.spki, recovery };
  }

  /**
   * Takes a new key from a caller who has shown the secret of the recovery file, replaces that file, and revokes all other keys,
   * in one transaction. The secret is compared again here: of two recoveries at once, one wins.
   */
  async recover(secretHash: string, next: Recovery, key: NewKey): Promise<Answer<{ account: AccountRecord }>> {
    const account = this.#account;
    const current = account && this.#recovery.find()?.secretHash;
    if (account === undefined || current === undefined) return refuse('not_found');
    if (current === null || !isSameHash(secretHash, current))
      return refuse('forbidden', 'the recovery file was replaced in the meantime');
    const others = this.#registry.list().map((each) => each.id);
    await this.#revoke(others, () => {
      this.#recovery.replace(next);
      this.#registry.add(key);
    });
    return { ok: true, account };
  }

  /** Deletes the account with all that it holds, in one transaction; the outbox then tells the others. */
  async close(): Promise<Answer<{ files: number; keys: number }>> {
    if (this.#account === undefined) return refuse('not_found');
    const now = this.now();
    const gone = this.ctx.storage.transactionSync(() => {
      const files = this.#files.removeAll(now);
      const keys = this.#registry.list().map((key) => key.id);
      for (const hash of this.#registry.revoke(keys, now)) this.#outbox.add({ op: 'forget', target: hash }, now);
      this.#claims.dropAll();
      this.#sql.exec('UPDATE account SET recovery = zeroblob(length(recovery)) WHERE recovery IS NOT NULL');
      this.#sql.exec('UPDATE account SET closed_at = ?, recovery = NULL, files = 0, bytes = 0', now);
      return { files, keys: keys.length };
    });
    this.#load();
    await this.#alarm.by(now);
    await this.erased();
    return { ok: true, ...gone };
  }

  /** Lets an upload begin: its public key; the file of the first request, if this is a second one; how often to renew the claim. */
  async begin(
    hash: string,
    fileId: string,
    claim: Claim | undefined,
  ): Promise<Answer<Reader & { first: FileRecord | undefined; renewMs: number }>> {
    const caller = this.#authorize(hash, 'write');
    if (!caller.ok) return caller;
    const { key, account } = caller;
    let first: FileRecord | undefined;
    if (claim !== undefined) {
      const taken = this.#claims.take(claim, fileId);
      if (!taken.ok) return taken;
      if (taken.first !== undefined) first = this.#files.find(taken.first);
      await this.#alarm.by(this.now() + pendingMs);
    }
    const sealed = first?.mode === 'encrypted' ? this.#registry.sealed(key.id) : null;
    return { ok: true, key, spki: account.spki, sealed, first, renewMs: this.#claims.renewMs() };
  }

  /** Renews the claim of an upload that is running. */
  async renew(hash: string, fileId: string, claim: Claim): Promise<Answer> {
    const caller = this.#authorize(hash, 'write');
    return caller.ok ? (this.#claims.renew(claim, fileId) ?? { ok: true }) : caller;
  }

  /** Gives up the claim of an upload that has ended, unless it has a file. */
  async release(fileId: string): Promise<Answer> {
    if (this.#account !== undefined && this.#files.find(fileId) === undefined) this.#claims.drop(fileId);
    return { ok: true };
  }

  /**
   * Before the last bytes go out: the pending row, then the reference. After this, row and reference say what to undo.
   * `other`: the name of a pin of these bytes that is not ours, and that the upload overwrites.
   */
  async intend(
    hash: string,
    file: NewFile,
    claim?: Claim,
  ): Promise<Answer<{ createdAt: number; other: string | null }>> {
    const caller = this.#authorize(hash, 'write');
    if (!caller.ok) return caller;
    const createdAt = this.now();
    const taken = this.#claims.renew(claim, file.fileId);
    if (taken !== undefined) return taken;
    this.#files.add(file, caller.key.id, createdAt, createdAt + pendingMs);
    await this.#alarm.by(createdAt + pendingMs);
    const { cid, service, fileId } = file;
    let answer: Answer<{ other: string | null }>;
    try {
      answer = await (await pinOf(this.env, cid)).refer({ cid, service, fileId, account: caller.account.id });
    } catch (error) {
      log({ event: 'account.refer', error: errorText(error) });
      answer = refuse('overloaded', undefined, 2);
    }
    if (answer.ok) return { ok: true, createdAt, other: answer.other };
    await this.withdraw(fileId);
    return answer;
  }

  /** After the service holds the bytes. An upload whose claim is another request's by now is undone. */
  async ready(fileId: string, claim?: Claim): Promise<Answer> {
    const late = refuse('pinning_timeout', 'the upload took so long that it was given up');
    if (this.#account === undefined) return late;
    const refusal = this.ctx.storage.transactionSync(() => {
      const taken = this.#claims.keep(claim, fileId);
      if (taken !== undefined || this.#files.ready(fileId)) return taken;
      this.#claims.drop(fileId);
      return late;
    });
    if (refusal !== undefined) await this.withdraw(fileId);
    return refusal ?? { ok: true };
  }

  /**
   * Undoes a pending upload that is known to have failed. One whose end nobody knows is left to the sweep: the service may
   * still be about to pin it.
   * @param wrongCid the CID under which the service pinned something else
   */
  async withdraw(fileId: string, wrongCid?: string): Promise<Answer> {
    if (this.#account === undefined) return { ok: true };
    const messages = this.ctx.storage.transactionSync(() => {
      const file = this.#files.remove(fileId, 'pending');
      if (file === undefined) return [];
      this.#claims.drop(fileId);
      const ids = [this.#outbox.add(unrefer(file), this.now())];
      if (wrongCid !== undefined)
        ids.push(this.#outbox.add({ op: 'discard', target: wrongCid, service: file.service }, this.now()));
      return ids;
    });
    await this.#deliver(messages);
    return { ok: true };
  }

  /** A file, and what its reader needs. */
  async file(hash: string, fileId: string, o: { sealed: boolean }): Promise<Answer<Reader & { file: FileRecord }>> {
    const caller = this.#authorize(hash, 'read');
    if (!caller.ok) return caller;
    const file = this.#files.find(fileId);
    if (file === undefined) return refuse('not_found');
    const sealed = o.sealed && file.mode === 'encrypted' ? this.#registry.sealed(caller.key.id) : null;
    return { ok: true, key: caller.key, spki: caller.account.spki, sealed, file };
  }

  /** A page of files, newest first, and what its reader needs. */
  async list(
    hash: string,
    o: { before: number | undefined; limit: number; cid: string | undefined; sealed: boolean },
  ): Promise<Answer<Reader & { files: FileRecord[]; next: number | undefined }>> {
    const caller = this.#authorize(hash, 'read');
    if (!caller.ok) return caller;
    const page = this.#files.page(o);
    return {
      ok: true,
      key: caller.key,
      spki: caller.account.spki,
      sealed: o.sealed ? this.#registry.sealed(caller.key.id) : null,
      ...page,
    };
  }

  /** The caller's own sealed copy of the account's private key. */
  async sealed(hash: string): Promise<Answer<{ sealed: Uint8Array | null }>> {
    const caller = this.#authorize(hash, 'read');
    return caller.ok ? { ok: true, sealed: this.#registry.sealed(caller.key.id) } : caller;
  }

  /** Deletes a file: header and row in one transaction before anything else, then the reference. */
  async remove(hash: string, fileId: string): Promise<Answer<{ file: FileRecord; status: Removal }>> {
    const caller = this.#authorize(hash, 'delete');
    if (!caller.ok) return caller;
    const removed = this.ctx.storage.transactionSync(() => {
      const file = this.#files.remove(fileId, 'ready');
      if (file === undefined) return undefined;
      this.#claims.drop(fileId);
      return { file, message: this.#outbox.add(unrefer(file), this.now()) };
    });
    if (removed === undefined) return refuse('not_found');
    const status = await this.#deliver([removed.message]);
    await this.erased();
    return { ok: true, file: { ...removed.file, header: null }, status };
  }

  /** Gives up pending uploads whose time is up, and delivers what is left in the outbox. */
  override async alarm(): Promise<void> {
    if (this.#id === undefined) return;
    try {
      const now = this.now();
      for (const { fileId } of this.#files.stale(now)) {
        this.ctx.storage.transactionSync(() => {
          const file = this.#files.remove(fileId, 'pending');
          if (file !== undefined) this.#outbox.add(unrefer(file), now);
          this.#claims.drop(fileId);
        });
      }
      this.#claims.expire();
      await this.#outbox.flush((message) => this.#send(message), now);
      const due = [this.#files.nextDue(), this.#outbox.nextDue(), this.#claims.nextDue()].filter(
        (each) => each !== undefined,
      );
      if (due.length === 0 && this.#account === undefined) return await this.#vanish();
      await this.#alarm.reset(due.length === 0 ? undefined : Math.min(...due));
    } catch (error) {
      log({ event: 'account.alarm', error: errorText(error) });
      await this.#alarm.reset(this.now() + backoffMs(1));
    }
  }

  #authorize(hash: string, scope?: Scope): Refusal | { ok: true; key: KeyRecord; account: AccountRecord } {
    const account = this.#account;
    if (account === undefined) return refuse('unauthorized');
    const answer = this.#registry.authorize(hash, scope, this.now());
    return answer.ok ? { ...answer, account } : answer;
  }

  /** Reads the account's row. One that was never made, or is deleted, is no account; reading makes nothing. */
  #load(): void {
    if (this.#sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'account'`).toArray().length === 0) return;
    const [row] = this.#sql.exec<AccountRow>('SELECT * FROM account').toArray();
    if (row === undefined) return;
    this.#id = row.id;
    this.#account =
      row.closed_at === null
        ? {
            id: row.id,
            label: row.label,
            spki: new Uint8Array(row.spki),
            recoveryKey: row.recovery_key,
            createdAt: row.created_at,
          }
        : undefined;
  }

  /** Removes the tables of a deleted account, when there is nobody left to be told. */
  async #vanish(): Promise<void> {
    await this.#alarm.reset(undefined);
    await this.ctx.storage.deleteAll();
    this.#id = undefined;
  }

  /** Revokes keys, in one transaction with what has to happen at the same moment. */
  async #revoke(ids: readonly string[], besides?: () => void): Promise<void> {
    const messages = this.ctx.storage.transactionSync(() => {
      besides?.();
      return this.#registry
        .revoke(ids, this.now())
        .map((hash) => this.#outbox.add({ op: 'forget', target: hash }, this.now()));
    });
    await this.#deliver(messages);
    await this.erased();
  }

  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  async #deliver(ids: number[]): Promise<Removal> {
    await this.#alarm.by(this.now() + backoffMs(1));
    let result: Removal = 'unpinned';
    for (const id of ids)
      result = lesser(result, await this.#outbox.flush((message) => this.#send(message), this.now(), id));
    return result;
  }

  async #send(message: Message): Promise<Answer<{ status: Removal }>> {
    if (message.op === 'forget') {
      await this.env.API_KEYS.delete(kvKeyName(message.target));
      return { ok: true, status: 'unpinned' };
    }
    const { target: cid, service } = message;
    const pin = await pinOf(this.env, cid);
    if (message.op === 'discard') return await pin.discard(cid, service);
    return await pin.unrefer({ cid, service, fileId: message.fileId, account: this.#id! });
  }
}
