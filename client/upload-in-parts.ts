/** Resumable uploads over `fetch`. */
import { Health } from '../shared/api.ts';
import { SealpinError } from '../shared/errors.ts';
import { cidOf } from './blobs.ts';
import { createUpload, sendUpload, type Transport, type UploadedFile } from './resumable-upload.ts';
import type { ServiceHttp } from './service-http.ts';
import { blobOf, type StoredSource } from './web-bytes.ts';

/** A part is in memory while it is sent. */
const partBytes = 16 * 1024 * 1024;

/**
 * Stores bytes unchanged, in parts: whatever breaks, the upload continues where the service has it.
 * @throws as `upload` of a connection
 */
export async function uploadInParts(
  http: ServiceHttp,
  source: StoredSource,
  o: { signal?: AbortSignal | undefined; onProgress?: ((bytes: number) => void) | undefined },
): Promise<UploadedFile> {
  const { signal = new AbortController().signal } = o;
  const blob = blobOf(source);
  const [cid, health] = await Promise.all([
    cidOf(blob, { signal }),
    http.json(Health, { path: 'v1/health', query: { live: 'true' }, signal }),
  ]);
  const transport = transportOf(http);
  const idempotencyKey = crypto.randomUUID();
  const uploadId = await createUpload(transport, { bytes: blob.size, cid, idempotencyKey }, { signal });
  const parts = {
    bytes: blob.size,
    async *read(start: number, end: number) {
      yield new Uint8Array(await blob.slice(start, end).arrayBuffer());
    },
  };
  const file = await sendUpload(transport, uploadId, parts, {
    signal,
    maxBodyBytes: Math.min(health.maxUploadBytes ?? Infinity, partBytes),
    ...(o.onProgress === undefined ? {} : { onOffset: o.onProgress }),
  });
  if (file.cid !== cid)
    throw new SealpinError('cid_mismatch', `The service stored it as ${file.cid}, and it is ${cid}`);
  return file;
}

function transportOf(http: ServiceHttp): Transport {
  return {
    async request({ method, path, headers, body, signal }) {
      const chunks: BlobPart[] = [];
      for await (const chunk of body?.stream ?? []) chunks.push(chunk as Uint8Array<ArrayBuffer>);
      const response = await http.send({
        method,
        path,
        headers,
        signal,
        ...(body === undefined ? {} : { body: new Blob(chunks) }),
      });
      const text = await http.text(response, signal);
      return { status: response.status, text, header: (name) => response.headers.get(name) ?? undefined };
    },
    errorOf: (reply) => http.errorOf(reply, reply.text, reply.header('retry-after') ?? null),
  };
}
