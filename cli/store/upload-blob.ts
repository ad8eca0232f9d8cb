/** Storing a container by a resumable upload: in one run or, after a kill, in the next run of the same command. */
import { isTemporaryFailure } from '../../client/attempts.ts';
import {
  createUpload,
  endUpload,
  sendUpload,
  type Transport,
  type UploadedFile,
} from '../../client/resumable-upload.ts';
import { type Identity, open, parseApiKey, type UploadSeal, uploadSeal } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError, otherwise } from '../../shared/errors.ts';
import { bytesFrom } from '../io/byte-stream.ts';
import type { Context } from '../context.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { sizeText } from '../terminal/progress.ts';
import type { Api } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';
import { hasSpool, openSpool, type SourceMark, type Spool, spoolIds, type SpoolState } from './spool.ts';
import { refuseOther } from './store-blob.ts';
import { uploadTransport } from './upload-transport.ts';

export type Uploading = {
  /** Names the spool: the same for the same command (`spoolId`). */
  readonly id: string;
  /** The file as the user named it. */
  readonly name: string;
  /** Present state of the file; undefined for a pipe. */
  readonly source: SourceMark | undefined;
  /** Opens what this command would encrypt, where it can; an older spool must be one that it opens. */
  readonly identity: Identity | undefined;
  /** Encrypts the file from its first byte. `fileKey`: of a payload that has no header. */
  readonly encrypt: () => Promise<{
    readonly stream: ReadableStream<Uint8Array>;
    readonly bytes: number | undefined;
    readonly fileKey?: Uint8Array | undefined;
  }>;
  /**
   * Keeps the ciphertext after the file is stored, for a command that does more with it and may fail: its next run
   * finds the file stored. Then that command ends it (`forgetUpload`), and says what can be continued.
   */
  readonly keep: boolean;
  /** Asks the service to keep the file only if a parcel names it. */
  readonly provisional?: boolean | undefined;
  readonly service: Service;
  readonly keyId: string;
  readonly api: Api;
  /** The longest request body that the service takes; null: any. */
  readonly maxUploadBytes: number | null;
  readonly context: Context;
};

/** An upload that nobody continued for so long is ended: the service keeps it no longer, either. */
const maxAgeMs = 7 * 24 * 3600 * 1000;
/** Number of times that an upload lost by the service is begun again. */
const maxBeginnings = 3;

/**
 * Stores a file by a resumable upload, and continues the one that an earlier run of the same command left.
 *
 * @throws conflict while another process does the same, disk_full, cid_mismatch, what the service refuses with and, with a hint that
 *   the same command continues, service_unreachable and other temporary failures
 */
export async function upload(
  o: Uploading,
): Promise<UploadedFile & { readonly size: number; readonly fileKey?: Uint8Array | undefined }> {
  const { context, api } = o;
  const transport = uploadTransport(o.service, context);
  await removeLeftovers(o, transport);
  const spool = await openSpool(o.id, context);
  try {
    await keepOnlyUsable(spool, o, transport);
    const isOlder = spool.state !== undefined;
    if (!isOlder) await fill(spool, o);
    const { bytes: size, cid, sealedKey } = computed(spool);
    const file = { ...(await send(spool, isOlder, o, transport)), size };
    await refuseOther(file, { cid, bytes: size }, api);
    const fileKey = sealedKey === undefined ? undefined : await unsealed(sealedKey, o);
    if (!o.keep) await spool.empty();
    return { ...file, fileKey };
  } catch (error) {
    throw await afterFailure(spool, error, o, transport);
  } finally {
    await spool.release();
  }
}

/** Removes what an upload kept, if it kept anything: nothing continues it any more. Fails as `openSpool`. */
export async function forgetUpload(id: string, context: Context): Promise<void> {
  if (!(await hasSpool(context.dataDir, id))) return;
  const spool = await openSpool(id, context);
  try {
    await spool.empty();
  } finally {
    await spool.release();
  }
}

function computed({ state }: Spool): SpoolState {
  if (state === undefined) throw new TypeError('a spool without ciphertext');
  return state;
}

/** Ends an older upload that this command must not continue, and says why. */
async function keepOnlyUsable(spool: Spool, o: Uploading, transport: Transport): Promise<void> {
  const { state } = spool;
  if (state === undefined) return;
  const reason = await reasonAgainst(spool, state, o);
  if (reason === undefined) return;
  o.context.output.note(`the interrupted upload of ${o.name} is not continued: ${reason}; it starts afresh`);
  await end(spool, state, o, transport);
}

async function reasonAgainst(spool: Spool, state: SpoolState, o: Uploading): Promise<string | undefined> {
  const { source } = state;
  if (source === undefined || o.source === undefined) return 'what came through the pipe cannot be read again';
  const names = ['path', 'size', 'mtimeNs', 'dev', 'ino'] as const;
  if (names.some((name) => source[name] !== o.source?.[name])) return 'the file has changed since';
  if (state.sealedKey !== undefined && (await unsealed(state.sealedKey, o).catch(() => undefined)) === undefined)
    return 'the API key does not open what was kept of it';
  if (o.identity === undefined || (await opens(spool, state, o.identity, o.context))) return undefined;
  return 'it was encrypted with another password';
}

/** Checks that the user can open the spooled container: its header is opened, and no more. */
async function opens(spool: Spool, state: SpoolState, identity: Identity, { output }: Context): Promise<boolean> {
  const progress = output.progress('deriving the key from the password');
  try {
    const bytes = spool.source().read(0, state.bytes)[Symbol.asyncIterator]();
    const stream = bytesFrom({
      next: async () => (await bytes.next()).value as Uint8Array | undefined,
      cancel: async () => void (await bytes.return?.()),
    });
    const container = await open(stream, { backend: nodeBackend });
    if (container.kind === 'plain' || container.kind === 'detached') return false;
    await (await container.decrypt([identity])).cancel();
    return true;
  } catch (error) {
    if (isSealpinError(error, 'file_unreadable')) throw error;
    return false;
  } finally {
    progress.done();
  }
}

/** Seals a file key for its upload, as the service seals those of its own. @throws unauthorized for a mistyped API key */
async function keySeal({ id, service }: Uploading): Promise<UploadSeal> {
  const key = await parseApiKey(service.apiKey ?? '');
  if (key === undefined)
    throw new SealpinError('unauthorized', 'the API key is mistyped: its checksum does not match', {
      hint: 'copy all of it again',
    });
  return uploadSeal(key, { uploadId: id, preamble: new Uint8Array(0) });
}

async function unsealed(sealedKey: string, o: Uploading): Promise<Uint8Array> {
  return (await keySeal(o)).open(Buffer.from(sealedKey, 'base64'));
}

async function fill(spool: Spool, o: Uploading): Promise<void> {
  const { output, now } = o.context;
  const container = await o.encrypt();
  const { fileKey } = container;
  const sealedKey = fileKey === undefined ? undefined : await (await keySeal(o)).seal(fileKey);
  const size = container.bytes === undefined ? '' : ` of ${sizeText(container.bytes)}`;
  output.note(`encrypting into a copy${size} on this disk, so that the upload can continue after a break`);
  const progress = output.progress('encrypting', container.bytes);
  const about = {
    service: o.service.url.href,
    keyId: o.keyId,
    source: o.source,
    idempotencyKey: crypto.randomUUID(),
    sealedKey: sealedKey === undefined ? undefined : Buffer.from(sealedKey).toString('base64'),
    startedAt: new Date(now()).toISOString(),
  };
  await spool.fill(container, about, progress.add);
  progress.done();
}

/** Sends the ciphertext. An upload that the service has lost begins again with the same bytes. */
async function send(spool: Spool, isOlder: boolean, o: Uploading, transport: Transport): Promise<UploadedFile> {
  let isContinued = isOlder && computed(spool).uploadId !== undefined;
  for (let beginnings = 1; ; beginnings += 1) {
    try {
      return await sendOnce(spool, isContinued, o, transport);
    } catch (error) {
      const { uploadId, ...state } = computed(spool);
      if (!isSealpinError(error, 'gone') || uploadId === undefined || beginnings === maxBeginnings) throw error;
      // It may have been finished long ago, by a run that was killed before it could say so.
      // Without the scope for it, nobody can tell.
      const listed = await otherwise(o.api.list({ cid: state.cid, limit: 1 }), 'insufficient_scope', undefined);
      const stored = listed?.files[0];
      if (stored !== undefined) return stored;
      o.context.output.note(`the service no longer has the upload of ${o.name}; it starts again at the first byte`);
      await spool.save({ ...state, idempotencyKey: crypto.randomUUID() });
      isContinued = false;
    }
  }
}

async function sendOnce(
  spool: Spool,
  isContinued: boolean,
  { context, name, maxUploadBytes, provisional }: Uploading,
  transport: Transport,
): Promise<UploadedFile> {
  const { output, signal } = context;
  const state = computed(spool);
  let shown = 0;
  let progress: ReturnType<typeof output.progress> | undefined;
  let isBroken = false;
  const onRetry = (failure: SealpinError): void => {
    // Once for each break, and not for each attempt.
    if (!isBroken) output.note(`${failure.message}; trying again, from where the service stopped`);
    isBroken = true;
  };
  const uploadId = state.uploadId ?? (await createUpload(transport, { ...state, provisional }, { signal, onRetry }));
  if (state.uploadId === undefined) await spool.save({ ...state, uploadId });
  const file = await sendUpload(transport, uploadId, spool.source(), {
    signal,
    maxBodyBytes: maxUploadBytes,
    onOffset(offset) {
      isBroken = false;
      if (progress === undefined) {
        if (isContinued)
          output.note(`continuing the upload of ${name} at ${sizeText(offset)} of ${sizeText(state.bytes)}`);
        progress = output.progress('uploading', state.bytes, { from: offset });
        shown = offset;
      }
      progress.add(offset - shown);
      shown = offset;
    },
    onBytes(bytes) {
      progress?.add(bytes);
      shown += bytes;
    },
    onRetry,
  });
  progress?.done();
  return file;
}

/** Keeps what another run can continue, ends the rest, and says which. */
async function afterFailure(spool: Spool, error: unknown, o: Uploading, transport: Transport): Promise<unknown> {
  const { state } = spool;
  const canContinue = o.source !== undefined && isWorthRetrying(error, o.context);
  if (state === undefined || !canContinue) {
    await (state === undefined ? spool.empty() : end(spool, state, o, transport));
    if (o.context.signal.aborted && !o.keep) o.context.output.note('nothing was stored: the same command begins again');
    return error;
  }
  return o.keep ? error : withResumeHint(error, o.context);
}

/** Tells whether the same command may succeed later: it was interrupted, or the failure may pass. */
export function isWorthRetrying(error: unknown, { signal }: Pick<Context, 'signal'>): boolean {
  return signal.aborted || isTemporaryFailure(error);
}

/** Says that the same command continues. @returns the error, with that as its hint */
export function withResumeHint(
  error: unknown,
  { signal, output }: Pick<Context, 'signal' | 'output'>,
  within = '7 days',
): unknown {
  const hint = `to continue the upload, run the same command again within ${within}`;
  if (!signal.aborted) return withHint(error, hint);
  output.note(hint);
  return error;
}

function withHint(error: unknown, hint: string): unknown {
  if (!(error instanceof SealpinError)) return error;
  return new SealpinError(error.code, error.message, {
    hint,
    cause: error,
    reason: error.reason,
    retryAfterSeconds: error.retryAfterSeconds,
  });
}

/** Removes a spool, and ends its upload if the service can be asked; it ends itself in some days, too. */
async function end(spool: Spool, state: SpoolState, o: Uploading, transport: Transport): Promise<void> {
  const { uploadId, service, keyId } = state;
  await spool.empty();
  if (uploadId === undefined || service !== o.service.url.href || keyId !== o.keyId) return;
  // If it cannot be asked now, it ends the upload itself in some days.
  await endUpload(transport, uploadId, AbortSignal.timeout(endMs)).catch(() => undefined);
}

const endMs = 10_000;

/** Removes the spools that nobody can or will continue. */
async function removeLeftovers(o: Uploading, transport: Transport): Promise<void> {
  const { dataDir, output, now } = o.context;
  for (const id of await spoolIds(dataDir)) {
    let spool;
    try {
      spool = await openSpool(id, o.context);
    } catch (error) {
      if (isSealpinError(error, 'conflict')) continue;
      throw error;
    }
    try {
      const { state, isIncomplete } = spool;
      if (id === o.id && isIncomplete)
        output.note(`the interrupted upload of ${o.name} cannot be continued: it was not encrypted to its end`);
      const ageMs = state === undefined ? Infinity : now() - Date.parse(state.startedAt);
      if (state?.source !== undefined && ageMs <= maxAgeMs) continue;
      if (state?.source !== undefined)
        output.note(`removed the copy of ${state.source.path} of an upload that was interrupted over 7 days ago`);
      if (state === undefined) await spool.empty();
      else await end(spool, state, o, transport);
    } finally {
      await spool.release();
    }
  }
}
