/** The files of an account, as the Worker calls them on the account's object. */
import type { DeletionReason } from '../../../../shared/api.ts';
import { orLog } from '../../../log.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { removingAt } from '../delivery.ts';
import { pageOfFiles, type FilePage, type PageOptions } from '../files/file-list.ts';
import type { FileRecord, FileUpdate } from '../files/file-rows.ts';
import type { ReceiptRecord } from '../files/receipt-rows.ts';
import type { KeyMaterial } from '../keys/key-rows.ts';
import { referenceRemoval } from '../outbox.ts';
import type { Ended } from '../shares/share-rows.ts';
import type { AccountContext } from '../account-context.ts';
import { AccountCalls } from './account-calls.ts';

/** Number of expired files that one call deletes; for others the alarm rings again. */
const batch = 500;
/** Interval at which the objects of pins are asked for removals, all of them, in ms. */
const askMs = 60_000;
/** Seconds after which those who change one file at once may try again. */
const conflictSeconds = 1;

type Receipt = Result<{ receipt: ReceiptRecord }>;

/** The files of an account that are stored. */
export class FileCalls extends AccountCalls {
  /** Time at which the objects of pins were last asked for removals, in ms. */
  #askedAt = -Infinity;

  /** A file, and what opens it. @param sealed whether the private key is needed, of which files */
  find(
    hash: string,
    fileId: string,
    { sealed }: { sealed: boolean | 'encrypted' },
  ): Promise<Result<KeyMaterial & { file: FileRecord }>> {
    return this.context.as(hash, 'read', (caller) => {
      const found = this.context.files.readable(fileId);
      if (!found.ok) return found;
      const isSealed = sealed === found.file.mode || sealed === true;
      return { ok: true, ...this.context.material(caller, isSealed), file: found.file };
    });
  }

  /** A page of files, and what opens them. */
  list(hash: string, page: PageOptions): Promise<Result<KeyMaterial & FilePage>> {
    const { sql, now } = this.context;
    return this.context.as(hash, 'read', (caller) => ({
      ok: true,
      ...this.context.material(caller, true),
      ...pageOfFiles(sql, now(), page),
    }));
  }

  /**
   * Checks that a caller may change a file, before a body is read: with `read` and `write`, or its
   * details as the key that stored it.
   * @returns `canRead`, and the file for a key that cannot
   */
  changer(hash: string, fileId: string): Promise<Result<{ canRead: boolean; file: FileRecord | undefined }>> {
    return this.context.as(hash, 'write', ({ key }) => {
      const canRead = key.scopes.includes('read');
      const file = canRead ? undefined : this.context.files.find(fileId);
      return canRead || file?.createdBy === key.id ? { ok: true, canRead, file } : mustRead();
    });
  }

  /**
   * Changes a file. A key that sets its end must be allowed to delete it.
   * @returns the file as it is now; `conflict` where it was changed after the version that the
   * update was made from
   */
  change(hash: string, fileId: string, update: FileUpdate): Promise<Result<{ file: FileRecord }>> {
    const { files, events, alarm, erased } = this.context;
    return this.context.adding(hash, 'write', async ({ key: { id: by, scopes } }) => {
      const { version, rewrapped, details, ...others } = update;
      const isDetails = details !== undefined && Object.values(others).every((each) => each === undefined);
      if (update.expiresAt !== undefined && !scopes.includes('delete'))
        return err('insufficient_scope', 'this needs a key with the scope delete');
      const changed = this.context.transaction((): Result<{ file: FileRecord }> => {
        const file = files.find(fileId);
        if (!scopes.includes('read') && !(isDetails && file?.createdBy === by)) return mustRead();
        if (file === undefined) return files.missing(fileId);
        const isOtherPair = update.tags !== undefined && !this.context.isCurrent(update.spki);
        if (file.version !== version || file.rewrapped !== rewrapped || isOtherPair) return changedMeanwhile();
        files.update(fileId, update);
        events.add({ action: 'file.changed', by, subject: fileId });
        const now = files.find(fileId);
        return now === undefined ? err('not_found') : { ok: true, file: now };
      });
      if (!changed.ok) return changed;
      if (changed.file.expiresAt !== null) await alarm.by(changed.file.expiresAt);
      if (update.header !== undefined || details !== undefined) await erased();
      return changed;
    });
  }

  /** A file that a caller may delete, for the conditions of the request. */
  removable(hash: string, fileId: string): Promise<Result<{ file: FileRecord }>> {
    const { files } = this.context;
    return this.context.as(hash, 'delete', () => {
      const file = files.find(fileId);
      return file === undefined ? files.missing(fileId) : { ok: true, file };
    });
  }

  /**
   * Deletes a file: header, row and shares in one transaction before anything else, then the
   * shares' records, then the reference.
   * @param version the only one that is deleted; undefined: any
   * @returns `conflict` where it has another version
   */
  remove(hash: string, fileId: string, requestId: string, version: number | undefined): Promise<Receipt> {
    const { files, erased } = this.context;
    return this.context.as(hash, 'delete', async ({ key }) => {
      const removed = this.context.transaction(() => {
        if (version !== undefined && files.find(fileId)?.version !== version) return changedMeanwhile();
        return removeFile(this.context, fileId, 'deleted', { by: key.id, requestId }) ?? files.missing(fileId);
      });
      if ('ok' in removed) return removed;
      await this.context.deliver([...removed.ended.map(({ message }) => message), removed.message]);
      // Those that it named.
      await this.context.flushSoon();
      await erased();
      return this.#receipt(fileId);
    });
  }

  /**
   * Deletes files, all in one transaction; shares and pins follow in the alarm, since one event
   * cannot make so many calls.
   * @returns the receipts of those that were there, in the order of the IDs; `finishing` where one
   * of them is about to be stored
   */
  removeMany(
    hash: string,
    fileIds: readonly string[],
    requestId: string,
  ): Promise<Result<{ receipts: ReceiptRecord[] }>> {
    const { files, receipts, alarm, erased, now } = this.context;
    return this.context.as(hash, 'delete', async ({ key }) => {
      const removed = this.context.transaction(() => {
        const finishing = fileIds.map((fileId) => files.missing(fileId)).find(({ code }) => code === 'finishing');
        if (finishing !== undefined) return finishing;
        // One of them may go with another.
        const there = fileIds.filter((fileId) => files.find(fileId) !== undefined);
        removeFiles(this.context, there, 'deleted', { by: key.id, requestId });
        return there;
      });
      if ('ok' in removed) return removed;
      await alarm.by(now());
      await erased();
      return { ok: true, receipts: removed.flatMap((fileId) => receipts.find(fileId, now()) ?? []) };
    });
  }

  /** The receipt of a file that was deleted, or that has expired. */
  receipt(hash: string, fileId: string): Promise<Receipt> {
    return this.context.as(hash, 'read', async () => {
      // The alarm may be late.
      await this.sweep();
      if (this.context.receipts.isForgotten(fileId)) await this.#complete();
      return this.#receipt(fileId);
    });
  }

  /**
   * Completes receipts of earlier versions, of services where nothing is being removed any more.
   */
  async #complete(): Promise<void> {
    const { env, receipts, now } = this.context;
    if (now() - this.#askedAt < askMs) return;
    this.#askedAt = now();
    await orLog({ event: 'account.receipt' }, async () => receipts.complete(await removingAt(env)));
  }

  /** Deletes expired files as `remove` does; the outbox delivers the rest. Forgets old receipts. */
  async sweep(): Promise<void> {
    const { files, receipts, alarm, erased, now } = this.context;
    receipts.sweep(now());
    const expired = files.expired(batch);
    if (expired.length === 0) return;
    const requestId = crypto.randomUUID();
    this.context.transaction(() => {
      let most = batch;
      for (const fileId of expired) {
        if (most <= 0) return;
        most -= removeFile(this.context, fileId, 'expired', { by: null, requestId }, most)?.count ?? 0;
      }
    });
    await alarm.by(now());
    await erased();
  }

  #receipt(fileId: string): Receipt {
    const receipt = this.context.receipts.find(fileId, this.context.now());
    return receipt === undefined ? err('not_found') : { ok: true, receipt };
  }
}

function mustRead(): Failure {
  return err('insufficient_scope', 'this needs a key with the scope read');
}

function changedMeanwhile(): Failure {
  return err('conflict', 'other requests keep changing this file', conflictSeconds);
}

/** `by`: the ID of the key that removes a file; null: the clock. `requestId` goes with messages. */
type Cause = { by: string | null; requestId: string };
/** Shares that ended with a file, and the message that removes its reference. */
type Removed = { ended: Ended[]; message: number };

/** Removes files as `removeFile` does, and what they named until there are as many as with one. */
export function removeFiles(
  context: AccountContext,
  fileIds: readonly string[],
  ...why: [DeletionReason, Cause]
): void {
  let most = batch;
  for (const fileId of fileIds) most -= removeFile(context, fileId, ...why, most)?.count ?? 0;
}

/**
 * Removes a file and what it named, in a transaction of the caller's, who then delivers.
 * @param most files at once: the alarm removes the rest
 * @returns how many there were; undefined where there is none
 */
export function removeFile(
  context: AccountContext,
  fileId: string,
  reason: DeletionReason,
  cause: Cause,
  most = batch,
): (Removed & { count: number }) | undefined {
  const removed = removeAlone(context, fileId, reason, cause);
  if (removed === undefined) return undefined;
  const ids = [fileId];
  // What these named in turn follows them, in a list: it may be long.
  for (const id of ids) {
    const named = context.files.provisional.release(id, most - ids.length, context.now());
    for (const each of named) removeAlone(context, each, reason, cause);
    ids.push(...named);
  }
  return { ...removed, count: ids.length };
}

/** Removes a file, with the upload that stored it. */
function removeAlone(
  { files, claims, uploads, outbox, events, shares, receipts, now }: AccountContext,
  fileId: string,
  reason: DeletionReason,
  { by, requestId }: Cause,
): Removed | undefined {
  // What has expired is gone already: its receipt says so, once the alarm has removed it.
  const isGone = reason === 'deleted' && files.find(fileId) === undefined;
  const file = isGone ? undefined : files.remove(fileId, 'ready');
  if (file === undefined) return undefined;
  claims.drop(fileId);
  uploads.remove(fileId);
  events.add({ action: `file.${reason}`, by, subject: fileId });
  const ended = shares.endOfFile(fileId, { by, requestId });
  const endedIds = ended.map(({ id }) => id);
  receipts.add(file, reason, endedIds, now());
  return { ended, message: outbox.add(referenceRemoval(file), { requestId }) };
}
