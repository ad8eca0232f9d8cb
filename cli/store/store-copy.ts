/** Storing what exists already: a blob under its CID, or what a service encrypts again. */
import { createHash } from 'node:crypto';
import { abandonMs, attemptsOf, isTemporaryFailure } from '../../client/attempts.ts';
import * as tus from '../../client/resumable-upload.ts';
import { attachment } from '../../client/attachment.ts';
import { partBytes } from '../../client/upload-in-parts.ts';
import { NewlyStoredFile } from '../../shared/api.ts';
import type { OpenedAt } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { cleanFilename } from '../../shared/filename.ts';
import { type BlockSource, carOf, carType, openFile } from '../../shared/ipfs/index.ts';
import { withStop } from '../../shared/streams/timing.ts';
import type { Context } from '../context.ts';
import { type ServiceLimits, limitsOf, refuseLarge } from './limits.ts';
import type { RequestOptions } from '../io/http.ts';
import { type Api, api, call, jsonIn, uploadTransport } from '../remote/client.ts';
import { optionsOf } from '../fetch/fetch-blob.ts';
import type { Service } from '../remote/service-choice.ts';
import { refuseOther } from './store-blob.ts';

/** A service that takes copies. */
export type Target = {
  readonly service: Service;
  readonly routes: Api;
  readonly limits: ServiceLimits;
  readonly context: Pick<Context, 'signal' | 'timeouts'>;
};

/** The service as a target, with what it takes. @throws service_unreachable */
export async function targetAt(service: Service, context: Pick<Context, 'signal' | 'timeouts'>): Promise<Target> {
  const routes = api(service, context);
  return { service, routes, limits: limitsOf(await routes.health()), context };
}

/** Result of a copy. `bytes`: of the file that was sent. */
export type Copied = { readonly fileId: string; readonly cid: string; readonly bytes: number };

type CopySending = { readonly idempotencyKey: string; readonly onBytes: (bytes: number) => void };

const anyType = 'application/octet-stream';

/**
 * Stores a blob under its CID, whatever its layout is: as a CAR, or, where that is too large for
 * one request, in several, which take Sealpin's own layout only. Every block is verified before it
 * is sent.
 * @param sources of its blocks, in order of preference
 * @param o.idempotencyKey the same for a repeated call, which then continues what is stored in
 * several requests; `onBytes` gets the length of what is on its way
 * @throws not_found, content_mismatch and the other codes of the sources; too_large; cid_mismatch;
 * what the service refuses with
 */
export async function storeCopy(cid: string, sources: readonly BlockSource[], target: Target, o: CopySending) {
  const { routes, limits, context } = target;
  const { signal, stop } = withStop(context.signal);
  const options = optionsOf({ signal, timeouts: context.timeouts });
  try {
    const file = await openFile(cid, sources, options);
    refuseLarge(file.size, limits.fileBytes);
    let stored: tus.UploadedFile;
    const fits = file.size <= limits.carBytes && carBytes(file.size) <= (limits.requestBytes ?? Infinity);
    if (fits || file.size > limits.uploadBytes) {
      stored = await inOneRequest(
        { ...target, context: { ...context, signal } },
        'plain',
        { 'content-type': carType },
        o.onBytes,
        (onBytes) => {
          const car = carOf(cid, sources, { ...options, leavesFirst: true, dups: false });
          return { stream: copiedChunks(car, onBytes), bytes: undefined };
        },
      );
    } else {
      const source = { bytes: file.size, read: (start: number, end: number) => copiedChunks(file.read(start, end)) };
      stored = await inParts(target, source, { cid, idempotencyKey: o.idempotencyKey }, o.onBytes);
    }
    await refuseOther({ ...stored, size: file.size }, { cid, bytes: file.size }, routes);
    return { fileId: stored.fileId, cid, bytes: file.size };
  } catch (error) {
    if (isSealpinError(error, 'cid_mismatch'))
      throw new SealpinError('cid_mismatch', `${cid} was not stored: ${error.message}`, {
        hint: "a file of another layout than Sealpin's must fit into one request of the service",
        cause: error,
      });
    throw error;
  } finally {
    stop(new SealpinError('interrupted'));
  }
}

/**
 * Stores a plaintext that the service encrypts to the account's key. In one request a digest of
 * what arrived is compared with what was sent, where the service gives one.
 * @param o.idempotencyKey the same for a repeated call, which stores nothing twice; `onBytes` gets
 * the length of what is on its way
 * @throws content_mismatch when something else arrived (it is then deleted); too_large; what the
 * service refuses with
 */
export async function storeEncrypted(
  { plaintextBytes: bytes, decryptRange }: OpenedAt,
  name: string,
  target: Target,
  o: CopySending,
): Promise<Copied> {
  const { routes, limits } = target;
  const filename = cleanFilename(name);
  refuseLarge(bytes, limits.fileBytes);
  if (limits.requestBytes !== null && bytes > limits.requestBytes) {
    const source: tus.UploadSource = {
      bytes,
      async *read(start, end) {
        yield* copiedChunks(await decryptRange({ start, end }));
      },
    };
    const { fileId, cid } = await inParts(target, source, { ...o, encryptAs: filename }, o.onBytes);
    return { fileId, cid, bytes };
  }
  let hash = createHash('sha256');
  const headers = {
    'content-type': anyType,
    'content-disposition': attachment(filename),
    'idempotency-key': o.idempotencyKey,
    'want-repr-digest': 'sha-256=10',
  };
  const stored = await inOneRequest(target, 'encrypted', headers, o.onBytes, async (onBytes) => {
    hash = createHash('sha256');
    const plaintext = await decryptRange({ start: 0, end: bytes });
    return { stream: copiedChunks(plaintext, onBytes, (chunk) => hash.update(chunk)), bytes };
  });
  const { fileId, cid, digest } = stored;
  // A repeated request, which stored nothing, has none.
  if (digest !== undefined && digest !== `sha-256=:${hash.digest('base64')}:`) {
    const detail = 'the service received something else than was sent';
    await routes.remove(fileId).catch((cause: unknown) => {
      const hint = `delete it by hand: sealpin delete ${fileId}`;
      throw new SealpinError('content_mismatch', `${detail}; deleting it failed, too`, { hint, cause });
    });
    throw new SealpinError('content_mismatch', `${detail}; it was deleted`, { hint: 'run the same command again' });
  }
  return { fileId, cid, bytes };
}

type CopyBody = NonNullable<RequestOptions['body']>;

/**
 * Stores in one request. Where the service asks to wait, it has stored nothing: the request is sent
 * again, from the beginning.
 */
async function inOneRequest(
  { service, context }: Target,
  mode: 'plain' | 'encrypted',
  headers: Readonly<Record<string, string>>,
  onBytes: (bytes: number) => void,
  bodyOf: (onBytes: (bytes: number) => void) => CopyBody | Promise<CopyBody>,
): Promise<NewlyStoredFile> {
  const { signal, timeouts } = context;
  const isTemporary = (error: unknown): error is SealpinError =>
    isSealpinError(error) && error.retryAfterSeconds !== undefined;
  const attempts = attemptsOf({ signal, isTemporary });
  for (;;) {
    let sentBytes = 0;
    try {
      const body = await bodyOf((bytes) => {
        sentBytes += bytes;
        onBytes(bytes);
      });
      const request = { method: 'POST', headers, body, signal, timeouts } as const;
      return await jsonIn(await call(service, `v1/storage/${mode}`, request), NewlyStoredFile, service.url);
    } catch (error) {
      await attempts.failed(error);
      onBytes(-sentBytes);
    }
  }
}

/** The most bytes of the CAR of a file with leaves of 256 KiB, Kubo's default, or more. */
function carBytes(fileBytes: number): number {
  return fileBytes + Math.ceil(fileBytes / 1000) + 4096;
}

/** Stores in several requests, and continues what an earlier call with the same key began. */
async function inParts(
  { service, limits, context }: Target,
  source: tus.UploadSource,
  o: { readonly cid?: string; readonly encryptAs?: string; readonly idempotencyKey: string },
  onBytes: (bytes: number) => void,
): Promise<tus.UploadedFile> {
  const { signal } = context;
  const maxBodyBytes = Math.min(limits.requestBytes ?? Infinity, partBytes);
  const transport = uploadTransport(service, context);
  const send = async (idempotencyKey: string): Promise<tus.UploadedFile> => {
    const uploadId = await tus.createUpload(transport, { ...o, bytes: source.bytes, idempotencyKey }, { signal });
    try {
      return await tus.sendUpload(transport, uploadId, source, { signal, maxBodyBytes, onBytes });
    } catch (error) {
      // Otherwise the next call with the same key continues it; else it ends by itself in some
      // days, too.
      if (!signal.aborted && !isTemporaryFailure(error) && !isSealpinError(error, 'gone'))
        await tus.endUpload(transport, uploadId, AbortSignal.timeout(abandonMs)).catch(() => undefined);
      throw error;
    }
  };
  try {
    return await send(o.idempotencyKey);
  } catch (error) {
    // What became of the earlier call was ended or deleted since.
    if (!isSealpinError(error, 'gone')) throw error;
    return send(crypto.randomUUID());
  }
}

async function* copiedChunks(
  stream: ReadableStream<Uint8Array>,
  onBytes: (bytes: number) => void = () => undefined,
  onChunk: (chunk: Uint8Array) => void = () => undefined,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of stream) {
    const { length } = chunk;
    onChunk(chunk);
    // A copy: the sender gives the memory away, and a leaf that the file repeats is used again.
    yield chunk.slice();
    onBytes(length);
  }
}
