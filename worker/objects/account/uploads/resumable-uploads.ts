/** Uploads that may be continued, as the Worker calls them on an account's object. */
import { RpcTarget } from 'cloudflare:workers';
import type { Scope } from '../../../../shared/api.ts';
import type { Code } from '../../../../shared/errors.ts';
import { describe } from '../../../../shared/errors.ts';
import type { Claim } from './claims.ts';
import { exceedsAllowance } from '../keys/key-limits.ts';
import type { KeyRecord } from '../keys/key-registry.ts';
import type { NewPart } from './parts.ts';
import { pendingMs } from './pending-uploads.ts';
import type { PinPlan } from '../../pin/pin-ownership.ts';
import { storedBytes } from '../files/reserved.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { RunningRequests } from './running-requests.ts';
import { retryMs, UploadFinisher, type UploadContext } from './upload-finisher.ts';
import { UploadRows, type Ending, type NewUpload, type Progress, type UploadRecord } from './upload-rows.ts';

/** Limits on unfinished uploads: of an account, and of one API key, so that no key takes the place of the others. */
const maxUnfinished = { account: 100, key: 10 };
/** Time for which an upload may rest before it expires, in ms: 7 days. */
const restMs = 7 * 86_400_000;
/**
 * Time for which an upload is not taken over from the request that continues it, in ms: a request whose line broke
 * records within it what has arrived.
 */
const endingMs = 3000;
/** Retention of the row of an ended upload, in ms: longer than a claim is kept. */
const endedMs = 2 * 86_400_000;

/** The request that continues an upload. */
export type Resumption = {
  /** Names the request. */
  lease: string;
  /** Offset at which the client wants to continue. */
  offset: number;
  /** The length of the file, where the client tells it now. */
  length: number | undefined;
};

/** An upload that a request continues: `leaves` of it are stored, `spki` is the account's public key. */
export type Resumed = { upload: UploadRecord; leaves: number; spki: Uint8Array };

/** A commit. `partId`: of the part whose pin it makes known. `ending`: every byte has arrived. */
export type Commit = Progress & { partId: string | undefined; ending: Ending | undefined };

/** A caller whose key is valid. */
type UploadCaller = { key: KeyRecord; account: { id: string; spki: Uint8Array } };

type Options = UploadContext & {
  /** Finds the key with a hash, where it is valid and has the scope. */
  authorize(hash: string, scope: Scope | undefined): Result<UploadCaller>;
};

/**
 * The uploads of an account. An upload belongs to the API key that created it; no other key can continue it, and only
 * one with `keys` sees it, and may end it.
 */
export class ResumableUploads extends RpcTarget {
  readonly #o: Options & { rows: UploadRows; finisher: UploadFinisher };
  readonly #running = new RunningRequests();

  constructor(options: Options) {
    super();
    const rows = new UploadRows(options.storage.sql);
    this.#o = { ...options, rows, finisher: new UploadFinisher({ ...options, rows, endedMs }) };
  }

  /**
   * Begins an upload, unless a first request with this claim has.
   * @param file.expiresAt when it is deleted, in ms; null: not by itself @param file.isProvisional see `UploadTerms`
   */
  async create(
    hash: string,
    upload: NewUpload,
    { expiresAt: fileExpiresAt, isProvisional }: { expiresAt: number | null; isProvisional: boolean },
    claim: Claim | undefined,
  ): Promise<Result<{ upload: UploadRecord; replayed: boolean }>> {
    const { rows, storage, claims, files, authorize, alarmBy, now } = this.#o;
    const caller = authorize(hash, 'write');
    if (!caller.ok) return caller;
    const { uploadId, mode, length } = upload;
    const expiresAt = now() + restMs;
    const failure = storage.transactionSync((): Result<{ first?: string }> => {
      const taken: Result<{ first?: string }> = claim === undefined ? { ok: true } : claims.take(claim, uploadId);
      if (!taken.ok || taken.first !== undefined) return taken;
      const failure =
        tooMany(rows.countUnfinished(caller.key.id)) ??
        exceedsAllowance(files.allowance(caller.key.id), length === null ? 0 : storedBytes(mode, length));
      if (failure !== undefined) {
        claims.drop(uploadId);
        return failure;
      }
      rows.add(upload, caller.key.id, expiresAt);
      files.setExpiry(uploadId, fileExpiresAt);
      if (isProvisional) files.provisional.add(uploadId, caller.key.id);
      claims.keep(claim, uploadId);
      return taken;
    });
    if (!failure.ok) return failure;
    await alarmBy(expiresAt);
    const stored = rows.find(failure.first ?? uploadId);
    if (stored === undefined) return err('not_found');
    return { ok: true, upload: stored, replayed: failure.first !== undefined };
  }

  /**
   * Returns an upload.
   * @param takeOver whether a request that continues it must stop, once it had time to end by itself
   * @returns `not_found`; `gone` for one that failed, where `takeOver` asks for one that can be continued
   */
  async look(hash: string, uploadId: string, takeOver: boolean): Promise<Result<{ upload: UploadRecord }>> {
    if (!takeOver) return this.#findToManage(hash, uploadId);
    const before = this.#find(hash, uploadId);
    if (!before.ok) return before;
    await this.#running.idle(uploadId, endingMs);
    const found = this.#find(hash, uploadId);
    if (!found.ok) return found;
    const failure = failureOf(found.upload);
    if (failure === undefined) this.#o.rows.setLease(uploadId, null);
    return failure ?? found;
  }

  /** The uploads of the caller's key; with `keys`, those of the account. */
  async list(hash: string): Promise<Result<{ uploads: UploadRecord[] }>> {
    const caller = this.#o.authorize(hash, undefined);
    if (!caller.ok) return caller;
    const { id, scopes } = caller.key;
    const uploads = this.#o.rows.list(scopes.includes('keys') ? undefined : id);
    return { ok: true, uploads: uploads.filter(({ expiresAt }) => expiresAt > this.#o.now()) };
  }

  /**
   * Lets a request continue an upload; an earlier one that still runs must stop.
   * @returns an upload that is not `open` where every byte has arrived; `not_found`, `gone`, `offset_mismatch`,
   * `invalid_request`
   */
  async resume(hash: string, uploadId: string, { lease, offset, length }: Resumption): Promise<Result<Resumed>> {
    const found = this.#find(hash, uploadId);
    if (!found.ok) return found;
    const { rows, parts, files } = this.#o;
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
        const full = exceedsAllowance(files.allowance(upload.apiKey, uploadId), storedBytes(upload.mode, length));
        if (full !== undefined) return full;
        rows.setLength(uploadId, length);
      }
      rows.setLease(uploadId, lease);
      this.#running.begin(uploadId, lease);
    }
    const resumed = { ...upload, length: upload.length ?? length ?? null };
    return { ok: true, upload: resumed, leaves: parts.leaves(uploadId), spki };
  }

  /**
   * Records that leaves of an encrypted upload are about to be sent. Other bytes than before under the same nonces would reveal both,
   * and let others forge chunks: they end the upload.
   * @param first the number of the first one @param digests SHA-256 of each, 32 bytes each, in order
   * @returns `upload_busy`, `upload_changed`
   */
  async show(uploadId: string, lease: string, first: number, digests: Uint8Array): Promise<Result> {
    const { rows } = this.#o;
    if (!rows.isHeld(uploadId, lease)) return takenOver();
    if (rows.show(uploadId, first, digests)) return { ok: true };
    await this.#fail(uploadId, 'upload_changed');
    return err('upload_changed');
  }

  /** Writes the row of a part, then the reference, before the part is pinned. */
  async intendPart(hash: string, lease: string, part: NewPart): Promise<Result<PinPlan>> {
    const { rows, parts, storage, authorize, addReference, alarmBy, flushSoon, now } = this.#o;
    const caller = authorize(hash, 'write');
    if (!caller.ok) return caller;
    if (!rows.isHeld(part.uploadId, lease)) return takenOver();
    // Until it is committed, and long enough for a pin that is on its way.
    parts.intend(part, now() + pendingMs);
    await alarmBy(now() + pendingMs);
    const result = await addReference({ ...part, fileId: part.id, account: caller.account.id, isPart: true });
    if (!result.ok) {
      storage.transactionSync(() => parts.withdraw(part.id, now()));
      await flushSoon();
    }
    return result;
  }

  /**
   * Records how far an upload has come: offset, part, tail and rest together.
   * @returns `upload_busy` where another request has it; `quota_exceeded`, which ends it, where its key has no room for so much
   */
  async commit(
    hash: string,
    uploadId: string,
    lease: string,
    { partId, ending, ...progress }: Commit,
  ): Promise<Result<{ expiresAt: number }>> {
    const { rows, parts, files, storage, authorize, alarmBy, erased, now } = this.#o;
    const caller = authorize(hash, 'write');
    if (!caller.ok) return caller;
    const isReserved = rows.find(uploadId)?.length !== null;
    const allowance = isReserved ? files.allowanceOfReserved(caller.key.id) : files.allowance(caller.key.id, uploadId);
    const full = exceedsAllowance(allowance, progress.offset);
    if (full !== undefined) {
      if (rows.isHeld(uploadId, lease)) await this.#fail(uploadId, full.code);
      return full;
    }
    const expiresAt = now() + restMs;
    const failure = storage.transactionSync((): Failure | undefined => {
      if (!rows.isHeld(uploadId, lease)) return takenOver();
      if (partId !== undefined) {
        if (!parts.commitForGood(partId)) return err('pinning_timeout', 'the part of the upload timed out');
        rows.forgetShown(uploadId, parts.leaves(uploadId));
      }
      rows.advance(uploadId, progress, expiresAt);
      if (ending !== undefined) rows.seal(uploadId, ending, now() + retryMs(1));
      return undefined;
    });
    if (failure !== undefined) return failure;
    await alarmBy(ending === undefined ? expiresAt : now() + retryMs(1));
    if (ending !== undefined) await erased();
    return { ok: true, expiresAt };
  }

  /**
   * Stores the file of an upload whose bytes have all arrived; a large one, and one that cannot be stored now, in the alarm.
   * @returns the CID of the file; `cid_mismatch`
   */
  async finish(uploadId: string, requestId: string): Promise<Result<{ cid: string }>> {
    return await this.#o.finisher.begin(uploadId, requestId);
  }

  /** Says that the request with this lease has ended. */
  async release(uploadId: string, lease: string): Promise<void> {
    this.#running.end(uploadId, lease);
  }

  /** Ends an upload and releases its parts. A file that was stored stays. */
  async remove(hash: string, uploadId: string): Promise<Result> {
    const found = this.#findToManage(hash, uploadId);
    if (!found.ok) return found;
    const { rows, storage, finisher, flushSoon, erased } = this.#o;
    storage.transactionSync(() => {
      finisher.abandon(uploadId);
      rows.remove(uploadId);
    });
    await flushSoon();
    await erased();
    return { ok: true };
  }

  /**
   * Removes the uploads of API keys that are revoked, or all. The caller opens the transaction, and cares for the outbox and for
   * what was overwritten.
   */
  removeOf(apiKeys: readonly string[] | undefined): void {
    const { rows, finisher } = this.#o;
    for (const { uploadId } of rows.unfinished(apiKeys)) {
      finisher.abandon(uploadId);
      rows.remove(uploadId);
    }
    if (apiKeys === undefined) rows.removeAll();
  }

  /** Tells whether an upload has a row. */
  exists(uploadId: string): boolean {
    return this.#o.rows.find(uploadId) !== undefined;
  }

  /** Returns the time at which the alarm must look at the next upload, in ms. */
  nextDue(): number | undefined {
    return this.#o.rows.nextDue();
  }

  /** Removes what has expired, and finishes what is not finished. */
  async sweep(): Promise<void> {
    const { rows, storage, finisher, erased, now } = this.#o;
    const due = rows.due(now());
    const expired = due.filter(({ state }) => state !== 'finishing');
    storage.transactionSync(() => {
      for (const { uploadId } of expired) {
        finisher.abandon(uploadId);
        rows.remove(uploadId);
      }
    });
    if (expired.some(({ state }) => state === 'open')) await erased();
    for (const { uploadId, state, cid } of due) {
      if (state !== 'finishing') continue;
      // The request with its last bytes may have ended before it could ask for this.
      if (cid === null) await finisher.begin(uploadId, crypto.randomUUID());
      else await finisher.attempt(uploadId);
    }
  }

  async #fail(uploadId: string, code: Code): Promise<void> {
    const { storage, finisher, flushSoon, alarmBy, erased, now } = this.#o;
    storage.transactionSync(() => finisher.fail(uploadId, code, now() + endedMs));
    await alarmBy(now() + endedMs);
    await flushSoon();
    await erased();
  }

  /** An upload of the caller's key. */
  #find(hash: string, uploadId: string): Result<{ upload: UploadRecord; spki: Uint8Array }> {
    const caller = this.#o.authorize(hash, 'write');
    return caller.ok ? this.#findOf(caller, uploadId, false) : caller;
  }

  /** The same, or with `keys` any upload of the account. */
  #findToManage(hash: string, uploadId: string): Result<{ upload: UploadRecord }> {
    const caller = this.#o.authorize(hash, undefined);
    return caller.ok ? this.#findOf(caller, uploadId, caller.key.scopes.includes('keys')) : caller;
  }

  #findOf(
    { key, account }: UploadCaller,
    uploadId: string,
    ofAnyKey: boolean,
  ): Result<{ upload: UploadRecord; spki: Uint8Array }> {
    const upload = this.#o.rows.find(uploadId);
    const exists = upload !== undefined && (ofAnyKey || upload.apiKey === key.id) && upload.expiresAt > this.#o.now();
    return exists ? { ok: true, upload, spki: account.spki } : err('not_found');
  }
}

function tooMany({ all, own }: { all: number; own: number }): Failure | undefined {
  if (own >= maxUnfinished.key)
    return err('too_many_uploads', `an API key may have ${maxUnfinished.key} unfinished uploads`);
  if (all >= maxUnfinished.account)
    return err('too_many_uploads', `an account may have ${maxUnfinished.account} unfinished uploads`);
  return undefined;
}

/** Tells why an upload cannot be continued. */
function failureOf({ state, code }: UploadRecord): Failure | undefined {
  if (state !== 'failed') return undefined;
  return err('gone', `the upload has failed: ${describe(code ?? 'internal').title}`);
}

function takenOver(): Failure {
  return err('upload_busy', 'another request has taken the upload over, or ended it');
}
