/** Payloads with their header apart (encrypted mode), or with none, but a known file key. */
import { SealpinError } from '../errors.ts';
import type { Memory } from '../streams/buffer-pool.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import { concat } from '../streams/concat.ts';
import { checkRandom, draw, type CryptoProvider } from './providers/provider.ts';
import { webProvider } from './providers/web.ts';
import { streamOf, utf8 } from './bytes.ts';
import { takeDetachedLine } from './container.ts';
import { makeHeader, unwrapFileKey } from './file-key.ts';
import type { Stanza } from './formats/format-row.ts';
import { sealpinV1 as format } from './formats/sealpin-v1.ts';
import { readHeader, readWholeHeader, type Header } from './header.ts';
import { openedBytes, sealedBytes, type Chunks } from './payload/chunking.ts';
import { openChunks } from './payload/open-chunks.ts';
import { chunkSealer, type PayloadState } from './payload/chunk-sealer.ts';
import { sealChunks } from './payload/seal-chunks.ts';
import { openRange, openSpan } from './payload/span.ts';
import { checkStanzas, stanzasOfKind } from './stanzas/check-stanzas.ts';
import { openFileStanza, sealFileStanza, type FileInfo } from './stanzas/file-stanza.ts';
import type { Identity, Recipient, WithProvider } from './types.ts';

const { chunking, preambleBytes } = format.payload;
/** Bytes before the first chunk: the line and the preamble. */
export const beforeChunksBytes = format.detachedLine.length + preambleBytes;

/** Returns the size of the detached payload of a plaintext. */
export function detachedPayloadBytes(plaintextBytes: number): number {
  return beforeChunksBytes + sealedBytes(chunking, plaintextBytes);
}

/** Returns the size of the plaintext of a detached payload; undefined for an impossible one. */
export function plaintextBytes(payloadBytes: number): number | undefined {
  return openedBytes(chunking, payloadBytes - beforeChunksBytes);
}

/**
 * `pieceBytes`: size of the arrays that a payload gives, but for the last one; 1 MiB when
 * undefined. `memory`: where theirs comes from.
 */
type PieceOptions = WithProvider & { pieceBytes?: number | undefined; memory?: Memory | undefined };

/**
 * Encrypts a stream under a file key, with no header anywhere: losing the key is losing the
 * plaintext.
 * @param o.fileKey 32 bytes, `TypeError` otherwise; a fresh one by default
 * @returns the payload, and the file key
 * @throws SealpinError `random_failed`
 */
export async function encryptPayload(
  plaintext: ReadableStream<Uint8Array>,
  { fileKey, pieceBytes, memory, provider = webProvider }: PieceOptions & { fileKey?: Uint8Array | undefined } = {},
): Promise<{ payload: ReadableStream<Uint8Array>; fileKey: Uint8Array }> {
  if (fileKey !== undefined && fileKey.length !== format.fileKeyBytes)
    throw new TypeError(`fileKey must have ${format.fileKeyBytes} bytes`);
  const { fileKey: key, preamble, chunks } = await newPayload(provider, fileKey);
  const payload = sealChunks(new ByteSource(plaintext), chunks, prefixOf(preamble), pieceBytes, memory);
  return { payload, fileKey: key };
}

/**
 * Decrypts a payload by its file key.
 * @param payload from its first byte
 * @returns a stream that errors with `container_invalid` or `decrypt_failed` (also for the file key
 * of another payload)
 */
export function decryptPayload(
  payload: ReadableStream<Uint8Array>,
  { fileKey, provider = webProvider }: WithProvider & { fileKey: Uint8Array },
): ReadableStream<Uint8Array> {
  const source = new ByteSource(payload);
  return openChunks(source, () => readPayloadKeys(source, fileKey, provider));
}

/** Takes everything before the first chunk; throws `container_invalid` or `decrypt_failed`. */
export async function readPayloadKeys(
  source: ByteSource,
  fileKey: Uint8Array,
  provider: CryptoProvider,
): Promise<Chunks> {
  if (fileKey.length !== format.fileKeyBytes)
    throw new SealpinError('decrypt_failed', 'the file key is one of another format', { reason: 'no_key' });
  await takeDetachedLine(source, format.detachedLine);
  return format.payload.read(source, provider, fileKey);
}

/**
 * Encrypts a stream to a recipient, with the header apart.
 * @param o.memory also where that of the plaintext goes once it is sealed
 * @returns the payload, and a function that makes the header once id and size are known, also
 * before the payload has been read; to an `other` recipient where one is given
 */
export async function encryptDetached(
  plaintext: ReadableStream<Uint8Array>,
  { recipient, pieceBytes, memory, provider = webProvider }: PieceOptions & { recipient: Recipient },
): Promise<{
  payload: ReadableStream<Uint8Array>;
  header(fileId: string, file: FileInfo, other?: Recipient): Promise<Uint8Array>;
}> {
  const { fileKey, preamble, chunks } = await newPayload(provider);
  const stanza = await recipient.wrap(fileKey, format, provider);
  return {
    payload: sealChunks(new ByteSource(plaintext, memory), chunks, prefixOf(preamble), pieceBytes, memory),
    header: async (fileId, file, other) =>
      headerOf(provider, fileKey, (await other?.wrap(fileKey, format, provider)) ?? stanza, fileId, file),
  };
}

async function newPayload(
  provider: CryptoProvider,
  fileKey?: Uint8Array,
): Promise<{ fileKey: Uint8Array; preamble: Uint8Array; chunks: Chunks }> {
  checkRandom(provider);
  const key = fileKey ?? draw(provider, format.fileKeyBytes);
  return { fileKey: key, ...(await format.payload.create(provider, key)) };
}

function prefixOf(preamble: Uint8Array): Uint8Array {
  return concat(utf8(format.detachedLine), preamble);
}

async function headerOf(
  provider: CryptoProvider,
  fileKey: Uint8Array,
  stanza: Stanza,
  fileId: string,
  file: FileInfo,
): Promise<Uint8Array> {
  return makeHeader(provider, format, fileKey, [stanza, await sealFileStanza(provider, fileKey, fileId, file)]);
}

/** Keys that make a payload. Anyone with the file key can read the file. */
export type PayloadKeys = { fileKey: Uint8Array; preamble: Uint8Array };

/** A detached payload that is made in several goes, by different processes. */
export type PayloadSealer = ReturnType<typeof chunkSealer> & {
  /** Makes the header, to a recipient. */
  header(recipient: Recipient, fileId: string, file: FileInfo): Promise<Uint8Array>;
};

/**
 * Draws the keys of a detached payload.
 * @returns them, and the state at which `resumePayload` begins
 */
export async function beginPayload({ provider = webProvider }: WithProvider = {}): Promise<{
  keys: PayloadKeys;
  state: PayloadState;
}> {
  const { fileKey, preamble } = await newPayload(provider);
  return { keys: { fileKey, preamble }, state: { offset: 0, rest: new Uint8Array(0), tail: prefixOf(preamble) } };
}

/**
 * Goes on with a detached payload. The bytes are those that `encryptDetached` makes in one go,
 * however the plaintext is cut. The same keys must never seal two plaintexts that differ within one
 * chunk, and show both results: that reveals the difference, and lets others forge chunks (NIST SP
 * 800-38D, appendix A).
 * @param o.pieceBytes size of the pieces
 * @param o.memory where that of the pieces comes from, which belongs to who gets them
 * @throws SealpinError `decrypt_failed` when the file key is not that of the preamble
 */
export async function resumePayload(
  { fileKey, preamble }: PayloadKeys,
  { offset, rest, tail }: PayloadState,
  { pieceBytes, memory, provider = webProvider }: PieceOptions & { pieceBytes: number },
): Promise<PayloadSealer> {
  const chunks = await format.payload.read(new ByteSource(streamOf(preamble)), provider, fileKey);
  const sealer = chunkSealer(chunks, { offset, rest, tail, pieceBytes, memory });
  return {
    ...sealer,
    header: async (recipient, fileId, file) =>
      headerOf(provider, fileKey, await recipient.wrap(fileKey, format, provider), fileId, file),
  };
}

/** A detached header that was opened: the file's description, and its payload, whole or in part. */
export type OpenedDetached = {
  file: FileInfo;
  /** Decrypts a whole payload; the stream fails with `container_invalid` or `decrypt_failed`. */
  decrypt(payload: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
  /** Makes the header of the same payload, for the same recipients, with another description. */
  describe(fileId: string, file: FileInfo): Promise<Uint8Array>;
  /** Makes the header of the same payload, with the same description, for another recipient. */
  rewrap(recipient: Recipient): Promise<Uint8Array>;
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

/** The file that is asked for, and what opens its header. */
type HeaderOptions = WithProvider & { fileId: string; identities: readonly Identity[] };

async function openHeader(
  header: Header,
  { fileId, identities, provider = webProvider }: HeaderOptions,
): Promise<{ fileKey: Uint8Array; file: FileInfo; stanza: Stanza }> {
  checkStanzas(header.stanzas, format);
  const [stanza] = stanzasOfKind(header.stanzas, 'file', format);
  if (stanza === undefined) throw new SealpinError('header_invalid', 'the header does not name its file');
  const fileKey = await unwrapFileKey(header, format, identities, provider);
  return { fileKey, file: await openFileStanza(provider, fileKey, fileId, stanza), stanza };
}

/**
 * Opens a detached header.
 * @param header all of it, and nothing else
 * @param o.fileId the file that was asked for
 * @throws SealpinError `header_invalid`, `wrong_kind`, `decrypt_failed` (also when the header is
 * that of another file)
 */
export async function openDetached(header: Uint8Array, o: HeaderOptions): Promise<OpenedDetached> {
  const { provider = webProvider } = o;
  const parsed = readWholeHeader(header, format.versionLine);
  const { fileKey, file, stanza } = await openHeader(parsed, o);
  const begin = (source: ByteSource) => readPayloadKeys(source, fileKey, provider);
  return {
    file,
    decrypt: (payload) => decryptPayload(payload, { fileKey, provider }),
    async describe(id, info) {
      const others = parsed.stanzas.filter((each) => each !== stanza);
      return makeHeader(provider, format, fileKey, [...others, await sealFileStanza(provider, fileKey, id, info)]);
    },
    async rewrap(recipient) {
      return makeHeader(provider, format, fileKey, [await recipient.wrap(fileKey, format, provider), stanza]);
    },
    decryptRange: ({ read, ...range }) =>
      openRange(range, chunking, file.size, async ({ span, offset, bytes }) => {
        if (span.first === 0) {
          const source = new ByteSource(await read(0, beforeChunksBytes + bytes));
          return openSpan(source, () => begin(source), span);
        }
        const beginning = new ByteSource(await read(0, beforeChunksBytes));
        const chunks = await begin(beginning).finally(() => void cancelQuietly(beginning));
        return openSpan(new ByteSource(await read(beforeChunksBytes + offset, bytes)), () => chunks, span);
      }),
  };
}

/**
 * Opens the header at the beginning of a container of the encrypted mode. No more than the header
 * is read.
 * @param container header and stored bytes, as the service returns them
 * @param o.fileId the file that was asked for
 * @returns the file key, and what the header says of the file
 * @throws SealpinError as `openDetached` does
 */
export async function openContainerHeader(
  container: ReadableStream<Uint8Array>,
  o: HeaderOptions,
): Promise<{ fileKey: Uint8Array; file: FileInfo }> {
  const source = new ByteSource(container);
  try {
    return await openHeader(await readHeader(source, format.versionLine), o);
  } finally {
    void cancelQuietly(source);
  }
}
