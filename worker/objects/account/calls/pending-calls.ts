/**
 * Uploads in one request that have begun and are not committed, as the Worker calls them on the
 * account's object: their rows, their parts, their claims, and the messages that undo them.
 */
import { longestPinMs } from '../../../backends/pin-limit.ts';
import type { PinPlan } from '../../pin/pin-ownership.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { addReference } from '../delivery.ts';
import type { FileRecord, NewFile } from '../files/file-rows.ts';
import { invitedEnd, isInvitation, storing } from '../keys/invitation.ts';
import { exceedsAllowance, type Allowance } from '../keys/key-limits.ts';
import type { KeyMaterial } from '../keys/key-rows.ts';
import { referenceRemoval } from '../outbox.ts';
import type { Claim } from '../uploads/claims.ts';
import type { NewPart } from '../uploads/part-rows.ts';
import { AccountCalls } from './account-calls.ts';

/**
 * Time for which a pending upload may stay, in ms, besides that of the pin of a whole file: far
 * longer than its last bytes take.
 */
export const pendingMs = 3_600_000;

/**
 * Terms on which a file is stored. `isOnly`: only if no other file has its name; `isProvisional`:
 * for a while, unless another upload names it; `names`: the IDs of such files that stay with this
 * one; `requestId`: of the request, for the log. `spki`: the public key that its header is sealed
 * to.
 */
export type UploadTerms = {
  claim: Claim | undefined;
  isOnly: boolean;
  isProvisional: boolean;
  names: readonly string[];
  requestId: string;
  spki?: Uint8Array | undefined;
};

/** `first`: the file of an earlier request. `allowance`: what limits and the quota leave. */
type Begun = { first: FileRecord | undefined; allowance: Allowance | undefined };

type Prepared = (PinPlan & { createdAt: number }) | { spki: Uint8Array };

/** The pending uploads of an account. */
export class PendingCalls extends AccountCalls {
  /**
   * Lets an upload begin, and takes its claim.
   * @param bytes of the file, as many as are known
   * @returns also how often to renew the claim
   */
  begin(
    hash: string,
    fileId: string,
    claim: Claim | undefined,
    bytes = 0,
  ): Promise<Result<KeyMaterial & Begun & { renewMs: number }>> {
    const { alarm, claims, files, now } = this.context;
    return this.context.adding(hash, storing, async (caller) => {
      const begun = this.context.transaction((): Result<Begun> => {
        const taken = claims.take(claim, fileId);
        if (!taken.ok) return taken;
        const first = taken.first === undefined ? undefined : files.find(taken.first);
        if (first !== undefined) return { ok: true, first, allowance: undefined };
        const allowance = files.allowance(caller.key.id);
        const failure = exceedsAllowance(allowance, bytes);
        if (failure === undefined) return { ok: true, first, allowance };
        claims.drop(fileId);
        return failure;
      });
      if (!begun.ok) return begun;
      if (claim !== undefined) await alarm.by(now() + pendingMs);
      const material = this.context.material(caller, begun.first?.mode === 'encrypted');
      return { ...begun, ...material, renewMs: claims.renewMs() };
    });
  }

  /** Renews the claim of an upload that is running. */
  renewClaim(hash: string, fileId: string, claim: Claim): Promise<Result> {
    return this.context.as(hash, storing, () => this.context.claims.renew(claim, fileId) ?? { ok: true });
  }

  /** Releases the claim and the parts of an upload that has ended, unless its file is stored. */
  async abandon(fileId: string): Promise<Result> {
    const { row, claims, files, parts } = this.context;
    if (row.open === undefined) return { ok: true };
    this.context.transaction(() => {
      if (files.find(fileId) === undefined) claims.drop(fileId);
      parts.release(fileId);
    });
    await this.context.flushSoon();
    return { ok: true };
  }

  /**
   * Writes the row of a part, then the reference, before the part is pinned.
   * @param lease of the request, where others may continue the upload
   */
  intendPart(hash: string, part: NewPart, lease?: string): Promise<Result<PinPlan>> {
    const { uploads, parts, alarm, env, now } = this.context;
    return this.context.as(hash, storing, async ({ account }) => {
      if (lease !== undefined && !uploads.isHeld(part.uploadId, lease)) return takenOver();
      // Until it is committed, and long enough for a pin that is on its way.
      parts.intend(part, now() + pendingMs);
      await alarm.by(now() + pendingMs);
      const result = await addReference(env, { ...part, fileId: part.id, account: account.id, isPart: true });
      if (!result.ok) await this.withdrawPart(part.id);
      return result;
    });
  }

  /** Releases a part that is known not to be pinned. */
  async withdrawPart(id: string): Promise<Result> {
    const { row, parts, now } = this.context;
    if (row.open === undefined) return { ok: true };
    this.context.transaction(() => parts.withdraw(id, now()));
    await this.context.flushSoon();
    return { ok: true };
  }

  /**
   * Records that a part is pinned. It then stays for an hour, and longer with each part that
   * follows.
   * @returns `pinning_timeout` where the sweep has released it
   */
  commitPart(hash: string, { id, uploadId }: Pick<NewPart, 'id' | 'uploadId'>): Promise<Result> {
    const { parts, now } = this.context;
    return this.context.as(hash, storing, () =>
      this.context.transaction(() => {
        if (!parts.commit(id)) return timedOut();
        parts.keepUntil(uploadId, now() + pendingMs);
        return { ok: true };
      }),
    );
  }

  /**
   * Writes the pending row, then the reference, before the file is pinned: from here on, they say
   * what to undo.
   * @returns `spki` alone where its header must be sealed to that one, the account's new public
   * key; why it may not: the key may not store it for so long, the claim was taken over, the key
   * has no allowance left for it, or there is a file with its name where it is to be the only one;
   * what `Pin` fails with
   */
  prepare(hash: string, file: NewFile, terms: UploadTerms): Promise<Result<Prepared>> {
    const { claims, files, parts, alarm, env, now } = this.context;
    return this.context.as(hash, storing, async ({ key, account: { id: account, spki } }) => {
      if (file.header !== null && !this.context.isCurrent(terms.spki)) return { ok: true, spki };
      const createdAt = now();
      const { cid, service, fileId } = file;
      const { claim, isOnly, isProvisional, requestId } = terms;
      const invited = invitedEnd(env, key, file, createdAt);
      const failure =
        (invited.ok ? undefined : invited) ??
        claims.renew(claim, fileId) ??
        exceedsAllowance(files.allowance(key.id), file.bytes) ??
        (isOnly ? files.checkNameUnused(fileId, file.filename) : undefined);
      if (failure !== undefined) return failure;
      const due = createdAt + pendingMs + longestPinMs(file.bytes);
      files.add(file, key.id, createdAt, due);
      parts.keepUntil(fileId, due);
      if (isProvisional || isInvitation(key)) files.provisional.add(fileId, key.id);
      await alarm.by(due);
      const result = await addReference(env, { cid, service, fileId, account, requestId });
      if (result.ok) return { ...result, createdAt };
      await this.abort(fileId, requestId);
      return result;
    });
  }

  /**
   * Makes a file of the key `by` ready, after the service holds its bytes; keeps its claim and the
   * files that it names, and releases its parts. An upload whose claim another request has taken
   * over is undone.
   * @returns why it may not: the key has ended or the account is disabled, the claim was taken
   * over, the row swept, the key has no room for it any more, another file came first, or one that
   * it names is not there
   */
  async commit(fileId: string, by: string, terms: UploadTerms): Promise<Result> {
    if (this.context.row.open === undefined) return timedOut();
    const failure = this.context.transaction(() => this.#commit(fileId, by, terms));
    if (failure !== undefined) await this.abort(fileId, terms.requestId);
    else await this.context.flushSoon();
    return failure ?? { ok: true };
  }

  /**
   * Undoes a pending upload that is known to have failed. Where the service may still be about to
   * pin it, the sweep does.
   */
  async abort(fileId: string, requestId: string): Promise<Result> {
    if (this.context.row.open !== undefined) await this.context.deliver(this.#abort(fileId, requestId));
    return { ok: true };
  }

  /** Returns those of some files and parts whose pins may be on their way, as far as rows tell. */
  async storing(fileIds: readonly string[]): Promise<Result<{ fileIds: string[] }>> {
    const { row, files, parts, outbox } = this.context;
    const isStoring = (id: string): boolean => files.isPending(id) || parts.isIntended(id) || outbox.isLeaving(id);
    return { ok: true, fileIds: row.id === undefined ? [] : fileIds.filter(isStoring) };
  }

  /** Aborts the uploads whose time is up, and removes the claims that have run out. */
  sweep(): void {
    const { claims, files, parts, now } = this.context;
    for (const { fileId } of files.stale(now())) {
      this.#abort(fileId);
      claims.drop(fileId);
    }
    this.context.transaction(() => parts.sweep(now()));
    claims.expire();
  }

  #commit(fileId: string, by: string, { claim, isOnly, names }: UploadTerms): Failure | undefined {
    const { claims, files, parts, keys, settings, now } = this.context;
    const isEnded = !keys.isValid(by);
    const failure =
      (isEnded ? err('unauthorized', 'the API key was revoked or has expired meanwhile') : undefined) ??
      (settings.get().disabled ? err('account_disabled') : undefined) ??
      claims.keep(claim, fileId);
    if (failure !== undefined) return failure;
    if (!files.isPending(fileId) && files.find(fileId) === undefined) {
      claims.drop(fileId);
      return timedOut();
    }
    const refusal =
      files.checkAllowance(fileId) ??
      (isOnly ? files.checkNameUnused(fileId, files.pendingName(fileId)) : undefined) ??
      (names.length > 0 ? files.provisional.keep(names, by, fileId, now()) : undefined);
    if (refusal !== undefined) return refusal;
    files.markReady(fileId);
    claims.spend(claim);
    parts.release(fileId);
    return undefined;
  }

  /**
   * Removes a pending row and its claim.
   * @returns the IDs of the messages that undo what other objects and services hold
   */
  #abort(fileId: string, requestId?: string): number[] {
    const { claims, files, parts, outbox } = this.context;
    return this.context.transaction(() => {
      const file = files.remove(fileId, 'pending');
      if (file === undefined) return [];
      parts.release(fileId);
      claims.drop(fileId);
      return [outbox.add(referenceRemoval(file), { requestId })];
    });
  }
}

/** The failure of a request that does not hold its upload any more. */
export function takenOver(): Failure {
  return err('upload_busy', 'another request has taken the upload over, or ended it');
}

/** The failure of an upload whose row was swept in the meantime. */
function timedOut(): Failure {
  return err('pinning_timeout', 'the upload timed out');
}
