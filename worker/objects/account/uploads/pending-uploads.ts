/**
 * Uploads that have begun and are not committed: their rows, their parts, their claims, and the messages that undo
 * them.
 */
import type { Claim, Claims } from './claims.ts';
import type { FileRecord, Files, NewFile } from '../files/file-rows.ts';
import { exceedsAllowance, type Allowance } from '../keys/key-limits.ts';
import { referenceRemoval, type Outbox } from '../outbox.ts';
import type { NewPart, Parts } from './parts.ts';
import { err, type Failure, type Result } from '../../result.ts';

/** Time for which a pending upload may stay, in ms: far longer than its last bytes take. */
export const pendingMs = 3_600_000;

/**
 * Terms on which a file is stored. `isOnly`: only if no other file has its name; `isProvisional`: for a while, unless
 * another upload names it; `names`: the IDs of such files that stay with this one; `requestId`: of the request, for the
 * log.
 */
export type UploadTerms = {
  claim: Claim | undefined;
  isOnly: boolean;
  isProvisional: boolean;
  names: readonly string[];
  requestId: string;
};

/** Stores that pending uploads are made of, in one object. */
export type UploadStores = {
  storage: DurableObjectStorage;
  files: Files;
  parts: Parts;
  claims: Claims;
  outbox: Outbox;
  now(): number;
};

/** The pending uploads of an account. Each method is one transaction. */
export class PendingUploads {
  readonly #stores: UploadStores;

  constructor(stores: UploadStores) {
    this.#stores = stores;
  }

  /**
   * Takes the claim of an upload that begins, if it has one.
   * @param by the ID of the key that uploads @param bytes of the file, as many as are known
   * @returns the file of the first request, if this is a second one; else what the limits of the key and the quota leave for it
   */
  begin(
    claim: Claim | undefined,
    fileId: string,
    by: string,
    bytes: number,
  ): Result<{ first: FileRecord | undefined; room: Allowance | undefined }> {
    const { storage, claims, files } = this.#stores;
    return storage.transactionSync(() => {
      const taken: Result<{ first?: string }> = claim === undefined ? { ok: true } : claims.take(claim, fileId);
      if (!taken.ok) return taken;
      const first = taken.first === undefined ? undefined : files.find(taken.first);
      if (first !== undefined) return { ok: true, first, room: undefined };
      const allowance = files.allowance(by);
      const failure = exceedsAllowance(allowance, bytes);
      if (failure === undefined) return { ok: true, first, room: allowance };
      claims.drop(fileId);
      return failure;
    });
  }

  /**
   * Writes the pending row. @param by the ID of the key that uploads @returns why it may not: the claim was taken over, the key
   * has no room for it, or there is a file with its name where it is to be the only one
   */
  add(file: NewFile, by: string, { claim, isOnly, isProvisional }: UploadTerms, nowMs: number): Failure | undefined {
    const { claims, files } = this.#stores;
    const failure =
      claims.renew(claim, file.fileId) ??
      exceedsAllowance(files.allowance(by), file.bytes) ??
      (isOnly ? files.checkNameUnused(file.fileId, file.filename) : undefined);
    if (failure !== undefined) return failure;
    files.add(file, by, nowMs, nowMs + pendingMs);
    if (isProvisional) files.provisional.add(file.fileId, by);
    return undefined;
  }

  /** Writes the row of a part. */
  intendPart(part: NewPart, nowMs: number): void {
    this.#stores.parts.intend(part, nowMs + pendingMs);
  }

  /** Releases a part that is known not to be pinned. */
  withdrawPart(id: string): void {
    const { storage, parts, now } = this.#stores;
    storage.transactionSync(() => parts.withdraw(id, now()));
  }

  /**
   * Records the pin of a part, after which the upload has more time. @returns why it may not, when the sweep has released the part
   */
  commitPart({ id, uploadId }: { id: string; uploadId: string }): Failure | undefined {
    const { storage, parts, now } = this.#stores;
    return storage.transactionSync(() => {
      if (!parts.commit(id)) return timedOut();
      parts.keepUntil(uploadId, now() + pendingMs);
      return undefined;
    });
  }

  /**
   * Makes a file of the key `by` ready, keeps its claim and the files that it names, and releases its parts.
   * @returns why it may not: the claim was taken over, the row swept, the key has no room for it any more, another file came first, or one
   *   that it names is not there
   */
  commit(fileId: string, by: string, { claim, isOnly, names }: UploadTerms): Failure | undefined {
    const { storage, claims, files, parts } = this.#stores;
    return storage.transactionSync(() => {
      const taken = claims.keep(claim, fileId);
      const nameTaken = isOnly ? files.checkNameUnused(fileId, files.pendingName(fileId)) : undefined;
      const failure =
        taken ??
        files.checkAllowance(fileId) ??
        nameTaken ??
        (names.length > 0 ? files.provisional.keep(names, by) : undefined);
      if (failure !== undefined) return failure;
      if (files.markReady(fileId)) {
        claims.spend(claim);
        parts.release(fileId);
        return undefined;
      }
      claims.drop(fileId);
      return timedOut();
    });
  }

  /**
   * Removes a pending row and its claim. @returns the IDs of the messages that undo what other objects and services
   * hold
   */
  abort(fileId: string, requestId?: string): number[] {
    const { storage, claims, files, parts, outbox } = this.#stores;
    return storage.transactionSync(() => {
      const file = files.remove(fileId, 'pending');
      if (file === undefined) return [];
      parts.release(fileId);
      claims.drop(fileId);
      return [outbox.add(referenceRemoval(file), { requestId })];
    });
  }

  /** Gives up the claim and the parts of an upload that has ended, unless its file is stored. */
  abandon(fileId: string): void {
    const { storage, claims, files, parts } = this.#stores;
    storage.transactionSync(() => {
      if (files.find(fileId) === undefined) claims.drop(fileId);
      parts.release(fileId);
    });
  }

  /** Aborts the uploads whose time is up, and removes the claims that have run out. */
  sweep(): void {
    const { storage, claims, files, parts, now } = this.#stores;
    for (const { fileId } of files.stale(now())) {
      this.abort(fileId);
      claims.drop(fileId);
    }
    storage.transactionSync(() => parts.sweep(now()));
    claims.expire();
  }

  /** Returns the time at which the next row, part or claim is due, in ms. */
  nextDue(): number | undefined {
    const { claims, files, parts } = this.#stores;
    const due = [files.nextDue(), parts.nextDue(), claims.nextDue()].filter((each) => each !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }
}

/** The failure of an upload whose row was swept in the meantime. */
function timedOut(): Failure {
  return err('pinning_timeout', 'the upload timed out');
}
