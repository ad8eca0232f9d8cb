/** Whole containers: a header, and the payload after it. */
import { isSealpinError, SealpinError } from '../errors.ts';
import type { BufferPool } from '../streams/buffer-pool.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import { concat } from '../streams/concat.ts';
import { dearmor } from './armor.ts';
import { checkRandom, draw, type CryptoProvider } from './providers/provider.ts';
import { webProvider } from './providers/web.ts';
import { fromUtf8 } from './bytes.ts';
import { makeHeader, opensWith, unwrapFileKey, wrapFileKey } from './file-key.ts';
import type { Format, FormatRow } from './formats/format-row.ts';
import { formatOf } from './formats/index.ts';
import { headerBytes, readHeader } from './header.ts';
import { openedBytes, sealedBytes } from './payload/chunking.ts';
import { openChunks } from './payload/open-chunks.ts';
import { sealChunks } from './payload/seal-chunks.ts';
import { isFormat, sniffSource, type Sniffed } from './sniff.ts';
import { checkStanzas, detachedLineOf } from './stanzas/check-stanzas.ts';
import type { Identity, Recipient, WithProvider } from './types.ts';

/** A container that was recognized: what it is, and how to open it. */
export type Opened =
  | { kind: 'plain'; stream: ReadableStream<Uint8Array> }
  | { kind: 'detached'; stream: ReadableStream<Uint8Array> }
  | {
      kind: Format;
      opens: 'password' | 'keys';
      /**
       * The size of the plaintext of a whole container that has so many bytes, which its end
       * confirms; undefined when it is in armor, or when no plaintext has a container of this size.
       */
      plaintextBytes(containerBytes: number): number | undefined;
      /**
       * Opens the payload, once. `again` is asked for other identities after the previous ones did
       * not open the header; without it, or when it returns undefined, that failure is thrown and
       * the container is released.
       */
      decrypt(identities: readonly Identity[], again?: Again): Promise<ReadableStream<Uint8Array>>;
      /** Unwraps the file key instead, and releases the container without reading its payload. */
      fileKey(identities: readonly Identity[], again?: Again): Promise<Uint8Array>;
    };

/** Returns other identities to try, for example another password; undefined to stop. */
export type Again = (failure: SealpinError) => Promise<readonly Identity[] | undefined>;

export type EncryptOptions = WithProvider & {
  /** `age` (every age tool opens it) or `sealpin` (AES-256-GCM). */
  format: Format;
  /** One password, or keys: at most 1,024. */
  recipients: readonly Recipient[];
  /** Permits post-quantum recipients to be combined with others. */
  mix?: boolean | undefined;
  /** Size of the arrays that the stream gives, but for the last one; 1 MiB by default. */
  pieceBytes?: number | undefined;
};

/**
 * Encrypts a stream in constant memory.
 * @returns the container, and the size that it has for a number of plaintext bytes
 * @throws SealpinError `no_recipients`, `invalid_request`, `key_invalid`, `kdf_unavailable`,
 * `random_failed`
 * @example
 * const recipients = parseRecipients(await publicKeyFile.text());
 * const { stream } = await encrypt(file.stream(), { format: 'age', recipients });
 * await fetch(url, { method: 'POST', body: stream, duplex: 'half' });
 */
export async function encrypt(
  plaintext: ReadableStream<Uint8Array>,
  { format: name, recipients, mix = false, pieceBytes, provider = webProvider }: EncryptOptions,
): Promise<{ stream: ReadableStream<Uint8Array>; size(plaintextBytes: number): number }> {
  const format = formatOf(name);
  checkRandom(provider);
  const fileKey = draw(provider, format.fileKeyBytes);
  const header = makeHeader(provider, format, fileKey, await wrapFileKey(provider, format, fileKey, recipients, mix));
  const { preamble, chunks } = await format.payload.create(provider, fileKey);
  const prefix = concat(header, preamble);
  return {
    stream: sealChunks(new ByteSource(plaintext), chunks, prefix, pieceBytes),
    size: (plaintextBytes) => prefix.length + sealedBytes(format.payload.chunking, plaintextBytes),
  };
}

/**
 * Recognizes a stream by its first line, and reads its header.
 * @returns `plain`: no version line. `detached`: a payload whose header, if it has one, is stored
 * elsewhere. Both with all bytes from the start. Otherwise what opens the container, and `decrypt`,
 * which throws `wrong_kind`, `decrypt_failed`, `header_invalid`, `kdf_unavailable`; its stream
 * errors with `decrypt_failed` or `container_invalid` after a prefix of the plaintext, and the
 * detail names the length of that prefix.
 * @param o.pool where the memory of the container's pieces goes once they are opened, and where
 * that of the plaintext comes from
 * @throws SealpinError `unsupported_version`, `header_invalid`
 * @example
 * const opened = await open(response.body);
 * if (opened.kind === 'age' || opened.kind === 'sealpin') {
 *   const plaintext = await opened.decrypt(parseIdentities(await privateKeyFile.text()));
 *   await plaintext.pipeTo(destination);
 * }
 */
export async function open(
  container: ReadableStream<Uint8Array>,
  { provider = webProvider, pool }: WithProvider & { pool?: BufferPool | undefined } = {},
): Promise<Opened> {
  const source = new ByteSource(container, pool);
  try {
    const sniffed = await sniffSource(source);
    if (isFormat(sniffed)) return await openHeader(source, formatOf(sniffed), provider, pool);
    if (sniffed === 'unsupported') throw new SealpinError('unsupported_version');
    if (sniffed === 'armor') {
      const inner = new ByteSource(dearmor(source));
      const format = formatInArmor(await sniffSource(inner));
      return { ...(await openHeader(inner, format, provider)), plaintextBytes: () => undefined };
    }
    return { kind: sniffed ?? 'plain', stream: source.rest() };
  } catch (error) {
    void cancelQuietly(source, error);
    throw error;
  }
}

/** The format of what armor holds. @throws header_invalid, unsupported_version */
export function formatInArmor(sniffed: Sniffed | undefined): FormatRow {
  const format = isFormat(sniffed) ? formatOf(sniffed) : undefined;
  if (format?.isArmorable) return format;
  if (sniffed === undefined || sniffed === 'armor')
    throw new SealpinError('header_invalid', 'the armor does not hold an age file');
  throw new SealpinError('unsupported_version');
}

async function openHeader(
  source: ByteSource,
  format: FormatRow,
  provider: CryptoProvider,
  pool?: BufferPool,
): Promise<Extract<Opened, { kind: Format }>> {
  const header = await readHeader(source, format.versionLine);
  checkStanzas(header.stanzas, format);
  const detachedLine = detachedLineOf(header.stanzas, format);
  const unwrapWith = async (first: readonly Identity[], again: Again | undefined): Promise<Uint8Array> => {
    for (let identities = first; ;) {
      try {
        return await unwrapFileKey(header, format, identities, provider);
      } catch (error) {
        const isWrong = isSealpinError(error) && (error.reason === 'wrong_password' || error.reason === 'no_key');
        const others = isWrong ? await again?.(error) : undefined;
        if (others === undefined) throw error;
        identities = others;
      }
    }
  };
  return {
    kind: format.name,
    opens: opensWith(header, format),
    plaintextBytes(containerBytes) {
      const { chunking, preambleBytes } = format.payload;
      return openedBytes(chunking, containerBytes - headerBytes(header) - detachedLine.length - preambleBytes);
    },
    async decrypt(identities, again) {
      try {
        const fileKey = await unwrapWith(identities, again);
        await takeDetachedLine(source, detachedLine);
        const chunks = await format.payload.read(source, provider, fileKey);
        return openChunks(source, () => chunks, pool);
      } catch (error) {
        void cancelQuietly(source, error);
        throw error;
      }
    },
    fileKey: (identities, again) => unwrapWith(identities, again).finally(() => void cancelQuietly(source)),
  };
}

/**
 * Takes the first line of a detached payload.
 * @throws SealpinError `container_invalid` for another one
 */
export async function takeDetachedLine(source: ByteSource, line: string): Promise<void> {
  await source.fill(line.length);
  if (fromUtf8(source.peek(line.length)) !== line)
    throw new SealpinError('container_invalid', 'the payload does not begin like one of the encrypted mode');
  source.take(line.length);
}
