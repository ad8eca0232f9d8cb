/** The end of an upload: from its parts to a file. It needs no API key. */
import { isSealpinError, SealpinError, type Code } from '../../../../shared/errors.ts';
import { sha256, treeOf } from '../../../../shared/ipfs/index.ts';
import { concat } from '../../../../shared/streams/concat.ts';
import { withStop } from '../../../../shared/streams/timing.ts';
import { errorText, log } from '../../../log.ts';
import { backendOf } from '../../../backends/configured.ts';
import type { Intake } from '../../../backends/contract.ts';
import { importRoot, pinImported } from '../../../backends/import-root.ts';
import { backoffMs } from '../../alarm.ts';
import { intakeOf } from '../../pin/stores/object-intake.ts';
import { objectsOf, parseObjectNames } from '../../pin/stores/object-names.ts';
import { uploadMs } from '../../pin/stores/object-rows.ts';
import { err, toError, unwrap, type Result } from '../../result.ts';
import { WithContext } from '../../with-context.ts';
import type { AccountContext } from '../account-context.ts';
import { addReference } from '../delivery.ts';
import type { NewFile } from '../files/file-rows.ts';
import { referenceRemoval } from '../outbox.ts';
import { totalBytes } from '../keys/reserved.ts';
import type { UploadRecord } from '../uploads/upload-rows.ts';
import { pendingMs } from './pending-calls.ts';

/**
 * Files up to this size are stored while the client waits: pinning takes 2 ms for each MiB where
 * the disk's cache has it.
 */
const waitBytes = 1024 ** 3;
/** The longest time between two attempts, in ms. */
const longestRetryMs = 900_000;
/** Retention of the row of an ended upload, in ms: longer than a claim is kept. */
const endedMs = 2 * 86_400_000;
/**
 * Attempts after which a missing block is lost: what an attempt imports itself may be collected
 * before it is pinned.
 */
const attemptsToLose = 3;

/** Returns the wait after a number of failed attempts, in ms. */
export function retryMs(attempts: number): number {
  return Math.min(backoffMs(attempts), longestRetryMs);
}

/** Leaves that make a file. */
type Leaves = { digests: Uint8Array; bytes: number; lastLeaf: Uint8Array | undefined };

/** Finishes the uploads of an account. */
export class UploadFinisher extends WithContext<AccountContext> {
  /** Attempts that run. An object that starts again has none; its alarm begins another. */
  readonly #running = new Map<string, Promise<void>>();

  /**
   * Finishes an upload: at once, or in the alarm where the file is large.
   * @param requestId of the request with the last bytes, or one for the alarm; it stays with the
   * work
   * @returns the CID of the file; `cid_mismatch`, `gone`, `not_found`
   */
  async begin(uploadId: string, requestId: string): Promise<Result<{ cid: string }>> {
    const { uploads, files, alarm, now } = this.context;
    const upload = uploads.find(uploadId);
    if (upload === undefined) return err('not_found');
    if (upload.state === 'failed') return err(upload.code ?? 'gone');
    const leaves = await this.#leaves(upload);
    const cid = upload.cid ?? (await treeOf(leaves.digests, leaves.bytes)).text;
    if (upload.state === 'done') return { ok: true, cid };
    uploads.update(uploadId, { cid, requestId });
    if (upload.announced !== null && upload.announced !== cid) {
      await this.fail(uploadId, 'cid_mismatch');
      return err('cid_mismatch');
    }
    if (leaves.bytes > waitBytes) {
      // The alarm takes what is due; so far that was left to this call.
      uploads.update(uploadId, { due: now() });
      await alarm.by(now());
    } else await this.attempt(uploadId);
    const { state, code } = uploads.find(uploadId) ?? {};
    // Its key was revoked meanwhile, or it was ended.
    if (state === undefined && files.find(uploadId) === undefined) return err('not_found');
    return state === 'failed' && code ? err(code) : { ok: true, cid };
  }

  /** Makes one attempt, unless one runs. It does not throw: the row says when the next is due. */
  async attempt(uploadId: string): Promise<void> {
    const running = this.#running.get(uploadId) ?? this.#attempt(uploadId);
    this.#running.set(uploadId, running);
    try {
      await running;
    } finally {
      this.#running.delete(uploadId);
    }
  }

  /** Ends an upload without a file. The row remains, and says why. */
  async fail(uploadId: string, code: Code): Promise<void> {
    const { uploads, alarm, erased, now } = this.context;
    const expiresAt = now() + endedMs;
    this.context.transaction(() => {
      abandonUpload(this.context, uploadId);
      uploads.end(uploadId, { state: 'failed', code, expiresAt });
    });
    await alarm.by(expiresAt);
    await this.context.flushSoon();
    await erased();
  }

  async #attempt(uploadId: string): Promise<void> {
    const { uploads, alarm, now } = this.context;
    const upload = uploads.find(uploadId);
    if (upload === undefined || upload.state !== 'finishing') return;
    const attempts = upload.attempts + 1;
    // Before anything goes out: an object that dies while it waits must find the row due.
    const due = now() + retryMs(attempts);
    // The request that had the last bytes may have ended before it could say so.
    const requestId = upload.requestId ?? crypto.randomUUID();
    uploads.update(uploadId, { attempts, due, requestId });
    await alarm.by(due);
    const { signal, stop } = withStop(undefined);
    this.context.finishing.set(uploadId, stop);
    try {
      await this.#store(upload, requestId, signal);
    } catch (error) {
      if (signal.aborted) return;
      log({ event: 'upload.finish', requestId, attempts, error: errorText(error) });
      const code = lastingCode(error, attempts, upload.expiresAt <= now());
      if (code !== undefined) await this.fail(uploadId, code);
    } finally {
      this.context.finishing.delete(uploadId);
    }
  }

  async #store(upload: UploadRecord, requestId: string, signal: AbortSignal): Promise<void> {
    const { uploads, files, parts, row, env, erased, alarm, now } = this.context;
    const { uploadId, createdBy, mode, filename, contentType, beginning } = upload;
    const service = this.#intake(upload, requestId);
    const { digests, bytes, lastLeaf } = await this.#leaves(upload);
    const cid = await importRoot(service, { digests, bytes, lastLeaf, signal });
    if (cid !== upload.cid) throw new SealpinError('internal', 'the parts of an upload are not those that arrived');
    const account = row.open?.id;
    // It was removed in the meantime.
    const current = uploads.find(uploadId);
    if (account === undefined || current?.state !== 'finishing') return;
    // Its header may have been rewrapped since.
    const { header } = current;
    const stored = { fileId: uploadId, cid, service: service.id };
    const about = { mode, filename, contentType, beginning, header, ...files.detailsOf(uploadId) };
    const file: NewFile = { ...stored, ...about, bytes };
    // Without an end of its own: the upload's row says what to undo.
    if (!files.isPending(uploadId)) files.add(file, createdBy, now(), null);
    const plan = await unwrap(addReference(env, { ...stored, account, requestId }));
    await pinImported(service, cid, { bytes, plan, signal, requestId });
    const expiresAt = now() + endedMs;
    this.context.transaction(() => {
      const failure = files.checkAllowance(uploadId, true);
      if (failure !== undefined) throw toError(failure);
      // The pending file is gone if the upload was removed in the meantime.
      if (!files.markReady(uploadId)) return;
      parts.release(uploadId);
      uploads.end(uploadId, { state: 'done', code: null, expiresAt });
    });
    await alarm.by(expiresAt);
    await this.context.flushSoon();
    await erased();
  }

  /** Makes an intake that knows the objects of the parts, where they are some. */
  #intake({ uploadId, service }: UploadRecord, requestId: string): Intake {
    const { env, row, parts } = this.context;
    const pinned = parts.pinned(uploadId);
    const objects = pinned.flatMap(({ cid, bytes }) => {
      const names = parseObjectNames(cid);
      return names === undefined ? [] : objectsOf(names, bytes);
    });
    const before = { objects, digests: concat(...pinned.map(({ digests }) => digests)) };
    const isOngoing = objects.length > 0;
    const options = { account: row.open?.id ?? '', uploadId, numbers: 1, forMs: uploadMs, isOngoing, before };
    return intakeOf(env, backendOf(env, service, requestId), options);
  }

  async #leaves({ uploadId, tail }: UploadRecord): Promise<Leaves> {
    const parts = this.context.parts.pinned(uploadId);
    const before = totalBytes(parts);
    // An empty file is one empty leaf.
    const lastLeaf = tail.length > 0 || before === 0 ? tail : undefined;
    const digests = concat(...parts.map((part) => part.digests), ...(lastLeaf ? [await sha256(lastLeaf)] : []));
    return { digests, bytes: before + tail.length, lastLeaf };
  }
}

/**
 * Removes an upload, in a transaction of the caller's, who cares for the outbox and for what was
 * overwritten. A file that is stored stays.
 */
export function removeUpload(context: AccountContext, uploadId: string): void {
  abandonUpload(context, uploadId);
  context.uploads.remove(uploadId);
}

/** Does so for the unfinished uploads of API keys; without `apiKeys` for those of all keys. */
export function removeUploads(context: AccountContext, apiKeys?: readonly string[]): void {
  for (const { uploadId } of context.uploads.unfinished(apiKeys)) removeUpload(context, uploadId);
}

/** Releases what an upload holds, and ends the attempt to finish it. */
function abandonUpload({ parts, files, claims, outbox, finishing, now }: AccountContext, uploadId: string): void {
  finishing.get(uploadId)?.(new Error('the upload has ended'));
  parts.release(uploadId);
  const pending = files.remove(uploadId, 'pending');
  // A pin of it may still be on its way.
  if (pending !== undefined) outbox.add(referenceRemoval(pending), { dueMs: now() + pendingMs });
  if (files.find(uploadId) === undefined) claims.drop(uploadId);
  files.forget(uploadId);
}

/** The code with which an upload fails for good; undefined where another attempt may succeed. */
function lastingCode(error: unknown, attempts: number, isExpired: boolean): Code | undefined {
  const isMissing = isSealpinError(error) && error.reason === 'blob_unavailable';
  if (isMissing && attempts >= attemptsToLose) return 'pinning_lost';
  if (isSealpinError(error, 'quota_exceeded', 'forbidden', 'gone')) return error.code;
  if (!isExpired) return undefined;
  return isSealpinError(error) ? error.code : 'internal';
}
