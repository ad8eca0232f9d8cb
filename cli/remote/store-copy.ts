/** Storing what exists already, at a service: a blob under its own CID, or a file that the service encrypts anew. */
import { createHash } from 'node:crypto';
import { createUpload, endUpload, sendUpload, type UploadedFile } from '../../client/resumable-upload.ts';
import { attachment } from '../../client/attachment.ts';
import { sentOnce } from '../../client/sent-once.ts';
import { NewlyStoredFile } from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { type BlockSource, carOf, openFile } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { type Limits, limitsOf, refuseLarge } from './limits.ts';
import { type Api, api, call, json } from './client.ts';
import { optionsOf } from './fetch-blob.ts';
import type { Service } from './service-choice.ts';
import { refuseOther } from './store-blob.ts';
import { uploadTransport } from './upload-transport.ts';

/** A service that takes copies. */
export type Target = {
  readonly service: Service;
  readonly routes: Api;
  readonly limits: Limits;
  readonly context: Pick<Context, 'signal' | 'timeouts'>;
};

/** The service as a target, with what it takes. @throws service_unreachable */
export async function targetAt(service: Service, context: Pick<Context, 'signal' | 'timeouts'>): Promise<Target> {
  const routes = api(service, context);
  return { service, routes, limits: limitsOf(await routes.health()), context };
}

/** What was stored. `bytes`: of the file that was sent. */
export type Copied = { readonly fileId: string; readonly cid: string; readonly bytes: number };

/** What is in memory of an upload in several requests. */
const partBytes = 16 * 1024 * 1024;
/** How long a failed upload waits for the service to forget it. */
const endMs = 10_000;
const anyBytes = 'application/octet-stream';

/**
 * Stores a blob under its CID, whatever its layout is: as a CAR, or, where that is too large for one request, in several, which take
 * Sealpin's own layout only. Every block is verified before it is sent.
 *
 * @param sources of its blocks, in order of preference
 * @param onBytes gets the length of what is on its way
 * @throws not_found, content_mismatch and the other codes of the sources; too_large; cid_mismatch; what the service refuses with
 */
export async function storeCopy(
  cid: string,
  sources: readonly BlockSource[],
  target: Target,
  onBytes: (bytes: number) => void,
): Promise<Copied> {
  const { service, routes, limits, context } = target;
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const options = optionsOf({ signal, timeouts: context.timeouts });
  try {
    const file = await openFile(cid, sources, options);
    refuseLarge(file.size, limits.fileBytes);
    let stored: UploadedFile;
    if (limits.requestBytes === null || carBytes(file.size) <= limits.requestBytes) {
      const car = carOf(cid, sources, { ...options, leavesFirst: true, dups: false });
      const headers = { 'content-type': 'application/vnd.ipld.car' };
      const body = { stream: counted(car, onBytes), bytes: undefined };
      const request = { method: 'POST', headers, body, signal, timeouts: context.timeouts } as const;
      stored = await json(await call(service, 'v1/storage/plain', request), NewlyStoredFile, service.url);
    } else {
      refuseLarge(file.size, limits.uploadBytes);
      stored = await inParts(target, file.read(), { bytes: file.size, cid }, onBytes);
    }
    await refuseOther({ ...stored, size: file.size }, { cid, bytes: file.size }, routes);
    return { fileId: stored.fileId, cid, bytes: file.size };
  } catch (error) {
    if (isSealpinError(error, 'cid_mismatch'))
      throw new SealpinError('cid_mismatch', `${cid} was not stored: ${error.message}`, {
        hint: 'a file of another layout than that of Sealpin has to fit into one request of the service',
        cause: error,
      });
    throw error;
  } finally {
    stop.abort(new SealpinError('interrupted'));
  }
}

/**
 * Stores a plaintext that the service encrypts to the account's key. A digest of what arrived is compared with what was sent, where the
 * service gives one.
 *
 * @param plaintext exactly `bytes` long
 * @param o.idempotencyKey of a request that may be repeated, in one request
 * @throws content_mismatch when something else arrived (it is then deleted); too_large; what the service refuses with
 */
export async function storeEncrypted(
  plaintext: ReadableStream<Uint8Array>,
  o: { readonly bytes: number; readonly filename: string; readonly idempotencyKey: string },
  target: Target,
  onBytes: (bytes: number) => void,
): Promise<Copied> {
  const { service, routes, limits, context } = target;
  const { bytes } = o;
  refuseLarge(bytes, limits.fileBytes);
  if (limits.requestBytes !== null && bytes > limits.requestBytes) {
    const { fileId, cid } = await inParts(target, plaintext, { bytes, encryptAs: o.filename }, onBytes);
    return { fileId, cid, bytes };
  }
  const hash = createHash('sha256');
  const stored = await json(
    await call(service, 'v1/storage/encrypted', {
      method: 'POST',
      headers: {
        'content-type': anyBytes,
        'content-disposition': attachment(o.filename),
        'idempotency-key': o.idempotencyKey,
        'want-repr-digest': 'sha-256=10',
      },
      body: { stream: counted(plaintext, onBytes, (chunk) => hash.update(chunk)), bytes },
      ...context,
    }),
    NewlyStoredFile,
    service.url,
  );
  const { fileId, cid, digest } = stored;
  // A repeated request, which stored nothing, has none.
  if (digest !== undefined && digest !== `sha-256=:${hash.digest('base64')}:`) {
    await routes.remove(fileId);
    throw new SealpinError('content_mismatch', 'the service received something else than was sent; it was deleted', {
      hint: 'run the same command again',
    });
  }
  return { fileId, cid, bytes };
}

/** At most so many bytes has the CAR of a file with leaves of 256 KiB, Kubo's default, or larger ones. */
function carBytes(fileBytes: number): number {
  return fileBytes + Math.ceil(fileBytes / 1000) + 4096;
}

async function inParts(
  { service, limits, context }: Target,
  stream: ReadableStream<Uint8Array>,
  o: { readonly bytes: number; readonly cid?: string; readonly encryptAs?: string },
  onBytes: (bytes: number) => void,
): Promise<UploadedFile> {
  const { signal } = context;
  const maxBodyBytes = Math.min(limits.requestBytes ?? Infinity, partBytes);
  const transport = uploadTransport(service, context);
  const parts = sentOnce(stream, o.bytes);
  const uploadId = await createUpload(transport, { ...o, idempotencyKey: crypto.randomUUID() }, { signal });
  try {
    const file = await sendUpload(transport, uploadId, parts, { signal, maxBodyBytes, onBytes });
    await parts.end();
    return file;
  } catch (error) {
    parts.cancel(error);
    // It ends by itself in some days, too.
    await endUpload(transport, uploadId, AbortSignal.timeout(endMs)).catch(() => undefined);
    throw error;
  }
}

async function* counted(
  stream: ReadableStream<Uint8Array>,
  onBytes: (bytes: number) => void,
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
