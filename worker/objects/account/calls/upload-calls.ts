/** Uploads that may be continued, as the Worker calls them on an account's object. */
import { describe } from '../../../../shared/errors.ts';
import { settlesWithin } from '../../../../shared/streams/timing.ts';
import { orLog } from '../../../log.ts';
import { err, type Failure, type Result } from '../../result.ts';
import type { FileDetails } from '../files/file-rows.ts';
import { invitedEnd, isInvitation, storing } from '../keys/invitation.ts';
import { exceedsAllowance } from '../keys/key-limits.ts';
import type { KeyRecord } from '../keys/key-rows.ts';
import { storedBytes } from '../keys/reserved.ts';
import type { Claim } from '../uploads/claims.ts';
import type { Ending, NewUpload, UploadProgress, UploadRecord } from '../uploads/upload-rows.ts';
import { AccountCalls } from './account-calls.ts';
import { takenOver } from './pending-calls.ts';
import { RunningRequests } from './running-requests.ts';
import { removeUpload, retryMs, UploadFinisher } from './upload-finisher.ts';

/**
 * Limits on unfinished uploads: of an account, and of one API key, so that no key takes the place
 * of the others. Those of invitations do not count for the account.
 */
const maxUnfinished = { account: 100, key: 10, invitation: 4 };
/** Time for which the alarm waits for the ends of uploads, in ms. */
const finishingMs = 5_000;
/** Time for which an upload may rest before it expires, in ms: 7 days. */
const restMs = 7 * 86_400_000;
/**
 * Time for which an upload is not taken over from the request that continues it, in ms: a request
 * whose line broke records within it what has arrived.
 */
const endingMs = 3000;

/** The request that continues an upload. */
export type Resumption = {
  /** Names the request. */
  lease: string;
  /** Offset at which the client wants to continue. */
  offset: number;
  /** The length of the file, where the client tells it now. */
  length: number | undefined;
};

/** An upload that continues: `leaves` of it are stored; `spki`: the account's public key. */
export type Resumed = { upload: UploadRecord; leaves: number; spki: Uint8Array };

/**
 * A commit. `partId`: of the part whose pin it makes known. `ending`: every byte has arrived;
 * `spki`: the public key that its header is sealed to.
 */
export type Commit = UploadProgress & {
  partId: string | undefined;
  ending: Ending | undefined;
  spki?: Uint8Array | undefined;
};

type Committed = { expiresAt: number } | { spki: Uint8Array };

/** The file of an upload that begins. `isProvisional`: see `UploadTerms`. */
type BegunFile = { details: FileDetails; isProvisional: boolean };
/** `replayed`: a first request has begun it. */
type BegunUpload = { upload: UploadRecord; replayed: boolean };

/**
 * The uploads of an account. An upload belongs to the API key that created it; no other key can
 * continue it, and only one with `keys` sees it, and may end it.
 */
export class UploadCalls extends AccountCalls {
  readonly #finisher = new UploadFinisher(this.context);
  readonly #running = new RunningRequests();

  /** Begins an upload, unless a first request with this claim has. */
  create(hash: string, upload: NewUpload, file: BegunFile, claim: Claim | undefined): Promise<Result<BegunUpload>> {
    const { details: asked, isProvisional } = file;
    return this.context.adding(hash, storing, async ({ key }) => {
      const { uploads, claims, files, alarm, env, now } = this.context;
      const { uploadId, mode, length } = upload;
      const invited = invitedEnd(env, key, { mode, ...asked }, now());
      const details = invited.ok ? { ...asked, expiresAt: invited.expiresAt } : asked;
      const expiresAt = restUntil(now(), key, details);
      const begun = this.context.transaction((): Result<{ first?: string }> => {
        const taken = claims.take(claim, uploadId);
        if (!taken.ok || taken.first !== undefined) return taken;
        const failure =
          (invited.ok ? undefined : invited) ??
          tooMany(key, uploads.countUnfinished(key.id)) ??
          exceedsAllowance(files.allowance(key.id), length === null ? 0 : storedBytes(mode, length));
        if (failure !== undefined) {
          claims.drop(uploadId);
          return failure;
        }
        uploads.add(upload, key.id, expiresAt);
        files.addDetails(uploadId, details);
        if (isProvisional || isInvitation(key)) files.provisional.add(uploadId, key.id);
        claims.keep(claim, uploadId);
        return taken;
      });
      if (!begun.ok) return begun;
      await alarm.by(expiresAt);
      const stored = uploads.find(begun.first ?? uploadId);
      if (stored === undefined) return err('not_found');
      return { ok: true, upload: stored, replayed: begun.first !== undefined };
    });
  }

  /**
   * Returns an upload.
   * @param takeOver whether a request that continues it must stop, once it had time to end by
   * itself
   * @returns `not_found`; `gone` for one that failed, where `takeOver` asks for one that can be
   * continued
   */
  async look(hash: string, uploadId: string, takeOver: boolean): Promise<Result<{ upload: UploadRecord }>> {
    if (!takeOver) return this.#find(hash, uploadId, true);
    const before = this.#find(hash, uploadId);
    if (!before.ok) return before;
    await this.#running.idle(uploadId, endingMs);
    const found = this.#find(hash, uploadId);
    if (!found.ok) return found;
    const failure = failureOf(found.upload);
    if (failure === undefined) this.context.uploads.update(uploadId, { lease: null });
    return failure ?? found;
  }

  /** The uploads of the caller's key; with `keys`, those of the account. */
  list(hash: string): Promise<Result<{ uploads: UploadRecord[] }>> {
    return this.context.as(hash, undefined, ({ key }) => {
      const listed = this.context.uploads.list(key.scopes.includes('keys') ? undefined : key.id);
      return { ok: true, uploads: listed.filter((upload) => this.#isThere(upload)) };
    });
  }

  /**
   * Lets a request continue an upload; an earlier one that still runs must stop.
   * @returns an upload that is not `open` where every byte has arrived; `not_found`, `gone`,
   * `offset_mismatch`, `invalid_request`
   */
  async resume(hash: string, uploadId: string, { lease, offset, length }: Resumption): Promise<Result<Resumed>> {
    const found = this.#find(hash, uploadId);
    if (!found.ok) return found;
    const { uploads, parts, files } = this.context;
    const { upload, spki } = found;
    const failure = failureOf(upload);
    if (failure !== undefined) return failure;
    if (offset !== upload.offset)
      return err('offset_mismatch', `the upload is at ${upload.offset}, and Upload-Offset is ${offset}`);
    if (length !== undefined && upload.length !== null && length !== upload.length)
      return err('invalid_request', `Upload-Length is ${length}, and was ${upload.length} before`);
    if (length !== undefined && length < offset)
      return err('invalid_request', `Upload-Length is ${length}, and ${offset} bytes have arrived already`);
    if (upload.state === 'open') {
      if (length !== undefined && upload.length === null) {
        const full = exceedsAllowance(files.allowance(upload.createdBy, uploadId), storedBytes(upload.mode, length));
        if (full !== undefined) return full;
        uploads.update(uploadId, { length });
      }
      uploads.update(uploadId, { lease });
      this.#running.begin(uploadId, lease);
    }
    const resumed = { ...upload, length: upload.length ?? length ?? null };
    return { ok: true, upload: resumed, leaves: parts.leaves(uploadId), spki };
  }

  /**
   * Records that leaves of an encrypted upload are about to be sent. Other bytes than before under
   * the same nonces would reveal both, and let others forge chunks: they end the upload.
   * @param first the number of the first one
   * @param digests SHA-256 of each, 32 bytes each, in order
   * @returns `upload_busy`, `upload_changed`
   */
  async show(uploadId: string, lease: string, first: number, digests: Uint8Array): Promise<Result> {
    const { uploads } = this.context;
    if (!uploads.isHeld(uploadId, lease)) return takenOver();
    if (uploads.show(uploadId, first, digests)) return { ok: true };
    await this.#finisher.fail(uploadId, 'upload_changed');
    return err('upload_changed');
  }

  /**
   * Records how far an upload has come: offset, part, tail and rest together.
   * @returns `spki` alone, and nothing is recorded, where the header must be sealed to that one,
   * the account's new public key; `upload_busy` where another request has it; `quota_exceeded`,
   * which ends it, where its key has no room for so much
   */
  commit(hash: string, uploadId: string, lease: string, commit: Commit): Promise<Result<Committed>> {
    const { partId, ending, spki, ...progress } = commit;
    return this.context.as(hash, storing, async ({ key, account }) => {
      const isSealed = ending !== undefined && ending.header !== null;
      if (isSealed && !this.context.isCurrent(spki)) return { ok: true, spki: account.spki };
      const { uploads, parts, files, alarm, erased, now } = this.context;
      const { length, mode = 'plain' } = uploads.find(uploadId) ?? {};
      const allowance = length === null ? files.allowance(key.id, uploadId) : files.allowanceOfReserved(key.id);
      const full = exceedsAllowance(allowance, storedBytes(mode, progress.offset));
      if (full !== undefined) {
        if (uploads.isHeld(uploadId, lease)) await this.#finisher.fail(uploadId, full.code);
        return full;
      }
      const expiresAt = restUntil(now(), key, files.detailsOf(uploadId));
      const retryAt = now() + retryMs(1);
      const failure = this.context.transaction((): Failure | undefined => {
        if (!uploads.isHeld(uploadId, lease)) return takenOver();
        if (partId !== undefined) {
          if (!parts.commitForGood(partId)) return err('pinning_timeout', 'the part of the upload timed out');
          uploads.forgetShown(uploadId, parts.leaves(uploadId));
        }
        uploads.advance(uploadId, progress, expiresAt);
        if (ending !== undefined) uploads.seal(uploadId, ending, retryAt);
        return undefined;
      });
      if (failure !== undefined) return failure;
      await alarm.by(ending === undefined ? expiresAt : retryAt);
      if (ending !== undefined) await erased();
      return { ok: true, expiresAt };
    });
  }

  /**
   * Stores the file of an upload whose bytes have all arrived; a large one, and one that cannot be
   * stored now, in the alarm.
   * @returns the CID of the file; `cid_mismatch`
   */
  async finish(uploadId: string, requestId: string): Promise<Result<{ cid: string }>> {
    return await this.#finisher.begin(uploadId, requestId);
  }

  /** Says that the request with this lease has ended. */
  async release(uploadId: string, lease: string): Promise<void> {
    this.#running.end(uploadId, lease);
  }

  /** Ends an upload and releases its parts. A file that was stored stays. */
  async remove(hash: string, uploadId: string): Promise<Result> {
    const found = this.#find(hash, uploadId, true);
    if (!found.ok) return found;
    this.context.transaction(() => removeUpload(this.context, uploadId));
    await this.context.flushSoon();
    await this.context.erased();
    return { ok: true };
  }

  /**
   * Removes what has expired, and finishes what is not finished. It waits for that for a while: a
   * large file takes minutes, in which the alarm must ring for what else is due.
   */
  async sweep(): Promise<void> {
    const { uploads, erased, now } = this.context;
    const due = uploads.due(now());
    const expired = due.filter(({ state }) => state !== 'finishing');
    this.context.transaction(() => {
      for (const { uploadId } of expired) removeUpload(this.context, uploadId);
    });
    if (expired.some(({ state }) => state === 'open')) await erased();
    const finishing = due.filter(({ state }) => state === 'finishing');
    for (const { uploadId } of finishing) uploads.update(uploadId, { due: now() + retryMs(1) });
    const finished = orLog({ event: 'upload.finish' }, () => this.#finish(finishing));
    await settlesWithin(finished, finishingMs);
  }

  async #finish(finishing: readonly UploadRecord[]): Promise<void> {
    for (const { uploadId, cid } of finishing)
      // The request with its last bytes may have ended before it could ask for this.
      if (cid === null) await this.#finisher.begin(uploadId, crypto.randomUUID());
      else await this.#finisher.attempt(uploadId);
  }

  /** An upload of the caller's key; one that is only managed, with `keys` any of the account. */
  #find(hash: string, uploadId: string, isManaged = false): Result<{ upload: UploadRecord; spki: Uint8Array }> {
    const caller = this.context.authorize(hash, isManaged ? undefined : storing);
    if (!caller.ok) return caller;
    const { key, account } = caller;
    const upload = this.context.uploads.find(uploadId);
    const isTheirs = upload?.createdBy === key.id || (isManaged && key.scopes.includes('keys'));
    if (upload === undefined || !isTheirs || !this.#isThere(upload)) return err('not_found');
    return { ok: true, upload, spki: account.spki };
  }

  /** Tells whether an upload, or the file that it stored, is there: the alarm may be late. */
  #isThere({ uploadId, state, expiresAt }: UploadRecord): boolean {
    const { files, now } = this.context;
    return expiresAt > now() && (state !== 'done' || files.find(uploadId) !== undefined);
  }
}

/** The time until which an upload may rest: no longer than its key and its file last. */
function restUntil(nowMs: number, key: KeyRecord, file: FileDetails): number {
  return Math.min(nowMs + restMs, key.expiresAt ?? Infinity, file.expiresAt ?? Infinity);
}

function tooMany(key: KeyRecord, { all, own }: { all: number; own: number }): Failure | undefined {
  const most = isInvitation(key) ? maxUnfinished.invitation : maxUnfinished.key;
  if (own >= most) return err('too_many_uploads', `this API key may have ${most} unfinished uploads`);
  if (!isInvitation(key) && all >= maxUnfinished.account)
    return err('too_many_uploads', `an account may have ${maxUnfinished.account} unfinished uploads`);
  return undefined;
}

/** Tells why an upload cannot be continued. */
function failureOf({ state, code }: UploadRecord): Failure | undefined {
  if (state !== 'failed') return undefined;
  return err('gone', `the upload has failed: ${describe(code ?? 'internal').title}`);
}
