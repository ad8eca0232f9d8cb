/** Uploads that have begun and are not committed: their rows, their claims, and the messages that undo them. */
import type { Claim, Claims } from './claims.ts';
import type { FileRecord, Files, NewFile } from './file-rows.ts';
import { referenceRemoval, type Outbox } from './outbox.ts';
import { err, type Failure, type Result } from './result.ts';

/** How long a pending upload may stay, in ms: far longer than its last bytes take. */
export const pendingMs = 3_600_000;

/** What pending uploads are made of, in the storage of one object. */
export type UploadParts = {
  storage: DurableObjectStorage;
  files: Files;
  claims: Claims;
  outbox: Outbox;
  now(): number;
};

/** The pending uploads of an account. Each method is one transaction. */
export class PendingUploads {
  readonly #parts: UploadParts;

  constructor(parts: UploadParts) {
    this.#parts = parts;
  }

  /**
   * Takes the claim of an upload that begins, if it has one. @returns the file of the first request, if this is a
   * second one
   */
  begin(claim: Claim | undefined, fileId: string): Result<{ first: FileRecord | undefined }> {
    const { claims, files } = this.#parts;
    if (claim === undefined) return { ok: true, first: undefined };
    const taken = claims.take(claim, fileId);
    if (!taken.ok) return taken;
    return { ok: true, first: taken.first === undefined ? undefined : files.find(taken.first) };
  }

  /**
   * Writes the pending row. @param by the ID of the key that uploads @returns why it may not, when the claim was
   * taken over
   */
  add(file: NewFile, by: string, claim: Claim | undefined, nowMs: number): Failure | undefined {
    const { claims, files } = this.#parts;
    const taken = claims.renew(claim, file.fileId);
    if (taken === undefined) files.add(file, by, nowMs, nowMs + pendingMs);
    return taken;
  }

  /** Makes a file ready and keeps its claim. @returns why it may not: the claim was taken over, or the row swept */
  commit(fileId: string, claim: Claim | undefined): Failure | undefined {
    const { storage, claims, files } = this.#parts;
    return storage.transactionSync(() => {
      const taken = claims.keep(claim, fileId);
      if (taken !== undefined || files.markReady(fileId)) return taken;
      claims.drop(fileId);
      return err('pinning_timeout', 'the upload timed out');
    });
  }

  /**
   * Removes a pending row and its claim. @returns the IDs of the messages that undo what other objects and services
   * hold
   */
  abort(fileId: string, wrongCid?: string): number[] {
    const { storage, claims, files, outbox } = this.#parts;
    return storage.transactionSync(() => {
      const file = files.remove(fileId, 'pending');
      if (file === undefined) return [];
      claims.drop(fileId);
      const ids = [outbox.add(referenceRemoval(file))];
      if (wrongCid !== undefined) ids.push(outbox.add({ op: 'discard', target: wrongCid, service: file.service }));
      return ids;
    });
  }

  /** Gives up the claim of an upload that has ended, unless its file is stored. */
  releaseClaim(fileId: string): void {
    const { claims, files } = this.#parts;
    if (files.find(fileId) === undefined) claims.drop(fileId);
  }

  /** Aborts the uploads whose time is up, and removes the claims that have run out. */
  sweep(): void {
    const { claims, files, now } = this.#parts;
    for (const { fileId } of files.stale(now())) {
      this.abort(fileId);
      claims.drop(fileId);
    }
    claims.expire();
  }

  /** When the next row or claim is due, in ms. */
  nextDue(): number | undefined {
    const { claims, files } = this.#parts;
    const due = [files.nextDue(), claims.nextDue()].filter((each) => each !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }
}
