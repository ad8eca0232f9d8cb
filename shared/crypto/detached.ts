/** The service's encrypted mode: the payload is stored, and the header that opens it is kept apart from it. */
import { SealpinError } from '../errors.ts';
import { checkRandom, draw, type Backend } from './backends/backend.ts';
import { streamOf, utf8 } from './bytes.ts';
import { concat } from '../streams/concat.ts';
import { openChunks, openedBytes, openSpan, sealChunks, sealedBytes, slice, spanOf } from './payload/chunks.ts';
import { cobblestone, preambleBytes } from './payload/cobblestone.ts';
import { makeHeader, newPayload, readDetachedLine, readPayload, unlock } from './container.ts';
import { openFileStanza, sealFileStanza, type FileInfo } from './stanzas/file-stanza.ts';
import { readWholeHeader } from './header.ts';
import { checkStanzas, fileKeyBytes } from './stanzas/registry.ts';
import { detachedLine, versions } from './sniff.ts';
import { ByteSource } from '../streams/byte-source.ts';
import type { Identity, Recipient } from './types.ts';
import { webBackend } from './backends/web.ts';

/** What is before the first chunk: the line, the salt and the commitment. */
const beforeChunksBytes = detachedLine.length + preambleBytes;

/** Size of the payload of so many plaintext bytes. */
export function detachedPayloadBytes(plaintextBytes: number): number {
  return beforeChunksBytes + sealedBytes(cobblestone, plaintextBytes);
}

/** The inverse: undefined when no plaintext has a payload of this size. */
export function plaintextBytes(payloadBytes: number): number | undefined {
  return openedBytes(cobblestone, payloadBytes - beforeChunksBytes);
}

/**
 * Encrypts a stream to a recipient, the header apart.
 * @returns the payload, and what makes the header: it is called when id and size are known, and may be called before the payload has been read
 */
export async function encryptDetached(
  plaintext: ReadableStream<Uint8Array>,
  { recipient, backend = webBackend }: { recipient: Recipient; backend?: Backend },
): Promise<{ payload: ReadableStream<Uint8Array>; header(fileId: string, file: FileInfo): Promise<Uint8Array> }> {
  checkRandom(backend);
  const fileKey = draw(backend, fileKeyBytes.sealpin);
  const stanza = await recipient.wrap(fileKey, 'sealpin', backend);
  const { preamble, chunks } = await newPayload(backend, 'sealpin', fileKey);
  return {
    payload: sealChunks(new ByteSource(plaintext), chunks, concat(utf8(detachedLine), preamble)),
    header: async (fileId, file) =>
      makeHeader(backend, 'sealpin', fileKey, [stanza, await sealFileStanza(backend, fileKey, fileId, file)]),
  };
}

/** What `take` makes of the beginning of a source, which is then let go. */
async function only<T>(source: ByteSource, take: (source: ByteSource) => Promise<T>): Promise<T> {
  try {
    return await take(source);
  } finally {
    source.abandon(undefined);
  }
}

/** What a header opens: the file's description, and its payload, whole or in part. */
export type OpenedDetached = {
  file: FileInfo;
  /** @param payload from its first byte; the result errors with `container_invalid` or `decrypt_failed` */
  decrypt(payload: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
  /**
   * Bytes `start` up to `end` (exclusive) of the plaintext.
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
  const parsed = await readWholeHeader(header, versions.sealpin);
  checkStanzas(parsed.stanzas, 'sealpin');
  const stanza = parsed.stanzas.find(({ args }) => args[0] === 'file');
  if (stanza === undefined) throw new SealpinError('header_invalid', 'The header does not say which file it is of');
  const fileKey = await unlock(parsed, 'sealpin', identities, backend);
  const file = await openFileStanza(backend, fileKey, fileId, stanza);

  const begin = async (payload: ByteSource) => {
    await readDetachedLine(payload);
    return readPayload(payload, backend, 'sealpin', fileKey);
  };
  return {
    file,
    decrypt(payload) {
      const from = new ByteSource(payload);
      return openChunks(from, () => begin(from));
    },
    async decryptRange({ start, end, read }) {
      if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || start > end || end > file.size)
        throw new SealpinError('range_not_satisfiable');
      if (start === end) return streamOf(new Uint8Array(0));
      const { span, offset, bytes } = spanOf(cobblestone, start, end, file.size);
      const skip = start - span.first * cobblestone.chunkBytes;
      if (span.first === 0) {
        const from = new ByteSource(await read(0, beforeChunksBytes + bytes));
        return slice(
          openSpan(from, () => begin(from), span),
          skip,
          end - start,
        );
      }
      const chunks = await only(new ByteSource(await read(0, beforeChunksBytes)), begin);
      const from = new ByteSource(await read(beforeChunksBytes + offset, bytes));
      return slice(
        openSpan(from, () => chunks, span),
        skip,
        end - start,
      );
    },
  };
}
