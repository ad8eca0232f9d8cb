/** Sending files: each is sealed under a key of its own, and a parcel has the keys. */
import { DeletedFiles } from '../shared/api.ts';
import {
  detachedPayloadBytes,
  encryptPayload,
  type CryptoProvider,
  type ParcelSigner,
} from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { encodeParcel, type Parcel, type ParcelFile } from '../shared/link/index.ts';
import { BufferPool, type Memory } from '../shared/streams/buffer-pool.ts';
import { observed, peeked } from '../shared/streams/pulled.ts';
import { untilAnswered, type Deadline } from './attempts.ts';
import { put } from './put.ts';
import type { ServiceHttp } from './service-http.ts';
import { partBytes, uploadStream } from './upload-in-parts.ts';
import type { UploadedFile } from './resumable-upload.ts';
import { abortable, openSource, usingSources, type Source } from './web-bytes.ts';

/**
 * A file to send: a `File`, or bytes with the name and the media type that the receiver gets.
 * `size` is for a stream whose length is known, which then goes in parts.
 */
export type Outgoing =
  | File
  | {
      readonly source: Source;
      readonly name: string;
      readonly type?: string | undefined;
      readonly size?: number | undefined;
    };

/**
 * Words of the sender to the receiver: at most 4,096 and 255 bytes. The service cannot read them.
 */
export type Words = { readonly note?: string | undefined; readonly from?: string | undefined };

/** A file that was sent, as the service has it. `size` in bytes of plaintext. */
export type SentFile = { readonly fileId: string; readonly cid: string; readonly name: string; readonly size: number };

export type SendingOptions = Words & {
  readonly signal?: AbortSignal | undefined;
  /**
   * Gets how many bytes the service has, and how many it will have, where the sizes of all files
   * are known.
   */
  readonly onProgress?: ((bytes: number, total?: number) => void) | undefined;
};

/**
 * Stores a payload unchanged. `onProgress` gets how many bytes the service has, `memory` that of
 * the payload's chunks.
 * @throws what the payload fails with, `cid_mismatch`, and what the service refuses with
 */
export type StorePayload = (
  payload: ReadableStream<Uint8Array>,
  o: {
    bytes: number | undefined;
    signal: AbortSignal | undefined;
    onProgress: (bytes: number) => void;
    memory?: Memory;
  },
) => Promise<UploadedFile>;

/**
 * Stores payloads over `fetch`: small ones in one request, others in parts.
 * @param o.provisional only until a parcel names them
 * @param o.expiresAt until then
 * @param o.deadline of what is undone after a failure
 */
export function storeAt(
  http: ServiceHttp,
  keeping: { provisional?: boolean; expiresAt?: Date | undefined; deadline?: Deadline } = {},
): StorePayload {
  return async (payload, { bytes, signal, onProgress, memory }) => {
    if (bytes !== undefined && bytes > partBytes)
      return uploadStream(http, payload, bytes, { signal, onProgress, memory, ...keeping });
    const { start, isAll, stream } = await peeked(payload, partBytes + 1);
    const o = { mode: 'plain', signal, idempotencyKey: crypto.randomUUID(), ...keeping } as const;
    // A refusal for now does not cost what was stored before. A long stream cannot be sent again.
    const blob = isAll ? new Blob(start as Uint8Array<ArrayBuffer>[]) : undefined;
    const file = await (blob ? untilAnswered(() => put(http, blob, o), { signal }) : put(http, stream, o));
    onProgress(file.size);
    return file;
  };
}

/** Any CID: a parcel has the same size with another one. */
const someCid = `bafkrei${'a'.repeat(52)}`;

/**
 * Sizes known of a delivery before it is stored: of its payloads, and a parcel as large as its own.
 */
export type Draft = { readonly payloads: readonly (number | undefined)[]; readonly parcel: Parcel };

/**
 * Seals files and stores them, one after the other, as payloads without a header: without the
 * parcel, nothing opens them.
 * @param o.remove deletes files again, when a later one fails
 * @param o.admit may refuse them all, before the first is stored
 * @throws SealpinError `invalid_filename`, `parcel_invalid` before anything is sent; what `store`
 * throws, and the signal's reason
 */
export async function sealAndStore(
  files: Outgoing | readonly Outgoing[],
  o: SendingOptions & {
    store: StorePayload;
    remove: RemoveFiles;
    admit?: (draft: Draft) => Promise<void>;
    provider?: CryptoProvider;
  },
): Promise<{ parcel: Parcel; files: readonly SentFile[] }> {
  const { note, from, signal, onProgress, provider } = o;
  const all = [files].flat().map(outgoingFile);
  if (all.length === 0) throw new SealpinError('invalid_request', 'there is no file to send');
  const parcel = checkParcel({ files: all, note, from });
  const opened = all.map(({ size, ...each }) => {
    const source = openSource(each.source);
    return { ...each, stream: source.stream, size: source.size ?? size };
  });
  const payloads = opened.map(({ size }) => (size === undefined ? undefined : detachedPayloadBytes(size)));
  const total = payloads.reduce<number>((sum, bytes) => sum + (bytes ?? Number.NaN), 0);
  const sent: (SentFile & ParcelFile)[] = [];
  const memory = new BufferPool();
  let before = 0;
  try {
    await o.admit?.({ payloads, parcel });
    for (const { name, type, stream, size: announced } of opened) {
      signal?.throwIfAborted();
      const plaintext = countedStream(abortable(stream, signal), announced);
      const { payload, fileKey } = await encryptPayload(plaintext.stream, { provider, memory });
      const { fileId, cid } = await o.store(payload, {
        bytes: announced === undefined ? undefined : detachedPayloadBytes(announced),
        signal,
        memory,
        onProgress: (bytes) => onProgress?.(before + bytes, ...(Number.isNaN(total) ? [] : [total])),
      });
      const size = plaintext.bytes();
      before += detachedPayloadBytes(size);
      sent.push({ fileId, cid, name, size, fileKey, type });
    }
  } catch (error) {
    await removeAll(sent, o.remove);
    throw error;
  }
  return {
    parcel: {
      ...parcel,
      files: sent.map(({ cid, fileKey, name, type, size }) => ({ cid, fileKey, name, type, size })),
    },
    files: sent.map(({ fileId, cid, name, size }) => ({ fileId, cid, name, size })),
  };
}

/**
 * Checks what a parcel will have, before anything is sent.
 * @param signer signs it later
 * @param recipients to whom it is sealed then
 * @returns a parcel that has at least as many bytes
 * @throws SealpinError `invalid_filename`, `parcel_invalid`
 */
export function checkParcel(
  { files, ...words }: Pick<Parcel, 'note' | 'from'> & { readonly files: readonly Named[] },
  signer?: ParcelSigner,
  recipients: readonly string[] = [],
): Parcel {
  const someFile = { cid: someCid, fileKey: new Uint8Array(32), size: Number.MAX_SAFE_INTEGER };
  const parcel = { files: files.map(({ name, type, modified }) => ({ ...someFile, name, type, modified })), ...words };
  const place = { service: 'https://sealpin.example/', id: '0'.repeat(22) };
  encodeParcel(parcel, signer && { ...place, signer, recipients });
  return parcel;
}

type Named = Pick<ParcelFile, 'name' | 'type' | 'modified'>;

/** Deletes files in one request, so that a line that has stalled is waited for once. */
export type RemoveFiles = (fileIds: readonly string[]) => Promise<unknown>;

export function removeAt(http: ServiceHttp, files: readonly string[], signal: AbortSignal): Promise<DeletedFiles> {
  return http.json(DeletedFiles, { method: 'POST', path: 'v1/storage/delete', content: { files }, signal });
}

/**
 * Deletes files that were stored for nothing. What cannot be deleted stays, and nobody can open it.
 */
export async function removeAll(files: readonly Pick<SentFile, 'fileId'>[], remove: RemoveFiles): Promise<void> {
  if (files.length > 0) await remove(files.map(({ fileId }) => fileId)).catch(() => undefined);
}

/** Runs what sends files, as `usingSources`. */
export async function usingFiles<T>(files: Outgoing | readonly Outgoing[], use: () => Promise<T>): Promise<T> {
  // A caller may have given a stream itself, or nothing, instead of a file.
  const sources = [files].flat().flatMap((file: unknown) => [file, (file as { source?: unknown } | undefined)?.source]);
  return usingSources(sources, use);
}

function outgoingFile(file: Outgoing): { source: Source; name: string; type: string; size: number | undefined } {
  if (file instanceof File) return outgoingFile({ source: file, name: file.name, type: file.type });
  const { source, name, type, size }: Partial<typeof file> = file ?? {};
  if (source === undefined || typeof name !== 'string')
    throw new TypeError('a file to send must be a File, or an object with a source and a name');
  return { source, name, type: type === undefined || type === '' ? 'application/octet-stream' : type, size };
}

/** A stream that counts its bytes, and fails when it has more or fewer than were announced. */
function countedStream(
  stream: ReadableStream<Uint8Array>,
  announced = Number.NaN,
): { stream: ReadableStream<Uint8Array>; bytes(): number } {
  let bytes = 0;
  const check = (isWrong: boolean): void => {
    if (isWrong) throw new SealpinError('invalid_request', "the stream's length differs from the given size");
  };
  const counting = observed(stream, {
    onChunk({ length }) {
      bytes += length;
      check(bytes > announced);
    },
    onEnd: () => check(bytes < announced),
  });
  return { bytes: () => bytes, stream: counting };
}
