/**
 * Account: one object an account. It owns the files and the key registry, and its word is the last one on both. It answers each
 * request in one call that authorizes and does; nothing that it answers to a stranger tells whether the account exists.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Scope } from '../../shared/api.ts';
import { refuse, type Answer, type Refusal } from '../answer.ts';
import type { Env } from '../env.ts';
import { errorText, log } from '../log.ts';
import { alarmOf, backoffMs } from './alarm.ts';
import { files, type FileRecord, type NewFile } from './files.ts';
import { outbox, type Message } from './outbox.ts';
import { pinOf } from './pin.ts';
import { registry, type KeyRecord, type NewKey } from './registry.ts';
import { schema } from './schema.ts';

/** How long a pending upload may stay: far longer than its last bytes take. */
const pendingMs = 3_600_000;

export type AccountRecord = { id: string; label: string; spki: Uint8Array; createdAt: number };
export type NewAccountRecord = AccountRecord & { recoveryKey: string | null; recovery: Uint8Array | null };
type AccountRow = { id: string; label: string; spki: ArrayBuffer; created_at: number };

/** What a reader is given with a row: the key's record, the account's public key, and on demand the sealed private key. */
export type Reader = { key: KeyRecord; spki: Uint8Array; sealed: Uint8Array | null };

export class Account extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = alarmOf(this.ctx.storage);
  readonly #registry = registry(this.#sql);
  readonly #files = files(this.#sql);
  readonly #outbox = outbox(this.#sql);
  #account = this.#load();

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /** Makes the account with its first key. */
  async create(account: NewAccountRecord, key: NewKey): Promise<Answer> {
    if (this.#account !== undefined) return refuse('conflict', 'the account exists');
    this.ctx.storage.transactionSync(() => {
      this.#sql.exec(schema);
      this.#sql.exec(
        'INSERT INTO account (id, label, spki, recovery_key, recovery, created_at, files, bytes) VALUES (?, ?, ?, ?, ?, ?, 0, 0)',
        account.id,
        account.label,
        account.spki,
        account.recoveryKey,
        account.recovery,
        account.createdAt,
      );
      this.#registry.add(key);
    });
    this.#account = this.#load();
    return { ok: true };
  }

  /** Lets an upload begin: to which public key encrypted mode encrypts. */
  async begin(hash: string): Promise<Answer<{ key: KeyRecord; spki: Uint8Array }>> {
    const caller = this.#authorize(hash, 'write');
    if (!caller.ok) return caller;
    return { ok: true, key: caller.key, spki: caller.account.spki };
  }

  /** Before the last bytes go out: the pending row, then the reference. After this, row and reference say what to undo. */
  async intend(hash: string, file: NewFile): Promise<Answer<{ createdAt: number }>> {
    const caller = this.#authorize(hash, 'write');
    if (!caller.ok) return caller;
    const createdAt = this.now();
    this.#files.add(file, caller.key.id, createdAt, createdAt + pendingMs);
    await this.#alarm.by(createdAt + pendingMs);
    const { cid, service, fileId } = file;
    let answer: Answer;
    try {
      answer = await (await pinOf(this.env, cid)).refer({ cid, service, fileId, account: caller.account.id });
    } catch (error) {
      log({ event: 'account.refer', error: errorText(error) });
      answer = refuse('overloaded', undefined, 2);
    }
    if (answer.ok) return { ok: true, createdAt };
    await this.withdraw(fileId);
    return answer;
  }

  /** After the service holds the bytes. */
  async ready(fileId: string): Promise<Answer> {
    if (this.#account === undefined || !this.#files.ready(fileId)) {
      return refuse('pinning_timeout', 'the upload took so long that it was given up');
    }
    return { ok: true };
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
      const ids = [this.#outbox.add(this.#unrefer(file), this.now())];
      if (wrongCid !== undefined) ids.push(this.#outbox.add({ ...this.#unrefer(file), op: 'discard', cid: wrongCid }, this.now()));
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
    return { ok: true, key: caller.key, spki: caller.account.spki, sealed: o.sealed ? this.#registry.sealed(caller.key.id) : null, ...page };
  }

  /** The caller's own sealed copy of the account's private key. */
  async sealed(hash: string): Promise<Answer<{ sealed: Uint8Array | null }>> {
    const caller = this.#authorize(hash, 'read');
    return caller.ok ? { ok: true, sealed: this.#registry.sealed(caller.key.id) } : caller;
  }

  /** Deletes a file: header and row in one transaction before anything else, then the reference. */
  async remove(hash: string, fileId: string): Promise<Answer<{ file: FileRecord; status: 'unpinned' | 'scheduled' }>> {
    const caller = this.#authorize(hash, 'delete');
    if (!caller.ok) return caller;
    const removed = this.ctx.storage.transactionSync(() => {
      const file = this.#files.remove(fileId, 'ready');
      if (file === undefined) return undefined;
      this.#sql.exec('DELETE FROM idempotency WHERE file_id = ?', fileId);
      return { file, message: this.#outbox.add(this.#unrefer(file), this.now()) };
    });
    if (removed === undefined) return refuse('not_found');
    const done = await this.#deliver([removed.message]);
    return { ok: true, file: { ...removed.file, header: null }, status: done ? 'unpinned' : 'scheduled' };
  }

  /** Gives up pending uploads whose time is up, and delivers what is left in the outbox. */
  override async alarm(): Promise<void> {
    if (this.#account === undefined) return;
    try {
      const now = this.now();
      for (const { fileId } of this.#files.stale(now)) {
        this.ctx.storage.transactionSync(() => {
          const file = this.#files.remove(fileId, 'pending');
          if (file !== undefined) this.#outbox.add(this.#unrefer(file), now);
        });
      }
      await this.#outbox.flush((message) => this.#send(message), now);
      const due = [this.#files.nextDue(), this.#outbox.nextDue()].filter((each) => each !== undefined);
      await this.#alarm.reset(due.length === 0 ? undefined : Math.min(...due));
    } catch (error) {
      log({ event: 'account.alarm', error: errorText(error) });
      await this.#alarm.reset(this.now() + backoffMs(1));
    }
  }

  #authorize(hash: string, scope: Scope | undefined): Refusal | { ok: true; key: KeyRecord; account: AccountRecord } {
    const account = this.#account;
    if (account === undefined) return refuse('unauthorized');
    const answer = this.#registry.authorize(hash, scope, this.now());
    return answer.ok ? { ...answer, account } : answer;
  }

  #load(): AccountRecord | undefined {
    if (this.#sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'account'`).toArray().length === 0) return undefined;
    const [row] = this.#sql.exec<AccountRow>('SELECT id, label, spki, created_at FROM account').toArray();
    return row === undefined ? undefined : { id: row.id, label: row.label, spki: new Uint8Array(row.spki), createdAt: row.created_at };
  }

  #unrefer(file: FileRecord): Message {
    return { op: 'unrefer', cid: file.cid, service: file.service, fileId: file.fileId };
  }

  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  async #deliver(ids: number[]): Promise<boolean> {
    await this.#alarm.by(this.now() + backoffMs(1));
    let done = true;
    for (const id of ids) {
      const each = await this.#outbox.flush((message) => this.#send(message), this.now(), id);
      done &&= each;
    }
    return done;
  }

  async #send({ op, cid, service, fileId }: Message): Promise<Answer<{ status: 'unpinned' | 'scheduled' }>> {
    const pin = await pinOf(this.env, cid);
    if (op === 'discard') return await pin.discard(cid, service);
    return await pin.unrefer({ cid, service, fileId, account: this.#account!.id });
  }
}
