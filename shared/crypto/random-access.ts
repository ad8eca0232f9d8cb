/** Parts of a container, without reading the rest. */
import { SealpinError } from '../errors.ts';
import type { Backend } from './backends/backend.ts';
import { streamOf } from './bytes.ts';
import { openedBytes, openSpan, slice, spanOf } from './payload/chunks.ts';
import { cobblestone, preambleBytes } from './payload/cobblestone.ts';
import { readDetachedLine, readPayload, unlock } from './container.ts';
import { headerBytes, maxHeaderBytes, readHeader } from './header.ts';
import { checkStanzas, isDetachedHeader } from './stanzas/registry.ts';
import { detachedLine, sniffSource, versions } from './sniff.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { nonceBytes, stream } from './payload/age-stream.ts';
import type { Format, Identity } from './types.ts';
import { webBackend } from './backends/web.ts';

/** The longest that a header and what follows it before the first chunk can be. */
const maxBeforeChunksBytes = maxHeaderBytes + detachedLine.length + preambleBytes;

/** A container that can be read anywhere. */
export interface RandomAccess {
  /** Its size. */
  readonly bytes: number;
  /** `length` bytes from `offset`, as they are asked for: never past the end. */
  read(offset: number, length: number): Promise<ReadableStream<Uint8Array>>;
}

/** A container of which any part can be decrypted. */
export type OpenedAt = {
  /** Size of the plaintext: the last chunk has vouched for it. */
  plaintextBytes: number;
  /** Bytes `start` up to `end` (exclusive); throws `range_not_satisfiable`, and the stream errors with `decrypt_failed` or `container_invalid`. */
  decryptRange(o: { start: number; end: number }): Promise<ReadableStream<Uint8Array>>;
};

/**
 * Opens a container for reading parts of it. Its last chunk is authenticated first, so that a container which was cut is never taken
 * for a whole one.
 * @throws SealpinError `not_encrypted`, `unsupported_version`, `invalid_request` (ASCII armor), `header_invalid`, `wrong_kind`, `decrypt_failed`,
 * `container_invalid`
 */
export async function openAt(
  container: RandomAccess,
  { identities, backend = webBackend }: { identities: readonly Identity[]; backend?: Backend },
): Promise<OpenedAt> {
  const source = new ByteSource(await container.read(0, Math.min(container.bytes, maxBeforeChunksBytes)));
  try {
    const format = await formatOf(source);
    const header = await readHeader(source, versions[format]);
    checkStanzas(header.stanzas, format);
    const fileKey = await unlock(header, format, identities, backend);
    const chunking = format === 'age' ? stream : cobblestone;
    const lineBytes = isDetachedHeader(header.stanzas, format) ? detachedLine.length : 0;
    if (lineBytes > 0) await readDetachedLine(source);
    const chunks = await readPayload(source, backend, format, fileKey);
    await source.cancel(undefined);

    const before = headerBytes(header) + lineBytes + (format === 'age' ? nonceBytes : preambleBytes);
    const plaintextBytes = openedBytes(chunking, container.bytes - before);
    if (plaintextBytes === undefined) throw new SealpinError('container_invalid');
    const opened = async (
      start: number,
      end: number,
    ): Promise<{ stream: ReadableStream<Uint8Array>; skip: number }> => {
      const { span, offset, bytes } = spanOf(chunking, start, end, plaintextBytes);
      const part = new ByteSource(await container.read(before + offset, bytes));
      return { stream: openSpan(part, () => chunks, span), skip: start - span.first * chunking.chunkBytes };
    };
    const last = await opened(plaintextBytes, plaintextBytes);
    await drain(last.stream);
    return {
      plaintextBytes,
      async decryptRange({ start, end }) {
        if (
          !Number.isSafeInteger(start) ||
          !Number.isSafeInteger(end) ||
          start < 0 ||
          start > end ||
          end > plaintextBytes
        )
          throw new SealpinError('range_not_satisfiable');
        if (start === end) return streamOf(new Uint8Array(0));
        const { stream, skip } = await opened(start, end);
        return slice(stream, skip, end - start);
      },
    };
  } catch (error) {
    source.abandon(error);
    throw error;
  }
}

async function formatOf(source: ByteSource): Promise<Format> {
  const found = await sniffSource(source);
  if (found === 'age' || found === 'sealpin') return found;
  if (found === undefined) throw new SealpinError('not_encrypted');
  if (found === 'armor')
    throw new SealpinError('invalid_request', 'An age file in ASCII armor cannot be read in parts, only as a whole');
  throw new SealpinError('unsupported_version');
}

async function drain(stream: ReadableStream<Uint8Array>): Promise<void> {
  const reader = stream.getReader();
  while (!(await reader.read()).done);
}
