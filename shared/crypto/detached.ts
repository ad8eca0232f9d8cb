/**
 * Payloads without a header in front: those of the service's encrypted mode, whose header is kept apart, and those that only a known file
 * key opens, which have none.
 */
import { SealpinError } from '../errors.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { concat } from '../streams/concat.ts';
import { checkRandom, draw, type Backend } from './backends/backend.ts';
import { webBackend } from './backends/web.ts';
import { streamOf, utf8 } from './bytes.ts';
import { takeDetachedLine } from './container.ts';
import { makeHeader, unwrapFileKey } from './file-key.ts';
import { sealpinV1 as format } from './formats/sealpin-v1.ts';
import { readWholeHeader } from './header.ts';
import { openedBytes, sealedBytes, type Chunks } from './payload/chunking.ts';
import { openChunks } from './payload/open-chunks.ts';
import { sealChunks } from './payload/seal-chunks.ts';
import { checkRange, openSpan, sliceStream, spanOf } from './payload/span.ts';
import { checkStanzas, stanzasOfKind } from './stanzas/check-stanzas.ts';
import { openFileStanza, sealFileStanza, type FileInfo } from './stanzas/file-stanza.ts';
import type { Identity, Recipient } from './types.ts';

const { chunking, preambleBytes } = format.payload;
/** Bytes before the first chunk: the line and the preamble. */
const beforeChunksBytes = format.detachedLine.length + preambleBytes;

/** Returns the size of the detached payload of a plaintext. */
export function detachedPayloadBytes(plaintextBytes: number): number {
  return beforeChunksBytes + sealedBytes(chunking, plaintextBytes);
}

/** Returns the size of the plaintext of a detached payload; undefined when no plaintext has a payload of this size. */
export function plaintextBytes(payloadBytes: number): number | undefined {
  return openedBytes(chunking, payloadBytes - beforeChunksBytes);
}

/**
 * Encrypts a stream under a file key, with no header anywhere: losing the key is losing the plaintext.
 * @param o.fileKey 32 bytes, `TypeError` otherwise; a fresh one by default
 * @param o.pieceBytes size of the arrays that the payload gives, but for the last one; 1 MiB by default
 * @returns the payload, and the file key
 * @throws SealpinError `random_failed`
 */
export async function encryptPayload(
  plaintext: ReadableStream<Uint8Array>,
  { fileKey, pieceBytes, backend = webBackend }: { fileKey?: Uint8Array; pieceBytes?: number; backend?: Backend } = {},
): Promise<{ payload: ReadableStream<Uint8Array>; fileKey: Uint8Array }> {
  if (fileKey !== undefined && fileKey.length !== format.fileKeyBytes)
    throw new TypeError(`fileKey must have ${format.fileKeyBytes} bytes`);
  checkRandom(backend);
  const key = fileKey ?? draw(backend, format.fileKeyBytes);
  return { payload: await sealPayload(plaintext, key, backend, pieceBytes), fileKey: key };
}

async function sealPayload(
  plaintext: ReadableStream<Uint8Array>,
  fileKey: Uint8Array,
  backend: Backend,
  pieceBytes: number | undefined,
): Promise<ReadableStream<Uint8Array>> {
  const { preamble, chunks } = await format.payload.create(backend, fileKey);
  const prefix = concat(utf8(format.detachedLine), preamble);
  return sealChunks(new ByteSource(plaintext), chunks, prefix, pieceBytes);
}

/**
 * Decrypts a payload by its file key.
 * @param payload from its first byte
 * @returns a stream that errors with `container_invalid` or `decrypt_failed` (also for the file key of another payload)
 */
export function decryptPayload(
  payload: ReadableStream<Uint8Array>,
  { fileKey, backend = webBackend }: { fileKey: Uint8Array; backend?: Backend },
): ReadableStream<Uint8Array> {
  const source = new ByteSource(payload);
  return openChunks(source, () => beginPayload(source, fileKey, backend));
}

/** Takes everything before the first chunk; throws `container_invalid` or `decrypt_failed`. */
async function beginPayload(source: ByteSource, fileKey: Uint8Array, backend: Backend): Promise<Chunks> {
  if (fileKey.length !== format.fileKeyBytes)
    throw new SealpinError('decrypt_failed', 'The file key is one of another format', { reason: 'no_key' });
  await takeDetachedLine(source, format.detachedLine);
  return format.payload.read(source, backend, fileKey);
}

/**
 * Encrypts a stream to a recipient, with the header apart.
 * @param o.pieceBytes size of the arrays that the payload gives, but for the last one; 1 MiB by default
 * @returns the payload, and a function that makes the header once id and size are known, also before the payload has been read
 */
export async function encryptDetached(
  plaintext: ReadableStream<Uint8Array>,
  { recipient, pieceBytes, backend = webBackend }: { recipient: Recipient; pieceBytes?: number; backend?: Backend },
): Promise<{ payload: ReadableStream<Uint8Array>; header(fileId: string, file: FileInfo): Promise<Uint8Array> }> {
  checkRandom(backend);
  const fileKey = draw(backend, format.fileKeyBytes);
  const stanza = await recipient.wrap(fileKey, format, backend);
  return {
    payload: await sealPayload(plaintext, fileKey, backend, pieceBytes),
    header: async (fileId, file) =>
      makeHeader(backend, format, fileKey, [stanza, await sealFileStanza(backend, fileKey, fileId, file)]),
  };
}

/** A detached header that was opened: the file's description, and its payload, whole or in part. */
export type OpenedDetached = {
  file: FileInfo;
  /**
   * Decrypts a payload; the result errors with `container_invalid` or `decrypt_failed`.
   * @param payload from its first byte
   */
  decrypt(payload: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
  /**
   * Decrypts bytes `start` up to `end` (exclusive) of the plaintext.
   * @param o.read gives `length` bytes of the payload from `offset`; it is called once or twice
   * @throws SealpinError `range_not_satisfiable`
   */
  decryptRange(o: {
    start: number;
    end: number;
    read(offset: number, length: number): Promise<ReadableStream<Uint8Array>>;
  }): Promise<ReadableStream<Uint8Array>>;
};

/**
 * Opens a detached header.
 * @param header all of it, and nothing else
 * @param o.fileId the file that was asked for
 * @throws SealpinError `header_invalid`, `wrong_kind`, `decrypt_failed` (also when the header is that of another file)
 */
export async function openDetached(
  header: Uint8Array,
  { fileId, identities, backend = webBackend }: { fileId: string; identities: readonly Identity[]; backend?: Backend },
): Promise<OpenedDetached> {
  const parsed = await readWholeHeader(header, format.versionLine);
  checkStanzas(parsed.stanzas, format);
  const [stanza] = stanzasOfKind(parsed.stanzas, 'file', format);
  if (stanza === undefined) throw new SealpinError('header_invalid', 'The header does not name its file');
  const fileKey = await unwrapFileKey(parsed, format, identities, backend);
  const file = await openFileStanza(backend, fileKey, fileId, stanza);
  const begin = (source: ByteSource) => beginPayload(source, fileKey, backend);
  return {
    file,
    decrypt: (payload) => decryptPayload(payload, { fileKey, backend }),
    async decryptRange({ start, end, read }) {
      checkRange(start, end, file.size);
      if (start === end) return streamOf(new Uint8Array(0));
      const { span, offset, bytes, skip } = spanOf(chunking, start, end, file.size);
      if (span.first === 0) {
        const source = new ByteSource(await read(0, beforeChunksBytes + bytes));
        const opened = openSpan(source, () => begin(source), span);
        return sliceStream(opened, skip, end - start);
      }
      const beginning = new ByteSource(await read(0, beforeChunksBytes));
      const chunks = await begin(beginning).finally(() => beginning.abandon(undefined));
      const source = new ByteSource(await read(beforeChunksBytes + offset, bytes));
      const opened = openSpan(source, () => chunks, span);
      return sliceStream(opened, skip, end - start);
    },
  };
}
