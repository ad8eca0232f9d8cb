/** Resumable uploads over `fetch`. */
import { undoingDeadline, type Deadline } from './attempts.ts';
import { Health } from '../shared/api.ts';
import { hashingStream } from '../shared/ipfs/index.ts';
import type { Memory } from '../shared/streams/buffer-pool.ts';
import { cidOf } from './blobs.ts';
import { checked } from './put.ts';
import {
  createUpload,
  endUpload,
  sendUpload,
  type Transport,
  type UploadedFile,
  type UploadSource,
} from './resumable-upload.ts';
import { sentOnce } from './sent-once.ts';
import type { ServiceHttp } from './service-http.ts';
import { abortable, blobOf, type StoredSource } from './web-bytes.ts';

/** A part is kept while it is sent, beside the next one of what can be read once. */
export const partBytes = 16 * 1024 * 1024;

type PartsOptions = {
  signal?: AbortSignal | undefined;
  onProgress?: ((bytes: number) => void) | undefined;
  /** Until when the service is told to forget the upload, after a failure. */
  deadline?: Deadline | undefined;
};

/**
 * Stores bytes unchanged, in parts that continue where the service has them.
 * @throws as `upload`
 */
export async function uploadInParts(http: ServiceHttp, source: StoredSource, o: PartsOptions): Promise<UploadedFile> {
  const blob = blobOf(source);
  const cid = await cidOf(blob, o);
  const parts = {
    bytes: blob.size,
    async *read(start: number, end: number) {
      yield new Uint8Array(await blob.slice(start, end).arrayBuffer());
    },
  };
  return checked(await sendParts(http, parts, { ...o, cid }), cid);
}

/**
 * Stores a stream unchanged, in parts and in constant memory. A part is sent again when the line
 * breaks.
 * @param bytes the length of the stream
 * @param o.memory gets that of the stream's chunks
 * @throws as `upload` of a connection, and what the stream fails with
 */
export async function uploadStream(
  http: ServiceHttp,
  stream: ReadableStream<Uint8Array>,
  bytes: number,
  o: PartsOptions & { provisional?: boolean; expiresAt?: Date | undefined; memory?: Memory | undefined },
): Promise<UploadedFile> {
  const { stream: hashed, result } = hashingStream(abortable(stream, o.signal));
  const parts = sentOnce(hashed, bytes, o.memory);
  try {
    const file = await sendParts(http, parts, o);
    await parts.end();
    return checked(file, (await result).cid);
  } catch (error) {
    parts.cancel(error);
    throw error;
  }
}

/**
 * Creates an upload and sends its bytes. Nothing continues it after a failure, so the service is
 * told to forget it.
 */
async function sendParts(
  http: ServiceHttp,
  parts: UploadSource,
  o: PartsOptions & { cid?: string; provisional?: boolean; expiresAt?: Date | undefined },
): Promise<UploadedFile> {
  const { signal = new AbortController().signal, deadline = undoingDeadline() } = o;
  const health = await http.json(Health, { path: 'v1/health', query: { live: 'true' }, signal });
  const transport = transportOf(http);
  const { cid, provisional, expiresAt } = o;
  const file = { bytes: parts.bytes, cid, provisional, expiresAt, idempotencyKey: crypto.randomUUID() };
  const uploadId = await createUpload(transport, file, { signal });
  try {
    return await sendUpload(transport, uploadId, parts, {
      signal,
      maxBodyBytes: Math.min(health.maxUploadBytes ?? Infinity, partBytes),
      onOffset: o.onProgress,
    });
  } catch (error) {
    // It ends by itself in some days, too.
    await endUpload(transport, uploadId, deadline()).catch(() => undefined);
    throw error;
  }
}

function transportOf(http: ServiceHttp): Transport {
  return {
    async request({ method, path, headers, body, signal }) {
      const chunks: Uint8Array<ArrayBuffer>[] = [];
      for await (const chunk of body?.stream ?? []) chunks.push(chunk as Uint8Array<ArrayBuffer>);
      const bytes = chunks.length === 1 ? chunks[0] : new Blob(chunks);
      const response = await http.send({ method, path, headers, signal, body: body && bytes });
      const text = await http.text(response, signal);
      return { status: response.status, text, header: (name) => response.headers.get(name) ?? undefined };
    },
    errorOf: (reply) => http.errorOf(reply, reply.text, reply.header('retry-after') ?? null),
  };
}
