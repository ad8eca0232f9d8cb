/** The end of an upload whose bytes have all arrived: from its parts to a file. It needs no API key. */
import { isSealpinError, SealpinError, type Code } from '../../../../shared/errors.ts';
import { sha256, treeOf } from '../../../../shared/ipfs/index.ts';
import { concat } from '../../../../shared/streams/concat.ts';
import { errorText, log } from '../../../log.ts';
import type { Intake } from '../../../backends/contract.ts';
import { importRoot } from '../../../backends/import-root.ts';
import { backoffMs } from '../../alarm.ts';
import type { Claims } from './claims.ts';
import type { Files, NewFile } from '../files/file-rows.ts';
import { referenceRemoval, type Outbox } from '../outbox.ts';
import type { Parts } from './parts.ts';
import { pendingMs } from './pending-uploads.ts';
import type { PinPlan } from '../../pin/pin-ownership.ts';
import type { Reference } from '../../pin/pin-table.ts';
import { err, toError, unwrap, type Result } from '../../result.ts';
import type { UploadRecord, UploadRows } from './upload-rows.ts';

/** Files up to this size are stored while the client waits: pinning takes 2 ms for each MiB where the disk's cache has it. */
const waitBytes = 1024 ** 3;
/** The longest time between two attempts, in ms. */
const longestRetryMs = 900_000;
/**
 * Attempts after which a missing block is lost: what an attempt imports itself may be collected before it is pinned.
 */
const attemptsToLose = 3;

/** Returns the wait after a number of failed attempts, in ms. */
export function retryMs(attempts: number): number {
  return Math.min(backoffMs(attempts), longestRetryMs);
}

/** Context that uploads share with the object that they belong to. */
export type UploadContext = {
  storage: DurableObjectStorage;
  parts: Parts;
  files: Files;
  claims: Claims;
  outbox: Outbox;
  /** The ID of the account; undefined where it is deleted. */
  account(): string | undefined;
  /** What takes the rest of an upload. @throws pinning_unavailable where its backend is not configured any more */
  intake(upload: UploadRecord, requestId: string): Intake;
  /** Adds a reference, whose row is written already. */
  addReference(reference: Reference): Promise<Result<PinPlan>>;
  /** Rings the alarm at that time (in ms) or before. */
  alarmBy(dueMs: number): Promise<void>;
  /** Rings the alarm for what is due in the outbox, and for the next file that expires. */
  flushSoon(): Promise<void>;
  /** Runs after secrets are overwritten. */
  erased(): Promise<void>;
  now(): number;
};

type Options = UploadContext & {
  rows: UploadRows;
  /** Retention of the row of an ended upload, in ms. */
  endedMs: number;
};

/** Leaves that make a file. */
type Leaves = { digests: Uint8Array; bytes: number; lastLeaf: Uint8Array | undefined };

/** Finishes the uploads of an account. */
export class UploadFinisher {
  readonly #o: Options;
  /** Attempts that run. An object that is started again has none, and its alarm begins another one. */
  readonly #running = new Map<string, Promise<void>>();

  constructor(options: Options) {
    this.#o = options;
  }

  /**
   * Finishes an upload: at once, or in the alarm where the file is large.
   * @param requestId of the request with the last bytes, or one for the alarm; it stays with the work
   * @returns the CID of the file; `cid_mismatch`, `gone`, `not_found`
   */
  async begin(uploadId: string, requestId: string): Promise<Result<{ cid: string }>> {
    const { rows, alarmBy, now } = this.#o;
    const upload = rows.find(uploadId);
    if (upload === undefined) return err('not_found');
    if (upload.state === 'failed') return err(upload.code ?? 'gone');
    const leaves = await this.#leaves(upload);
    const cid = upload.cid ?? (await treeOf(leaves.digests, leaves.bytes)).text;
    if (upload.state === 'done') return { ok: true, cid };
    rows.finish(uploadId, cid, requestId);
    if (upload.announced !== null && upload.announced !== cid) {
      await this.#failNow(uploadId, 'cid_mismatch');
      return err('cid_mismatch');
    }
    if (leaves.bytes > waitBytes) {
      // The alarm takes what is due; so far that was left to this call.
      rows.setDue(uploadId, now());
      await alarmBy(now());
    } else await this.attempt(uploadId);
    const { state, code } = rows.find(uploadId) ?? {};
    return state === 'failed' && code ? err(code) : { ok: true, cid };
  }

  /** Makes one attempt, unless one runs. It does not throw: the row says when the next one is due. */
  async attempt(uploadId: string): Promise<void> {
    const running = this.#running.get(uploadId) ?? this.#attempt(uploadId);
    this.#running.set(uploadId, running);
    try {
      await running;
    } finally {
      this.#running.delete(uploadId);
    }
  }

  /** Ends an upload without a file, in a transaction of the caller's. The row remains, and says why. */
  fail(uploadId: string, code: Code, expiresAtMs: number): void {
    this.abandon(uploadId);
    this.#o.rows.end(uploadId, { state: 'failed', code, expiresAtMs });
  }

  /** Releases what an upload holds, in a transaction of the caller's. A file that is stored stays. */
  abandon(uploadId: string): void {
    const { parts, files, claims, outbox, now } = this.#o;
    parts.release(uploadId);
    const pending = files.remove(uploadId, 'pending');
    // A pin of it may be on its way.
    if (pending !== undefined) outbox.add(referenceRemoval(pending), { dueMs: now() + pendingMs });
    if (files.find(uploadId) === undefined) claims.drop(uploadId);
    files.forget(uploadId);
  }

  async #attempt(uploadId: string): Promise<void> {
    const { rows, alarmBy, now } = this.#o;
    const upload = rows.find(uploadId);
    if (upload === undefined || upload.state !== 'finishing') return;
    const attempts = upload.attempts + 1;
    // Before anything goes out: an object that dies while it waits must find the row due.
    const due = now() + retryMs(attempts);
    // The request that had the last bytes may have ended before it could say so.
    const { requestId = crypto.randomUUID() } = upload;
    rows.attempt(uploadId, attempts, due, requestId);
    await alarmBy(due);
    try {
      await this.#store(upload, requestId);
    } catch (error) {
      log({ event: 'upload.finish', requestId, attempts, error: errorText(error) });
      const code = lastingCode(error, attempts, upload.expiresAt <= now());
      if (code !== undefined) await this.#failNow(uploadId, code);
    }
  }

  async #store(upload: UploadRecord, requestId: string): Promise<void> {
    const { rows, files, parts, storage, account, addReference, flushSoon, erased, alarmBy, endedMs, now } = this.#o;
    const { uploadId, apiKey, mode, filename, contentType, beginning, header } = upload;
    const service = this.#o.intake(upload, requestId);
    const { digests, bytes, lastLeaf } = await this.#leaves(upload);
    // The service's own time limits end a step that takes too long.
    const { signal } = new AbortController();
    const cid = await importRoot(service, { digests, bytes, lastLeaf, signal });
    if (cid !== upload.cid) throw new SealpinError('internal', 'the parts of an upload are not those that arrived');
    const owner = account();
    // It was removed in the meantime.
    if (owner === undefined || rows.find(uploadId)?.state !== 'finishing') return;
    const about = { filename, contentType, header, expiresAt: files.expiryOf(uploadId) };
    const file: NewFile = { fileId: uploadId, mode, ...about, bytes, beginning, cid, service: service.id };
    // Without an end of its own: the upload's row says what to undo.
    if (!files.isPending(uploadId)) files.add(file, apiKey, now(), null);
    const plan = await unwrap(addReference({ cid, service: service.id, fileId: uploadId, account: owner, requestId }));
    if (!plan.pinned) await service.pin(cid, { bytes, beside: plan.beside, signal });
    else await service.abandon?.();
    storage.transactionSync(() => {
      const failure = files.checkAllowance(uploadId, true);
      if (failure !== undefined) throw toError(failure);
      // The pending file is gone if the upload was removed in the meantime.
      if (!files.markReady(uploadId)) return;
      parts.release(uploadId);
      rows.end(uploadId, { state: 'done', code: null, expiresAtMs: now() + endedMs });
    });
    await alarmBy(now() + endedMs);
    await flushSoon();
    await erased();
  }

  async #leaves({ uploadId, tail }: UploadRecord): Promise<Leaves> {
    const parts = this.#o.parts.pinned(uploadId);
    const before = parts.reduce((sum, part) => sum + part.bytes, 0);
    // An empty file is one empty leaf.
    const lastLeaf = tail.length > 0 || before === 0 ? tail : undefined;
    const digests = concat(...parts.map((part) => part.digests), ...(lastLeaf ? [await sha256(lastLeaf)] : []));
    return { digests, bytes: before + tail.length, lastLeaf };
  }

  async #failNow(uploadId: string, code: Code): Promise<void> {
    const { storage, alarmBy, flushSoon, erased, endedMs, now } = this.#o;
    storage.transactionSync(() => this.fail(uploadId, code, now() + endedMs));
    await alarmBy(now() + endedMs);
    await flushSoon();
    await erased();
  }
}

/** The code with which an upload fails for good; undefined where another attempt may succeed. */
function lastingCode(error: unknown, attempts: number, isExpired: boolean): Code | undefined {
  const isMissing = isSealpinError(error) && error.reason === 'blob_unavailable';
  if (isMissing && attempts >= attemptsToLose) return 'pinning_lost';
  if (isSealpinError(error, 'quota_exceeded') || isSealpinError(error, 'forbidden')) return error.code;
  if (!isExpired) return undefined;
  return isSealpinError(error) ? error.code : 'internal';
}
