/** Parts of a container, without reading the rest. */
import { isSealpinError, SealpinError } from '../errors.ts';
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import type { BufferPool } from '../streams/buffer-pool.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { webProvider } from './providers/web.ts';
import { evenArmor, unevenArmor } from './armor.ts';
import { formatInArmor, takeDetachedLine } from './container.ts';
import { beforeChunksBytes, readPayloadKeys } from './detached.ts';
import { fileKeyIdentity, unwrapFileKey } from './file-key.ts';
import type { FormatRow } from './formats/format-row.ts';
import { formatOf, formats } from './formats/index.ts';
import { headerBytes, maxHeaderBytes, readHeader } from './header.ts';
import { openedBytes, type Chunks } from './payload/chunking.ts';
import { openRange, openSpan, spanOf } from './payload/span.ts';
import { isFormat, sniffBytes, sniffSource, type Sniffed } from './sniff.ts';
import { checkStanzas, detachedLineOf } from './stanzas/check-stanzas.ts';
import type { Identity, RandomAccess, WithProvider } from './types.ts';

/** The most bytes that a container can have before its first chunk. */
const maxBeforeChunksBytes =
  maxHeaderBytes +
  Math.max(...formats.map(({ detachedLine, payload }) => (detachedLine?.length ?? 0) + payload.preambleBytes));

/**
 * Options for opening a container at a position. `pool`: gets the memory of the sealed bytes that
 * were read, and gives that of the opened ones, which may be given back there.
 */
type OpenAtOptions = Readonly<WithProvider> & { readonly pool?: BufferPool | undefined };

/** A container of which any part can be decrypted. */
export type OpenedAt = {
  /** Size of the plaintext, authenticated by the last chunk. */
  plaintextBytes: number;
  /**
   * Decrypts bytes `start` up to `end` (exclusive); throws `range_not_satisfiable`, and the stream
   * errors with `decrypt_failed` or `container_invalid`.
   */
  decryptRange(o: { start: number; end: number }): Promise<ReadableStream<Uint8Array>>;
};

/**
 * Opens a container for reading parts of it. Its last chunk is authenticated first, so that a
 * truncated container is never taken for a whole one.
 * @param stored the container, in ASCII armor or not
 * @throws SealpinError `not_encrypted`, `unsupported_version`, `header_invalid`, `wrong_kind`,
 * `decrypt_failed`, `container_invalid`
 */
export async function openAt(
  stored: RandomAccess,
  { identities, provider = webProvider, pool }: OpenAtOptions & { identities: readonly Identity[] },
): Promise<OpenedAt> {
  let isKeyWrong = false;
  const opening = (container: RandomAccess, formatOfKind = formatInArmor): Promise<OpenedAt> =>
    openPayload(container, pool, async (source) => {
      const format = formatOfKind(await sniffSource(source));
      const header = await readHeader(source, format.versionLine);
      checkStanzas(header.stanzas, format);
      isKeyWrong = true;
      const fileKey = await unwrapFileKey(header, format, identities, provider);
      isKeyWrong = false;
      const detachedLine = detachedLineOf(header.stanzas, format);
      await takeDetachedLine(source, detachedLine);
      const chunks = await format.payload.read(source, provider, fileKey);
      return { chunks, before: headerBytes(header) + detachedLine.length + format.payload.preambleBytes };
    });
  try {
    return await opening(stored, bareFormat);
  } catch (error) {
    if (!(error instanceof Armored)) throw error;
  }
  try {
    const even = await evenArmor(stored);
    if (even !== undefined) return await opening(even);
  } catch (error) {
    const isUneven = isSealpinError(error) && ofUneven.includes(error.code);
    if (isKeyWrong || !isUneven) throw error;
  }
  return opening(await unevenArmor(stored));
}

/** Codes of what is read at the wrong offsets. */
const ofUneven = ['header_invalid', 'decrypt_failed', 'container_invalid'];

function bareFormat(kind: Sniffed | undefined): FormatRow {
  if (kind === 'armor') throw new Armored();
  if (kind === undefined) throw new SealpinError('not_encrypted');
  if (!isFormat(kind)) throw new SealpinError('unsupported_version');
  return formatOf(kind);
}

/** What was found is armor: it is opened again without it. */
class Armored extends Error {}

/**
 * Opens a stored file by its file key for reading parts of it: a container, or a payload without a
 * header. As `openAt`, it begins with the last chunk.
 * @throws SealpinError `key_invalid`, and what `openAt` throws
 */
export async function openAtWithFileKey(
  stored: RandomAccess,
  { fileKey, provider = webProvider, ...o }: OpenAtOptions & { fileKey: Uint8Array },
): Promise<OpenedAt> {
  const identities = [fileKeyIdentity(fileKey)];
  const head = new ByteSource(await stored.read(0, Math.min(stored.bytes, sniffBytes)));
  const sniffed = await sniffSource(head).finally(() => void cancelQuietly(head));
  return sniffed === 'detached'
    ? openPayload(stored, o.pool, async (source) => {
        return { chunks: await readPayloadKeys(source, fileKey, provider), before: beforeChunksBytes };
      })
    : openAt(stored, { identities, provider, ...o });
}

async function openPayload(
  container: RandomAccess,
  pool: BufferPool | undefined,
  start: (source: ByteSource) => Promise<{ chunks: Chunks; before: number }>,
): Promise<OpenedAt> {
  const source = new ByteSource(await container.read(0, Math.min(container.bytes, maxBeforeChunksBytes)));
  try {
    const { chunks, before } = await start(source);
    await cancelQuietly(source);

    const plaintextBytes = openedBytes(chunks, container.bytes - before);
    if (plaintextBytes === undefined) throw new SealpinError('container_invalid');
    const openPart = async ({ span, offset, bytes }: ReturnType<typeof spanOf>) =>
      openSpan(new ByteSource(await container.read(before + offset, bytes), pool), () => chunks, span, pool);
    const last = await openPart(spanOf(chunks, plaintextBytes, plaintextBytes, plaintextBytes));
    const reader = last.getReader();
    while (!(await reader.read()).done);
    return { plaintextBytes, decryptRange: (range) => openRange(range, chunks, plaintextBytes, openPart) };
  } catch (error) {
    void cancelQuietly(source, error);
    throw error;
  }
}
