/**
 * Storing a file encrypted: in one request or, where it is large, breaks off in the middle of much
 * or has to wait, by a resumable upload.
 */
import { resolve } from 'node:path';
import { maxRetryAfterSeconds } from '../../client/attempts.ts';
import type { StoredFile } from '../../shared/api.ts';
import { isSealpinError } from '../../shared/errors.ts';
import { peeked } from '../../shared/streams/pulled.ts';
import { sleep } from '../../shared/streams/timing.ts';
import type { Context } from '../context.ts';
import { type Input, openInput } from '../io/input.ts';
import { localPaths } from '../local/state.ts';
import { type Destination, refuseLarge } from './limits.ts';
import { hasSpool, type SourceMark, spoolId } from './spool.ts';
import { bodyBytesOf, bufferedBytes, store } from './store-blob.ts';
import { type EncryptedFile, upload, type Uploading } from './upload-blob.ts';

/** An encrypted file. `expectedBytes`: about how many, for the progress. */
export type Container = EncryptedFile & { readonly expectedBytes: number | undefined };

/** A stored file, without pins after a resumable upload. `size` is that of the container. */
export type StoredContainer = Pick<StoredFile, 'fileId' | 'cid' | 'size'> & {
  readonly pins?: StoredFile['pins'];
  /** File key that opens a payload without a header. */
  readonly fileKey?: Uint8Array | undefined;
};

/** A broken upload of less is begun again by hand more quickly than it is continued. */
const worthContinuingBytes = 16 * 1024 * 1024;

/**
 * Names the upload of a file: the same for the same command, and another one each time for a pipe.
 *
 * @param o.path as given, or `-`
 * @param o.kind tells one way to encrypt from another
 */
export function uploadIdOf(
  input: Input,
  o: Pick<Destination, 'service' | 'keyId'> & {
    readonly path: string;
    readonly kind: readonly string[];
    readonly context: Context;
  },
): string {
  const path = resolve(o.context.cwd, o.path);
  const source = markOf(path, input) === undefined ? crypto.randomUUID() : path;
  return spoolId([o.service.url.href, o.keyId, source, ...o.kind]);
}

/** Options of storing a file. */
type Sealing = Omit<Uploading, 'name' | 'source' | 'encrypt'> & {
  readonly path: string;
  readonly encrypt: (input: Input) => Promise<Container>;
  readonly label: string;
};

/**
 * Stores what `encrypt` makes of the input. A later run with the same `id` continues an upload that
 * broke off.
 *
 * @param o.id of `uploadIdOf`
 * @param o.path as given: the file is opened again when the connection breaks
 * @param o.keep see `upload`
 * @throws too_large, and the codes of `store`, `upload` and `encrypt`
 */
export async function storeSealed(input: Input, o: Sealing): Promise<StoredContainer> {
  const { context, limits } = o;
  const path = resolve(context.cwd, o.path);
  const source = markOf(path, input);
  const uploading: Omit<Uploading, 'encrypt'> = { ...o, name: input.name, source };
  if (limits.uploadBytes > 0 && hasSpool(context.dataDir, o.id))
    return upload({ ...uploading, encrypt: () => o.encrypt(input) });
  let container = await o.encrypt(input);
  refuseLarge(container.bytes, limits.fileBytes);
  if (limits.uploadBytes > 0 && limits.requestBytes !== null) {
    const start = await startOf(container, limits.requestBytes);
    if (!start.isAll) return upload({ ...uploading, encrypt: async () => start.container });
    container = start.container;
  }
  const stored = await storeAtOnce(container, o, source !== undefined);
  if (stored !== undefined) return stored;
  const again = await openInput(o.path, context);
  try {
    return await upload({ ...uploading, source: markOf(path, again), encrypt: () => o.encrypt(again) });
  } finally {
    await again.close();
  }
}

/**
 * Stores a container in one request.
 * @returns undefined, once it is time to, where a resumable upload is worth it
 */
async function storeAtOnce(container: Container, o: Sealing, canReadAgain: boolean) {
  const { context, limits, routes: api, provisional, service } = o;
  const { isDirect } = service;
  const folder = localPaths(context.dataDir).data;
  const { output, signal } = context;
  let sentBytes = 0;
  const progress = output.progress(o.label, container.expectedBytes);
  const onBytes = (bytes: number): void => {
    sentBytes += bytes;
    progress.add(bytes);
  };
  try {
    signal.throwIfAborted();
    const file = await store(container, { api, context, onBytes, provisional, isDirect, folder });
    return { ...file, fileKey: container.fileKey };
  } catch (error) {
    const { bytes = 0 } = container;
    if (signal.aborted && o.keep !== true)
      output.note(
        sentBytes < bytes
          ? 'nothing was stored: the same command begins again, since one request cannot be continued'
          : 'sealpin list shows whether it was stored; if not, run the same command again',
      );
    const isBroken = isSealpinError(error, 'service_unreachable') && sentBytes > 0 && sentBytes < bytes;
    const waitSeconds = isSealpinError(error) ? error.retryAfterSeconds : undefined;
    const isWorthIt = isBroken
      ? bytes > worthContinuingBytes
      : waitSeconds !== undefined && waitSeconds <= maxRetryAfterSeconds;
    if (!isSealpinError(error) || !isWorthIt || bytes > limits.uploadBytes || !canReadAgain) throw error;
    const when = waitSeconds === undefined ? '' : `, in ${waitSeconds} second${waitSeconds === 1 ? '' : 's'}`;
    output.note(`${error.message}; it is stored by a resumable upload instead${when}`);
    await sleep((waitSeconds ?? 0) * 1000, signal);
    return undefined;
  } finally {
    progress.done();
  }
}

/**
 * Checks whether a container fits into one request. Of one of unknown length the beginning is read,
 * and put back.
 */
async function startOf(container: Container, requestBytes: number) {
  const { stream, bytes } = container;
  if (bytes !== undefined) return { container, isAll: (await bodyBytesOf(bytes)) <= requestBytes };
  const { isAll, startBytes, stream: whole } = await peeked(stream, Math.min(requestBytes, bufferedBytes) + 1);
  return { container: { ...container, stream: whole, bytes: isAll ? startBytes : undefined }, isAll };
}

/** The input as it is now; undefined for a pipe. */
function markOf(path: string, { bytes, identity }: Input): SourceMark | undefined {
  if (identity === undefined || bytes === undefined) return undefined;
  const { dev, ino, mtimeNs, ctimeNs, nlink } = identity;
  const changes = { mtimeNs: String(mtimeNs), ctimeNs: String(ctimeNs), nlink: String(nlink) };
  return { path, size: bytes, ...changes, dev: String(dev), ino: String(ino) };
}
