/**
 * Resumable uploads by tus 1.0.0 (https://tus.io/protocols/resumable-upload): whatever breaks, the
 * upload continues at the byte that the service has. It knows no HTTP client, clock or file: its
 * caller hands those in.
 */
import { parseResponse, ResumableUpload } from '../shared/api.ts';
import { encodePadded, utf8 } from '../shared/crypto/bytes.ts';
import { isCode, otherwise, SealpinError } from '../shared/errors.ts';
import { leafBytes } from '../shared/ipfs/index.ts';
import { chunkType, tusVersion } from '../shared/tus-protocol.ts';
import {
  attemptsOf,
  firstPauseMs,
  isTemporaryFailure,
  TemporaryError,
  untilAnswered,
  type AttemptOptions,
} from './attempts.ts';

/** A response whose body, if any, was read. */
type Reply = { readonly status: number; readonly text: string; header(name: string): string | undefined };

export interface Transport {
  /**
   * Sends one request.
   * @param o.path relative to the URL of the service
   * @param o.body exactly `bytes` long; the transport may release the memory of its chunks
   * @throws service_unreachable when no response came, which is tried again; any other error ends
   * the upload
   */
  request(o: {
    readonly method: 'POST' | 'HEAD' | 'PATCH' | 'GET' | 'DELETE';
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: { readonly stream: AsyncIterable<Uint8Array>; readonly bytes: number } | undefined;
    readonly signal: AbortSignal;
  }): Promise<Reply>;
  /** The error that a response other than 2xx stands for. */
  errorOf(reply: Reply): SealpinError;
}

/** Bytes that can be read again from any offset, and never change. */
export type UploadSource = { readonly bytes: number; read(start: number, end: number): AsyncIterable<Uint8Array> };

/**
 * File that an upload has become. The CID is the service's: the caller compares it with its own.
 */
export type UploadedFile = NonNullable<ResumableUpload['file']>;

export type UploadOptions = Pick<AttemptOptions, 'signal' | 'wait'>;

export type SendOptions = UploadOptions & {
  /** The longest body that the service takes; a part has 64 MiB at most in any case. */
  readonly maxBodyBytes: number | null;
  /**
   * Called with the bytes that the service has: once it is known where to continue, and after each
   * part.
   */
  readonly onOffset?: ((offset: number) => void) | undefined;
  /**
   * Called with the length of each chunk on its way. What the service has not kept of them,
   * `onOffset` takes back.
   */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Called before each wait. */
  readonly onRetry?: ((failure: SealpinError) => void) | undefined;
};

/**
 * Below the 100 MB that Cloudflare's Free and Pro plans take in one request
 * (developers.cloudflare.com/workers/platform/limits).
 */
const maxPartBytes = 64 * 1024 * 1024;

/** Longer than any file takes to be built from its parts. */
const maxFinishingMs = 60 * 60 * 1000;

const collections = { plain: 'v1/uploads/plain', encrypted: 'v1/uploads/encrypted' } as const;
const protocol = { 'Tus-Resumable': tusVersion };

type UploadToCreate = {
  readonly bytes: number;
  /** CID that the service must compute, where it is known. */
  readonly cid?: string | undefined;
  /** Asks the service to keep the file only if another one names it. */
  readonly provisional?: boolean | undefined;
  /** Time at which the service deletes the file. */
  readonly expiresAt?: Date | undefined;
  /**
   * Under which name the service encrypts the bytes to the account's key; without one it stores
   * them unchanged.
   */
  readonly encryptAs?: string | undefined;
  /** So that a repeated request creates no second one. */
  readonly idempotencyKey: string;
};

/**
 * Creates an upload.
 * @returns the ID of the upload, which is also that of the file
 * @throws what the service refuses with, service_unreachable after the last attempt,
 * service_answer, the reason of the signal
 */
export async function createUpload(
  transport: Transport,
  file: UploadToCreate,
  o: UploadOptions & Pick<SendOptions, 'onRetry'>,
): Promise<string> {
  const headers = {
    ...protocol,
    'Upload-Length': String(file.bytes),
    ...metadataOf(file),
    'Idempotency-Key': file.idempotencyKey,
  };
  const path = collections[file.encryptAs === undefined ? 'plain' : 'encrypted'];
  const create = async (): Promise<string> => {
    const reply = await exchange(transport, { method: 'POST', path, headers, signal: o.signal });
    // Only the ID is used: the API key goes to no other address, and a service may live below a
    // path.
    const [, id] =
      /\/v1\/uploads\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(reply.header('location') ?? '') ?? [];
    if (reply.status !== 201 || id === undefined) throw unexpected('it created no upload');
    return id;
  };
  return untilAnswered(create, { ...o, isTemporary: isTemporaryFailure });
}

function metadataOf({ cid, provisional = false, expiresAt, encryptAs }: UploadToCreate): Record<string, string> {
  const time = expiresAt?.toISOString();
  const metadata = { filename: encryptAs, cid, provisional: provisional ? 'true' : undefined, expiresAt: time };
  const values = Object.entries(metadata).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name} ${encodePadded(utf8(value))}`],
  );
  return values.length === 0 ? {} : { 'Upload-Metadata': values.join(',') };
}

/**
 * Sends what the service does not have yet, and waits until the file is stored.
 * @returns the ID of the file, and its CID as the service computed it
 * @throws gone when the service has no such upload (any more), the code of an upload that failed,
 * service_unreachable and other temporary failures after the last attempt, finishing where the
 * service has all bytes and no end to it, service_answer, the errors of the source, the reason of
 * the signal
 */
export async function sendUpload(
  transport: Transport,
  uploadId: string,
  source: UploadSource,
  options: SendOptions,
): Promise<UploadedFile> {
  const { bytes } = source;
  const partBytes = Math.min(options.maxBodyBytes ?? Infinity, maxPartBytes);
  if (partBytes < 1) throw unexpected('it takes no bytes in a request');
  const attempts = attemptsOf(options);
  const { askOffset, askStatus, sendPart } = requestsOf(transport, `v1/uploads/${uploadId}`, source, {
    ...options,
    onOffset(offset) {
      attempts.reached(offset);
      options.onOffset?.(offset);
    },
  });

  let finishingMs = 0;
  /** The file, once it is built; else undefined, after a moment. */
  async function finish(): Promise<UploadedFile | undefined> {
    const { state, code, file } = await askStatus();
    if (state === 'failed')
      throw new SealpinError(isCode(code) ? code : 'service_answer', 'the service could not finish the upload');
    if (state === 'done' && file !== undefined) return file;
    if (state !== 'finishing') {
      // It stopped between the last byte and the file: an empty part lets it continue.
      await sendPart(bytes, bytes);
      throw new TemporaryError('service_answer', 'the service has all bytes, and does not finish the upload');
    }
    if (finishingMs >= maxFinishingMs)
      throw new TemporaryError('finishing', 'the service has all bytes, and has not stored the file for an hour');
    finishingMs += firstPauseMs;
    await attempts.pause(firstPauseMs);
    return undefined;
  }

  let offset: number | undefined;
  for (;;) {
    try {
      offset ??= await askOffset();
      if (offset < bytes) offset = await sendPart(offset, endOfPart(offset, partBytes, bytes));
      else {
        const file = await finish();
        if (file !== undefined) return file;
      }
    } catch (error) {
      offset = undefined;
      await attempts.failed(error);
    }
  }
}

/** The requests for an upload. Each offset that is in a response is reported. */
function requestsOf(
  transport: Transport,
  path: string,
  source: UploadSource,
  { onOffset, onBytes, signal }: SendOptions,
) {
  function accept(reply: Reply, least: number): number {
    if (reply.status >= 300) throw uploadFailure(transport, reply);
    const text = reply.header('upload-offset') ?? '';
    const next = Number(text);
    if (!/^[0-9]{1,16}$/.test(text) || next < least || next > source.bytes)
      throw unexpected('its offset is impossible');
    onOffset?.(next);
    return next;
  }

  async function askStatus(): Promise<ResumableUpload> {
    return parseStatus(await exchange(transport, { method: 'GET', path, headers: {}, signal }));
  }

  async function askOffset(): Promise<number> {
    const reply = await transport.request({ method: 'HEAD', path, headers: protocol, signal });
    // It has no body: another request asks for the reason of a refusal.
    if (reply.status >= 300 && !isTemporary(reply.status)) await askStatus();
    return accept(reply, 0);
  }

  async function sendPart(start: number, end: number): Promise<number> {
    const headers = { ...protocol, 'Content-Type': chunkType, 'Upload-Offset': String(start) };
    const body = { stream: partChunks(source.read(start, end), onBytes), bytes: end - start };
    const next = accept(await exchange(transport, { method: 'PATCH', path, headers, body, signal }), start);
    if (next === start && end > start) throw new TemporaryError('service_answer', 'the service accepts no more bytes');
    if (next > end) throw unexpected('it has more bytes than were sent');
    return next;
  }

  return { askOffset, askStatus, sendPart };
}

/**
 * The end of a part: at the end of a leaf, since a service that keeps bytes as they are has more
 * work with those that begin amid one, as they do after a break.
 */
function endOfPart(offset: number, partBytes: number, bytes: number): number {
  const most = offset + partBytes;
  if (most >= bytes) return bytes;
  const whole = most - (most % leafBytes);
  return whole > offset ? whole : most;
}

/**
 * Ends an upload, which may be gone already: the service forgets its bytes.
 * @throws as the service refuses
 */
export async function endUpload(transport: Transport, uploadId: string, signal: AbortSignal): Promise<void> {
  const request = { method: 'DELETE', path: `v1/uploads/${uploadId}`, headers: protocol, signal } as const;
  await otherwise(exchange(transport, request), 'gone', undefined);
}

/** Sends one request; throws for every status but 2xx. */
async function exchange(transport: Transport, o: Parameters<Transport['request']>[0]): Promise<Reply> {
  const reply = await transport.request(o);
  if (reply.status < 200 || reply.status >= 300) throw uploadFailure(transport, reply, o.path);
  return reply;
}

function uploadFailure(transport: Transport, reply: Reply, path?: string): SealpinError {
  if ((reply.status === 404 || reply.status === 410) && !Object.values<unknown>(collections).includes(path))
    return new SealpinError('gone', 'the service no longer has this upload');
  const error = transport.errorOf(reply);
  if (!isTemporary(reply.status)) return error;
  const seconds = Number(reply.header('retry-after')) || undefined;
  return new TemporaryError(error.code, error.message, { cause: error, hint: error.hint, retryAfterSeconds: seconds });
}

/** The body stalled (408), another one holds the upload (409, 423), or the service cannot now. */
function isTemporary(status: number): boolean {
  return [408, 409, 423, 429].includes(status) || status >= 500;
}

function unexpected(detail: string, cause?: unknown): SealpinError {
  return new SealpinError('service_answer', `unexpected response to an upload: ${detail}`, { cause });
}

function parseStatus({ text }: Reply): ResumableUpload {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw unexpected('it is not JSON', cause);
  }
  return parseResponse(ResumableUpload, json);
}

async function* partChunks(
  stream: AsyncIterable<Uint8Array>,
  onBytes: SendOptions['onBytes'],
): AsyncGenerator<Uint8Array> {
  for await (const chunk of stream) {
    // The chunk is empty once it is sent.
    const { length } = chunk;
    yield chunk;
    onBytes?.(length);
  }
}
