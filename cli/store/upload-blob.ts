/** Storing a container by a resumable upload, which the same command continues after a kill. */
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { abandonMs, isTemporaryFailure } from '../../client/attempts.ts';
import * as tus from '../../client/resumable-upload.ts';
import { type Identity, open, parseApiKey, type UploadSeal, uploadSeal } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError, otherwise } from '../../shared/errors.ts';
import { bytesFrom } from '../io/byte-stream.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { sizeText } from '../terminal/size.ts';
import { uploadTransport } from '../remote/client.ts';
import type { Destination } from './limits.ts';
import { hasSpool, openSpool, type SourceMark, type Spool, spoolIds, type SpoolState } from './spool.ts';
import { refuseOther } from './store-blob.ts';

/** An encrypted file. `fileKey`: opens a payload that has no header. */
export type EncryptedFile = {
  readonly stream: ReadableStream<Uint8Array>;
  readonly bytes: number | undefined;
  readonly fileKey?: Uint8Array | undefined;
};

export type Uploading = Destination & {
  /** Names the spool: the same for the same command (`spoolId`). */
  readonly id: string;
  /** The file as the user named it. */
  readonly name: string;
  /** Present state of the file; undefined for a pipe. */
  readonly source: SourceMark | undefined;
  /**
   * Opens what this command would encrypt, where it can; an older spool must be one that it opens.
   */
  readonly identity?: Identity | undefined;
  /** Encrypts the file from its first byte. */
  readonly encrypt: () => Promise<EncryptedFile>;
  /**
   * Keeps the ciphertext after the file is stored, for a command that does more with it and may
   * fail: its next run finds the file stored. Then that command ends it (`forgetUpload`), and says
   * what can be continued.
   */
  readonly keep?: boolean;
  readonly context: Context;
};

/** An upload that nobody continued for so long is ended: the service keeps it no longer, either. */
const maxAgeMs = 7 * 24 * 3600 * 1000;
/** Number of times that an upload is created, where the service loses it. */
const maxCreations = 3;

/**
 * Stores a file by a resumable upload, and continues the one that an earlier run of the same
 * command left.
 *
 * @throws conflict while another process does the same, disk_full, cid_mismatch, what the service
 * refuses with and, with a hint that the same command continues, service_unreachable and other
 * temporary failures
 */
export async function upload(
  options: Uploading,
): Promise<tus.UploadedFile & { readonly size: number; readonly fileKey?: Uint8Array | undefined }> {
  const overTus = { ...options, transport: uploadTransport(options.service, options.context) };
  await removeLeftovers(overTus);
  const spool = await openSpool(options.id, options.context);
  const o = { ...overTus, spool };
  try {
    return await storeSpooled(o);
  } catch (error) {
    throw await afterFailure(error, o);
  } finally {
    await spool.release();
  }
}

/** Removes what an upload kept, which nothing continues any more. Fails as `openSpool`. */
export async function forgetUpload(id: string, context: Context): Promise<void> {
  if (!hasSpool(context.dataDir, id)) return;
  const spool = await openSpool(id, context);
  try {
    await spool.empty();
  } finally {
    await spool.release();
  }
}

/** An upload by tus. */
type TusUpload = Uploading & { readonly transport: tus.Transport };
/** The same of the ciphertext in a spool. */
type SpooledUpload = TusUpload & { readonly spool: Spool };

async function storeSpooled(o: SpooledUpload): ReturnType<typeof upload> {
  const { spool, routes, keep = false } = o;
  const older = await olderState(o);
  const state = older ?? (await encryptIntoSpool(o));
  const { bytes: size, cid, sealedKey } = state;
  const file = { ...(await sendUntilStored(state, older?.uploadId !== undefined, o)), size };
  await refuseOther(file, { cid, bytes: size }, routes);
  const fileKey = sealedKey === undefined ? undefined : await openKey(sealedKey, o);
  if (!keep) await spool.empty();
  return { ...file, fileKey };
}

/** The older upload that this command continues. Any other is abandoned, and it is said why. */
async function olderState(o: SpooledUpload): Promise<SpoolState | undefined> {
  const { spool, name, context } = o;
  const { state } = spool;
  const reason = state && (await reasonAgainst(state, o));
  if (state === undefined || reason === undefined) return state;
  context.output.note(`the interrupted upload of ${name} is not continued: ${reason}; it starts afresh`);
  await abandon(spool, o);
  return undefined;
}

async function reasonAgainst({ source, sealedKey, bytes }: SpoolState, o: SpooledUpload): Promise<string | undefined> {
  const { source: current, identity } = o;
  if (source === undefined || current === undefined) return 'what came through the pipe cannot be read again';
  const { nlink = current.nlink, ...marks } = source;
  const isChanged = (name: keyof typeof marks): boolean =>
    // A name more or less changes the time, too, as in `hasChanged`.
    marks[name] !== current[name] && (name !== 'ctimeNs' || nlink === current.nlink);
  if ((Object.keys(marks) as (keyof typeof marks)[]).some(isChanged))
    return 'the file or its permissions have changed since';
  if (sealedKey !== undefined && (await openKey(sealedKey, o).catch(() => undefined)) === undefined)
    return 'the API key does not open what was kept of it';
  if (identity === undefined || (await isOpenedBy(identity, bytes, o))) return undefined;
  return 'it was encrypted with another password';
}

/** Checks that the user can open the spooled container: its header is opened, and no more. */
async function isOpenedBy(identity: Identity, length: number, { spool, context }: SpooledUpload): Promise<boolean> {
  const progress = context.output.progress('deriving the key from the password');
  try {
    const bytes = spool.source().read(0, length)[Symbol.asyncIterator]();
    const stream = bytesFrom({
      next: async () => (await bytes.next()).value as Uint8Array | undefined,
      cancel: async () => void (await bytes.return?.()),
    });
    const container = await open(stream, { provider: nodeProvider });
    if (container.kind === 'plain' || container.kind === 'detached') return false;
    await cancelQuietly(await container.decrypt([identity]));
    return true;
  } catch (error) {
    if (isSealpinError(error, 'file_unreadable')) throw error;
    return false;
  } finally {
    progress.done();
  }
}

/**
 * Seals a file key for its upload, as the service seals those of its own.
 * @throws unauthorized for a mistyped API key
 */
async function keySeal({ id, service }: Uploading): Promise<UploadSeal> {
  const key = await parseApiKey(service.apiKey ?? '');
  if (key === undefined)
    throw new SealpinError('unauthorized', 'the API key is mistyped: its checksum does not match', {
      hint: 'copy all of it again',
    });
  return uploadSeal(key, { uploadId: id, preamble: new Uint8Array(0) });
}

async function openKey(sealedKey: string, o: Uploading): Promise<Uint8Array> {
  return (await keySeal(o)).open(Buffer.from(sealedKey, 'base64'));
}

async function encryptIntoSpool(o: SpooledUpload): Promise<SpoolState> {
  const { spool, context, service, keyId, source } = o;
  const { output, now, signal } = context;
  const container = await o.encrypt();
  const { fileKey } = container;
  const sealedKey = fileKey === undefined ? undefined : await (await keySeal(o)).seal(fileKey);
  const size = container.bytes === undefined ? '' : ` of ${sizeText(container.bytes)}`;
  output.note(`encrypting into a copy${size} on this disk, so that the upload can continue after a break`);
  const progress = output.progress('encrypting', container.bytes);
  const about = {
    service: service.url.href,
    keyId,
    source,
    idempotencyKey: crypto.randomUUID(),
    sealedKey: sealedKey === undefined ? undefined : Buffer.from(sealedKey).toString('base64'),
    startedAt: new Date(now()).toISOString(),
  };
  const state = await spool.fill(container, about, (bytes) => {
    signal.throwIfAborted();
    progress.add(bytes);
  });
  progress.done();
  return state;
}

/**
 * Sends the ciphertext. An upload that the service has lost is created again with the same bytes.
 */
async function sendUntilStored(state: SpoolState, isResumed: boolean, o: SpooledUpload): Promise<tus.UploadedFile> {
  const { spool, routes, context, name } = o;
  let current = state;
  for (let creations = 1; ; creations += 1) {
    try {
      return await createAndSend(current, isResumed && creations === 1, o);
    } catch (error) {
      const { uploadId, ...rest } = spool.state ?? current;
      if (!isSealpinError(error, 'gone') || uploadId === undefined || creations === maxCreations) throw error;
      // It may have been finished long ago, by a run that was killed before it could say so.
      // Without the scope for it, nobody can tell.
      const listed = await otherwise(routes.list({ cid: rest.cid, limit: 1 }), 'insufficient_scope', undefined);
      const stored = listed?.files[0];
      if (stored !== undefined) return stored;
      context.output.note(`the service no longer has the upload of ${name}; it starts again at the first byte`);
      current = await spool.save({ ...rest, idempotencyKey: crypto.randomUUID() });
    }
  }
}

/** Creates the upload unless it is there, asks for its offset, and sends the rest. */
async function createAndSend(state: SpoolState, isResumed: boolean, o: SpooledUpload): Promise<tus.UploadedFile> {
  const { spool, transport, context, name, limits, provisional } = o;
  const { output, signal, now } = context;
  let shown = 0;
  let taken = isResumed ? undefined : 0;
  let progress: ReturnType<typeof output.progress> | undefined;
  let isBroken = false;
  const onRetry = (failure: SealpinError): void => {
    // Once for each break, and not for each attempt.
    if (!isBroken) output.note(`${failure.message}; trying again, from where the service stopped`);
    isBroken = true;
  };
  const uploadId =
    state.uploadId ?? (await tus.createUpload(transport, { ...state, provisional }, { signal, onRetry }));
  if (state.uploadId === undefined) await spool.save({ ...state, uploadId });
  const file = await tus.sendUpload(transport, uploadId, spool.source(), {
    signal,
    maxBodyBytes: limits.requestBytes,
    onOffset(offset) {
      isBroken = false;
      if (offset > (taken ?? offset)) spool.continued(now());
      taken = offset;
      if (progress === undefined) {
        if (isResumed)
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

/** Keeps what another run can continue, abandons the rest, and says which. */
async function afterFailure(error: unknown, o: SpooledUpload): Promise<unknown> {
  const { spool, context, source, keep = false } = o;
  const canContinue = source !== undefined && isWorthRetrying(error, context);
  if (spool.state !== undefined && canContinue) return keep ? error : withResumeHint(error, context);
  await abandon(spool, o);
  if (context.signal.aborted && !keep) context.output.note('nothing was stored: the same command begins again');
  return error;
}

/**
 * Tells whether the same command may succeed later: it was interrupted, or the failure may pass.
 */
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
  if (signal.aborted) output.note(hint);
  if (signal.aborted || !isSealpinError(error)) return error;
  const { code, message, reason, retryAfterSeconds } = error;
  return new SealpinError(code, message, { hint, cause: error, reason, retryAfterSeconds });
}

/** Removes a spool, and ends its upload if it has one, and the service can be asked. */
async function abandon(spool: Spool, o: TusUpload): Promise<void> {
  const { state } = spool;
  await spool.empty();
  if (state?.uploadId === undefined || state.service !== o.service.url.href || state.keyId !== o.keyId) return;
  await tus.endUpload(o.transport, state.uploadId, AbortSignal.timeout(abandonMs)).catch(() => undefined);
}

/** Removes the spools that nobody can or will continue. */
async function removeLeftovers(o: TusUpload): Promise<void> {
  for (const id of await spoolIds(o.context.dataDir)) {
    // What another process has is no leftover.
    const spool = await otherwise(openSpool(id, o.context), 'conflict', undefined);
    try {
      if (spool !== undefined) await removeIfLeft(id, spool, o);
    } finally {
      await spool?.release();
    }
  }
}

async function removeIfLeft(id: string, spool: Spool, o: TusUpload): Promise<void> {
  const { output, now } = o.context;
  const { state, isIncomplete } = spool;
  if (id === o.id && isIncomplete)
    output.note(`the interrupted upload of ${o.name} cannot be continued: it was not encrypted to its end`);
  const ageMs = state === undefined ? Infinity : now() - spool.continuedAt;
  if (state?.source !== undefined && ageMs <= maxAgeMs) return;
  if (state?.source !== undefined)
    output.note(`removed the copy of ${state.source.path} of an upload that was interrupted over 7 days ago`);
  await abandon(spool, o);
}
