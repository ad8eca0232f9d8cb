/** File keys in headers: wrapped for recipients, unwrapped with identities, or known. */
import { SealpinError } from '../errors.ts';
import type { CryptoProvider } from './providers/provider.ts';
import { hkdf } from './providers/kdf.ts';
import { timingSafeEqual } from './bytes.ts';
import type { FormatRow, Stanza } from './formats/format-row.ts';
import { formats } from './formats/index.ts';
import { encodeHeader, macInput, type Header } from './header.ts';
import { stanzasOfKind } from './stanzas/check-stanzas.ts';
import type { Identity, Recipient } from './types.ts';

/** Computes the MAC of a header (C2SP age.md, "Header MAC"; shared/README.md). */
function headerMac(provider: CryptoProvider, format: FormatRow, fileKey: Uint8Array, input: Uint8Array): Uint8Array {
  return provider.hmac('sha256', hkdf(provider, fileKey, new Uint8Array(0), format.macInfo), input);
}

function hasMac(provider: CryptoProvider, format: FormatRow, fileKey: Uint8Array, { mac, macInput }: Header): boolean {
  return timingSafeEqual(headerMac(provider, format, fileKey, macInput), mac);
}

/**
 * Encodes the header of a file key.
 * @throws SealpinError `invalid_request` when it gets too large
 */
export function makeHeader(
  provider: CryptoProvider,
  format: FormatRow,
  fileKey: Uint8Array,
  stanzas: readonly Stanza[],
): Uint8Array {
  const input = macInput(format.versionLine, stanzas);
  return encodeHeader(input, headerMac(provider, format, fileKey, input));
}

function checkRecipients(recipients: readonly Recipient[], mix: boolean): Recipient[] {
  if (recipients.length === 0) throw new SealpinError('no_recipients');
  if (recipients.length > 1 && recipients.some(({ kind }) => kind === 'password')) {
    throw new SealpinError('invalid_request', 'a password cannot be combined with other recipients', {
      reason: 'password_and_keys',
    });
  }
  if (!mix && new Set(recipients.map(({ postQuantum = false }) => postQuantum)).size > 1) {
    throw new SealpinError('invalid_request', 'mixing in classical keys removes the post-quantum protection', {
      reason: 'mixed_recipients',
    });
  }
  const seen = new Set<string>();
  return recipients.filter(({ text }) => text === undefined || (!seen.has(text) && seen.add(text)));
}

/**
 * Wraps a file key for recipients. One that is named twice gets one stanza.
 * @param mix whether post-quantum recipients may be combined with others
 * @throws SealpinError `no_recipients`, `invalid_request`, and what `wrap` of a recipient throws
 */
export async function wrapFileKey(
  provider: CryptoProvider,
  format: FormatRow,
  fileKey: Uint8Array,
  recipients: readonly Recipient[],
  mix = false,
): Promise<Stanza[]> {
  const stanzas: Stanza[] = [];
  for (const recipient of checkRecipients(recipients, mix))
    stanzas.push(await recipient.wrap(fileKey, format, provider));
  return stanzas;
}

/** Returns what a header opens with. */
export function opensWith(header: Header, format: FormatRow): 'password' | 'keys' {
  return stanzasOfKind(header.stanzas, 'password', format).length > 0 ? 'password' : 'keys';
}

/**
 * Unwraps the file key of a header, whose MAC it checks.
 * @throws SealpinError `wrong_kind` when no identity is of the kind that opens it, `decrypt_failed`
 * when none opens it (`wrong_password`, `no_key`) or the header was changed (`header`)
 */
export async function unwrapFileKey(
  header: Header,
  format: FormatRow,
  identities: readonly Identity[],
  provider: CryptoProvider,
): Promise<Uint8Array> {
  const kind = opensWith(header, format) === 'password' ? 'password' : 'key';
  const fitting = identities.filter((identity) => identity.kind === kind || identity.kind === 'any');
  if (fitting.length === 0) {
    throw kind === 'password'
      ? new SealpinError('wrong_kind', 'it opens with a password, not with a key', { reason: 'needs_password' })
      : new SealpinError('wrong_kind', 'it opens with a private key, not with a password', { reason: 'needs_key' });
  }
  for (const identity of fitting) {
    const fileKey = await identity.unwrap(header, format, provider);
    if (fileKey === undefined) continue;
    if (hasMac(provider, format, fileKey, header)) return fileKey;
    throw new SealpinError('decrypt_failed', 'the header is damaged or was changed', { reason: 'header' });
  }
  if (fitting.some((identity) => identity.kind === 'password'))
    throw new SealpinError('decrypt_failed', 'wrong password', { reason: 'wrong_password' });
  const others = header.stanzas.length === 1 ? 'another one' : `${header.stanzas.length} others`;
  throw new SealpinError('decrypt_failed', `none of the keys opens it: it is encrypted to ${others}`, {
    reason: 'no_key',
  });
}

/**
 * Makes the identity of a file key that is known, which opens the container that it belongs to
 * without its password or keys: the MAC of the header proves it right.
 * @param fileKey 16 bytes for age files, 32 for `sealpin/v1`
 * @throws SealpinError `key_invalid` for another length
 */
export function fileKeyIdentity(fileKey: Uint8Array): Identity {
  if (!formats.some(({ fileKeyBytes }) => fileKeyBytes === fileKey.length))
    throw new SealpinError('key_invalid', 'no format has file keys of this length');
  return {
    kind: 'any',
    unwrap: async (header, format, provider) =>
      fileKey.length === format.fileKeyBytes && hasMac(provider, format, fileKey, header) ? fileKey : undefined,
  };
}
