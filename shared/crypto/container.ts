/** Whole containers: a header, and the payload after it. */
import { isSealpinError, SealpinError } from '../errors.ts';
import { dearmor } from './armor.ts';
import { checkRandom, draw, type Backend } from './backends/backend.ts';
import { fromUtf8, isEqual, utf8 } from './bytes.ts';
import { concat } from '../streams/concat.ts';
import { openChunks, sealChunks, sealedBytes, type Chunks } from './payload/chunks.ts';
import { cobblestone, newCobblestone, readCobblestone } from './payload/cobblestone.ts';
import { encodeHeader, macInput, readHeader, type Header } from './header.ts';
import { hkdf } from './backends/kdf.ts';
import { checkStanzas, fileKeyBytes, isDetachedHeader } from './stanzas/registry.ts';
import { isPasswordStanza } from './stanzas/password.ts';
import { detachedLine, sniffSource, versions } from './sniff.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { newStream, readStream, stream } from './payload/age-stream.ts';
import type { Format, Identity, Recipient, Stanza } from './types.ts';
import { webBackend } from './backends/web.ts';

const empty = new Uint8Array(0);
/** The context of Cobblestone, and the info of the key that goes into it. */
const payloadContext = utf8('sealpin/v1');

/** A container that was recognized: what it is, and how to open it. */
export type Opened =
  | { kind: 'plain'; stream: ReadableStream<Uint8Array> }
  | { kind: 'detached' }
  | {
      kind: Format;
      opens: 'password' | 'keys';
      /**
       * Opens the payload, once. `again` is asked for other identities after none of the former opened the header; without
       * it, or when it gives undefined, that failure is thrown and the container is let go.
       */
      decrypt(identities: readonly Identity[], again?: Again): Promise<ReadableStream<Uint8Array>>;
    };

/** Other identities to try, for example another password; undefined to stop. */
export type Again = (failure: SealpinError) => Promise<readonly Identity[] | undefined>;

/** The MAC of a header under its file key (C2SP age.md, "Header MAC"; shared/README.md). */
function headerMac(backend: Backend, format: Format, fileKey: Uint8Array, input: Uint8Array): Uint8Array {
  return backend.hmac(
    'sha256',
    hkdf(backend, fileKey, empty, format === 'age' ? 'header' : 'sealpin/v1 header'),
    input,
  );
}

/** The header of a file key with these stanzas. */
export function makeHeader(
  backend: Backend,
  format: Format,
  fileKey: Uint8Array,
  stanzas: readonly Stanza[],
): Uint8Array {
  const input = macInput(versions[format], stanzas);
  return encodeHeader(input, headerMac(backend, format, fileKey, input));
}

/** A fresh salt and the cipher for the payload of a file key. */
export function newPayload(
  backend: Backend,
  format: Format,
  fileKey: Uint8Array,
): Promise<{ preamble: Uint8Array; chunks: Chunks }> {
  return format === 'age'
    ? newStream(backend, fileKey)
    : newCobblestone(backend, hkdf(backend, fileKey, empty, 'sealpin/v1 payload'), payloadContext);
}

/** The cipher for the payload that the source stands at. */
export function readPayload(
  source: ByteSource,
  backend: Backend,
  format: Format,
  fileKey: Uint8Array,
): Promise<Chunks> {
  return format === 'age'
    ? readStream(source, backend, fileKey)
    : readCobblestone(source, backend, hkdf(backend, fileKey, empty, 'sealpin/v1 payload'), payloadContext);
}

function checkRecipients(recipients: readonly Recipient[], mix: boolean): Recipient[] {
  if (recipients.length === 0) throw new SealpinError('no_recipients');
  if (recipients.length > 1 && recipients.some(({ kind }) => kind === 'password')) {
    throw new SealpinError('invalid_request', 'A password cannot be combined with other recipients', {
      reason: 'password_and_keys',
    });
  }
  if (
    !mix &&
    recipients.some(({ postQuantum }) => postQuantum === true) &&
    recipients.some(({ postQuantum }) => postQuantum !== true)
  ) {
    throw new SealpinError(
      'invalid_request',
      'Mixing post-quantum and ordinary recipients is only as strong as the weakest of them',
      { reason: 'mixed_recipients' },
    );
  }
  const seen = new Set<string>();
  return recipients.filter(({ text }) => text === undefined || (!seen.has(text) && seen.add(text)));
}

/** Wraps a file key for everyone; who is named twice is wrapped once. */
export async function wrapAll(
  backend: Backend,
  format: Format,
  fileKey: Uint8Array,
  recipients: readonly Recipient[],
  mix = false,
): Promise<Stanza[]> {
  const stanzas: Stanza[] = [];
  for (const recipient of checkRecipients(recipients, mix))
    stanzas.push(await recipient.wrap(fileKey, format, backend));
  return stanzas;
}

/**
 * Encrypts a stream in constant memory.
 * @param o.format `age` (any age tool opens it) or `sealpin` (AES-256-GCM)
 * @param o.recipients one password, or any number of keys up to 1,024
 * @param o.mix whether post-quantum recipients may be combined with others
 * @returns the container, and the size it has for a number of plaintext bytes
 * @throws SealpinError `no_recipients`, `invalid_request`, `key_invalid`, `kdf_unavailable`, `random_failed`
 */
export async function encrypt(
  plaintext: ReadableStream<Uint8Array>,
  {
    format,
    recipients,
    mix = false,
    backend = webBackend,
  }: { format: Format; recipients: readonly Recipient[]; mix?: boolean; backend?: Backend },
): Promise<{ stream: ReadableStream<Uint8Array>; size(plaintextBytes: number): number }> {
  checkRandom(backend);
  const fileKey = draw(backend, fileKeyBytes[format]);
  const header = makeHeader(backend, format, fileKey, await wrapAll(backend, format, fileKey, recipients, mix));
  const { preamble, chunks } = await newPayload(backend, format, fileKey);
  const prefix = concat(header, preamble);
  return {
    stream: sealChunks(new ByteSource(plaintext), chunks, prefix),
    size: (plaintextBytes) => prefix.length + sealedBytes(format === 'age' ? stream : cobblestone, plaintextBytes),
  };
}

/**
 * The file key of a header, whose MAC it checks.
 * @throws SealpinError `wrong_kind` when no identity is of the kind that opens it, `decrypt_failed` when none opens it
 *   (`wrong_password`, `no_key`) or the header was changed (`header`)
 */
export async function unlock(
  header: Header,
  format: Format,
  identities: readonly Identity[],
  backend: Backend,
): Promise<Uint8Array> {
  const kind = opensWith(header, format) === 'password' ? 'password' : 'key';
  const fitting = identities.filter((identity) => identity.kind === kind);
  if (fitting.length === 0) {
    throw kind === 'password'
      ? new SealpinError('wrong_kind', 'It opens with a password, not with a key', { reason: 'needs_password' })
      : new SealpinError('wrong_kind', 'It opens with a private key, not with a password', { reason: 'needs_key' });
  }
  for (const identity of fitting) {
    const fileKey = await identity.unwrap(header.stanzas, format, backend);
    if (fileKey === undefined) continue;
    if (isEqual(headerMac(backend, format, fileKey, header.macInput), header.mac)) return fileKey;
    throw new SealpinError('decrypt_failed', 'The header is damaged or was changed', { reason: 'header' });
  }
  throw kind === 'password'
    ? new SealpinError('decrypt_failed', 'Wrong password', { reason: 'wrong_password' })
    : new SealpinError('decrypt_failed', 'None of the keys opens it', { reason: 'no_key' });
}

function opensWith(header: Header, format: Format): 'password' | 'keys' {
  return header.stanzas.some((stanza) => isPasswordStanza(stanza, format)) ? 'password' : 'keys';
}

/**
 * Recognizes what a stream is by its first line, and reads its header.
 * @returns `plain`: no version line, all bytes from the start; `detached`: the payload of the service's encrypted mode, which needs the header
 * that the service keeps; else what it opens with, and how. `decrypt` throws `wrong_kind`, `decrypt_failed`, `header_invalid`, `kdf_unavailable`;
 * its stream errors with `decrypt_failed` or `container_invalid` after a prefix of the plaintext, and the detail names its length.
 * @throws SealpinError `unsupported_version`, `header_invalid`
 */
export async function open(
  container: ReadableStream<Uint8Array>,
  { backend = webBackend }: { backend?: Backend } = {},
): Promise<Opened> {
  const source = new ByteSource(container);
  try {
    const found = await sniffSource(source);
    if (found === undefined) return { kind: 'plain', stream: source.rest() };
    if (found === 'unsupported') throw new SealpinError('unsupported_version');
    if (found === 'armor') return await openArmored(new ByteSource(dearmor(source)), backend);
    if (found === 'detached') {
      source.abandon(undefined);
      return { kind: 'detached' };
    }
    return await openHeader(source, found, backend);
  } catch (error) {
    source.abandon(error);
    throw error;
  }
}

async function openArmored(source: ByteSource, backend: Backend): Promise<Opened> {
  const found = await sniffSource(source);
  if (found === 'age') return openHeader(source, found, backend);
  if (found === undefined || found === 'armor')
    throw new SealpinError('header_invalid', 'The armor does not hold an age file');
  throw new SealpinError('unsupported_version');
}

async function openHeader(source: ByteSource, format: Format, backend: Backend): Promise<Opened> {
  const header = await readHeader(source, versions[format]);
  checkStanzas(header.stanzas, format);
  const unlockWith = async (first: readonly Identity[], again: Again | undefined): Promise<Uint8Array> => {
    for (let identities = first; ;) {
      try {
        return await unlock(header, format, identities, backend);
      } catch (error) {
        const isWrong = isSealpinError(error) && (error.reason === 'wrong_password' || error.reason === 'no_key');
        const others = isWrong ? await again?.(error) : undefined;
        if (others === undefined) throw error;
        identities = others;
      }
    }
  };
  return {
    kind: format,
    opens: opensWith(header, format),
    async decrypt(identities, again) {
      try {
        const fileKey = await unlockWith(identities, again);
        if (isDetachedHeader(header.stanzas, format)) await readDetachedLine(source);
        const chunks = await readPayload(source, backend, format, fileKey);
        return openChunks(source, () => chunks);
      } catch (error) {
        source.abandon(error);
        throw error;
      }
    },
  };
}

/** Takes the line that a detached payload begins with. */
export async function readDetachedLine(source: ByteSource): Promise<void> {
  await source.fill(detachedLine.length);
  if (fromUtf8(source.peek(detachedLine.length)) !== detachedLine)
    throw new SealpinError('container_invalid', 'The payload does not begin like one of the encrypted mode');
  source.take(detachedLine.length);
}
