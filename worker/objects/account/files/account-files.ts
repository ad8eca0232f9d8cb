/** The files of an account, as the Worker calls them on the account's object. */
import { RpcTarget } from 'cloudflare:workers';
import type { DeletionReason, Scope } from '../../../../shared/api.ts';
import type { Ending, Shares } from '../shares/account-shares.ts';
import type { Claims } from '../uploads/claims.ts';
import type { Events } from '../event-rows.ts';
import { pageOfFiles, type Page, type PageOptions } from './file-list.ts';
import type { FileRecord, Files, FileUpdate } from './file-rows.ts';
import type { KeyMaterial, KeyRecord } from '../keys/key-registry.ts';
import { errorText, log } from '../../../log.ts';
import { referenceRemoval, type Outbox } from '../outbox.ts';
import type { Removal } from '../../pin/pin-steps.ts';
import type { ReceiptRecord, Receipts } from './receipt-rows.ts';
import { err, type Failure, type Result } from '../../result.ts';

/** Number of expired files that one call deletes, so that it stays short; the alarm rings again for the others. */
const batch = 500;
/** Interval at which the objects of pins are asked for removals, all of them, in ms. */
const askMs = 60_000;
/** Seconds after which those who change one file at once may try again. */
const conflictSeconds = 1;

/** A caller whose key is valid. */
type Caller = { key: KeyRecord; account: { spki: Uint8Array } };

type Options = {
  storage: DurableObjectStorage;
  files: Files;
  claims: Claims;
  outbox: Outbox;
  events: Events;
  shares: Shares;
  receipts: Receipts;
  /** Finds the key with a hash, where it is valid and has the scope. */
  authorize(hash: string, scope: Scope): Result<Caller>;
  /** The account's private key, sealed to the API key with this ID. */
  sealedFor(keyId: string): Uint8Array | null;
  /** Rings the alarm at that time (in ms) or before. */
  alarmBy(dueMs: number): Promise<void>;
  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  deliver(ids: readonly number[]): Promise<Removal>;
  /** The services at which some pin is being removed, of this account or of others. */
  removingAt(): Promise<ReadonlySet<string>>;
  /** Runs after headers are overwritten. */
  erased(): Promise<void>;
  now(): number;
};

/** The files of an account that are stored. */
export class AccountFiles extends RpcTarget {
  readonly #o: Options;
  /** Time at which the objects of pins were last asked for removals, in ms. */
  #askedAt = -Infinity;

  constructor(options: Options) {
    super();
    this.#o = options;
  }

  /** A file, and what opens it. */
  async find(
    hash: string,
    fileId: string,
    o: { sealed: boolean },
  ): Promise<Result<KeyMaterial & { file: FileRecord }>> {
    const caller = this.#o.authorize(hash, 'read');
    if (!caller.ok) return caller;
    const found = this.#o.files.readable(fileId);
    if (!found.ok) return found;
    const { file } = found;
    return { ok: true, ...this.#material(caller, o.sealed && file.mode === 'encrypted'), file };
  }

  /** Returns the keys that open the files. */
  async reader(hash: string): Promise<Result<KeyMaterial>> {
    const caller = this.#o.authorize(hash, 'read');
    return caller.ok ? { ok: true, ...this.#material(caller, true) } : caller;
  }

  /** A page of files, and what opens them. */
  async list(hash: string, o: PageOptions & { sealed: boolean }): Promise<Result<KeyMaterial & Page>> {
    const caller = this.#o.authorize(hash, 'read');
    if (!caller.ok) return caller;
    const { storage, now } = this.#o;
    return { ok: true, ...this.#material(caller, o.sealed), ...pageOfFiles(storage.sql, now(), o) };
  }

  /** Checks that a caller may change files, before a body is read. */
  async changer(hash: string): Promise<Result> {
    const refused = (['read', 'write'] as const).map((scope) => this.#o.authorize(hash, scope)).find(({ ok }) => !ok);
    return refused ?? { ok: true };
  }

  /**
   * Changes a file. A key that sets its end must be allowed to delete it.
   * @returns the file as it is now; `conflict` where it was changed after the version that the update was made from
   */
  async change(hash: string, fileId: string, update: FileUpdate): Promise<Result<{ file: FileRecord }>> {
    const { authorize, storage, files, events, alarmBy, erased } = this.#o;
    let by: string | null = null;
    for (const scope of ['read', 'write', ...(update.expiresAt === undefined ? [] : (['delete'] as const))] as const) {
      const caller = authorize(hash, scope);
      if (!caller.ok) return caller;
      by = caller.key.id;
    }
    const changed = storage.transactionSync((): Result<{ file: FileRecord }> => {
      const file = files.find(fileId);
      if (file === undefined) return files.missing(fileId);
      if (file.version !== update.version) return changedMeanwhile();
      files.update(fileId, update);
      events.add({ action: 'file.changed', by, subject: fileId });
      const now = files.find(fileId);
      return now === undefined ? err('not_found') : { ok: true, file: now };
    });
    if (!changed.ok) return changed;
    if (changed.file.expiresAt !== null) await alarmBy(changed.file.expiresAt);
    if (update.header !== undefined) await erased();
    return changed;
  }

  /** A file that a caller may delete, for the conditions of the request. */
  async removable(hash: string, fileId: string): Promise<Result<{ file: FileRecord }>> {
    const { authorize, files } = this.#o;
    const caller = authorize(hash, 'delete');
    if (!caller.ok) return caller;
    const file = files.find(fileId);
    return file === undefined ? files.missing(fileId) : { ok: true, file };
  }

  /**
   * Deletes a file: header, row and shares in one transaction before anything else, then the shares' records, then the reference.
   * @param version the only one that is deleted; undefined: any
   * @returns `conflict` where it has another version
   */
  async remove(
    hash: string,
    fileId: string,
    requestId: string,
    version: number | undefined,
  ): Promise<Result<{ receipt: ReceiptRecord }>> {
    const { authorize, storage, files, shares, deliver, erased } = this.#o;
    const caller = authorize(hash, 'delete');
    if (!caller.ok) return caller;
    const removed = storage.transactionSync(() => {
      if (version !== undefined && files.find(fileId)?.version !== version) return changedMeanwhile();
      return this.#remove(fileId, 'deleted', caller.key.id, requestId) ?? files.missing(fileId);
    });
    if ('ok' in removed) return removed;
    await shares.deliver(removed.ending);
    await deliver([removed.message]);
    await erased();
    return this.#receipt(fileId);
  }

  /** Checks that a caller may delete files, before a body is read. */
  async remover(hash: string): Promise<Result> {
    const caller = this.#o.authorize(hash, 'delete');
    return caller.ok ? { ok: true } : caller;
  }

  /**
   * Deletes files, all in one transaction; shares and pins follow in the alarm, since one event cannot make so many calls.
   * @returns the receipts of those that were there, in the order of the IDs; `finishing` where one of them is about to be stored
   */
  async removeMany(
    hash: string,
    fileIds: readonly string[],
    requestId: string,
  ): Promise<Result<{ receipts: ReceiptRecord[] }>> {
    const { authorize, storage, files, receipts, alarmBy, erased, now } = this.#o;
    const caller = authorize(hash, 'delete');
    if (!caller.ok) return caller;
    const removed = storage.transactionSync(() => {
      const finishing = fileIds.map((fileId) => files.missing(fileId)).find(({ code }) => code === 'finishing');
      if (finishing !== undefined) return finishing;
      return fileIds.filter((fileId) => this.#remove(fileId, 'deleted', caller.key.id, requestId) !== undefined);
    });
    if ('ok' in removed) return removed;
    await alarmBy(now());
    await erased();
    return {
      ok: true,
      receipts: removed.map((fileId) => receipts.find(fileId, now())).filter((each) => each !== undefined),
    };
  }

  /** The receipt of a file that was deleted, or that has expired. */
  async receipt(hash: string, fileId: string): Promise<Result<{ receipt: ReceiptRecord }>> {
    const caller = this.#o.authorize(hash, 'read');
    if (!caller.ok) return caller;
    // The alarm may be late.
    await this.sweep();
    if (this.#o.receipts.isForgotten(fileId)) await this.#complete();
    return this.#receipt(fileId);
  }

  /** Completes receipts of earlier versions: where nothing is being removed at a service any more, their removals there are done. */
  async #complete(): Promise<void> {
    const { removingAt, receipts, now } = this.#o;
    if (now() - this.#askedAt < askMs) return;
    this.#askedAt = now();
    try {
      receipts.complete(await removingAt());
    } catch (error) {
      log({ event: 'account.receipt', error: errorText(error) });
    }
  }

  /** Deletes the files that have expired, as `remove` does; the outbox delivers the consequences. Forgets old receipts. */
  async sweep(): Promise<void> {
    const { storage, files, alarmBy, erased, now } = this.#o;
    this.#o.receipts.sweep(now());
    const expired = files.expired(batch);
    if (expired.length === 0) return;
    const requestId = crypto.randomUUID();
    storage.transactionSync(() => {
      for (const fileId of expired) this.#remove(fileId, 'expired', null, requestId);
    });
    await alarmBy(now());
    await erased();
  }

  /** Returns the time at which the alarm must look at the next file or receipt, in ms. */
  nextDue(): number | undefined {
    const due = [this.#o.files.nextExpiry(), this.#o.receipts.nextDue()].filter((each) => each !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  /**
   * Removes a file in a transaction of the caller's, who then delivers.
   * @param by the ID of the key that does it; null: the clock @param requestId goes with the messages
   */
  #remove(
    fileId: string,
    reason: DeletionReason,
    by: string | null,
    requestId: string,
  ): { ending: Ending; message: number } | undefined {
    const { files, claims, outbox, events, shares, now } = this.#o;
    const file = files.remove(fileId, 'ready');
    if (file === undefined) return undefined;
    claims.drop(fileId);
    events.add({ action: `file.${reason}`, by, subject: fileId });
    const ending = shares.endOfFile(fileId, by, requestId);
    const ended = ending.map(({ id }) => id);
    this.#o.receipts.add(file, reason, ended, now());
    return { ending, message: outbox.add(referenceRemoval(file), { requestId }) };
  }

  #receipt(fileId: string): Result<{ receipt: ReceiptRecord }> {
    const receipt = this.#o.receipts.find(fileId, this.#o.now());
    return receipt === undefined ? err('not_found') : { ok: true, receipt };
  }

  #material({ key, account }: Caller, withSealed: boolean): KeyMaterial {
    return { key, spki: account.spki, sealed: withSealed ? this.#o.sealedFor(key.id) : null };
  }
}

function changedMeanwhile(): Failure {
  return err('conflict', 'other requests keep changing this file', conflictSeconds);
}
