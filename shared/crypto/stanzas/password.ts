/** Passwords: the stanzas `scrypt`, and `pbkdf2-sha512` of `sealpin/v1` alone. */
import { SealpinError } from '../../errors.ts';
import { draw, type CryptoProvider } from '../providers/provider.ts';
import { decodeBase64, encodeBase64, timingSafeEqual, utf8 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import type { FormatRow, Stanza } from '../formats/format-row.ts';
import type { Identity, Recipient } from '../types.ts';
import { tagBytes } from '../payload/chunking.ts';
import { stanzasOfKind } from './check-stanzas.ts';
import { cipherOf, openedBy, zeroNonce } from './hpke.ts';

const saltBytes = 16;

/**
 * Costs: the default, what is written, what `sealpin/v1` reads; scrypt's as log2(N), PBKDF2's as
 * iterations.
 */
export const costs = {
  scrypt: { default: 18, min: 10, max: 20 },
  'pbkdf2-sha512': { default: 1_000_000, min: 220_000, max: 10_000_000 },
} as const;

type KdfName = keyof typeof costs;
/** Derivation of a key from a password: scrypt with N = 2^logN, or PBKDF2-HMAC-SHA-512. */
export type PasswordKdf =
  | { name: 'scrypt'; logN?: number | undefined }
  | { name: 'pbkdf2-sha512'; iterations?: number | undefined };

/** Parses a password stanza; throws `header_invalid` before anything is derived from it. */
export function parsePasswordStanza(
  { args, body }: Stanza,
  { passwords, fileKeyBytes }: FormatRow,
): { name: KdfName; salt: Uint8Array; cost: number } {
  const [name, encodedSalt = '', costDigits = ''] = args;
  const kdf = isKdfName(name) ? passwords[name] : undefined;
  const salt = args.length === 3 ? decodeBase64(encodedSalt) : undefined;
  const isValid =
    isKdfName(name) &&
    kdf !== undefined &&
    salt?.length === saltBytes &&
    body.length === fileKeyBytes + tagBytes &&
    /^[1-9][0-9]*$/.test(costDigits);
  if (!isValid) throw new SealpinError('header_invalid', 'the password entry of the header is malformed');
  const cost = Number(costDigits);
  if (cost < kdf.min || cost > kdf.max) {
    const limit = cost > kdf.max ? 'above the supported maximum' : 'below the supported minimum';
    const supported = costText(name, cost > kdf.max ? kdf.max : kdf.min);
    throw new SealpinError('header_invalid', `the password entry has a work factor ${limit}, ${supported}`);
  }
  return { name, salt, cost };
}

function isKdfName(name: string | undefined): name is KdfName {
  return name !== undefined && Object.hasOwn(costs, name);
}

function costText(name: KdfName, cost: number): string {
  return name === 'scrypt' ? `scrypt with N = 2^${cost}` : `${cost} iterations of PBKDF2`;
}

async function wrapAeadOf(
  provider: CryptoProvider,
  { passwords, wrapAead }: FormatRow,
  password: Uint8Array,
  { name, salt, cost }: { name: KdfName; salt: Uint8Array; cost: number },
) {
  const kdf = passwords[name];
  if (kdf === undefined) throw new SealpinError('invalid_request', 'an age file takes a password by scrypt only');
  const labelled = concat(utf8(kdf.saltLabel), salt);
  const key =
    name === 'scrypt'
      ? await provider.scrypt(password, labelled, { logN: cost, r: 8, p: 1 })
      : await provider.pbkdf2(password, labelled, cost);
  return cipherOf(provider, wrapAead, key);
}

function normalize(password: string): string {
  if (password === '') throw new SealpinError('password_invalid', 'the password is empty');
  if (!password.isWellFormed()) throw new SealpinError('password_invalid', 'the password is not valid Unicode');
  return password.normalize('NFC');
}

/**
 * Decodes a password from the bytes of a file or pipe: UTF-8, without one line feed (or carriage
 * return and line feed) at the end. It is not normalized, since age files of other tools may be
 * made with a password that is not in NFC.
 * @throws SealpinError `password_invalid` for bytes that are not UTF-8
 */
export function parsePassword(bytes: Uint8Array): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new SealpinError('password_invalid', 'the password is not valid UTF-8');
  }
  return text.replace(/\r?\n$/, '');
}

/**
 * Makes the recipient of a password.
 * @param password is brought to NFC
 * @param kdf scrypt with logN 18 by default
 * @throws SealpinError `password_invalid` for an empty password or one with lone surrogates,
 * `invalid_request` for a cost out of range
 */
export function passwordRecipient(password: string, kdf: PasswordKdf = { name: 'scrypt' }): Recipient {
  const bytes = utf8(normalize(password));
  const { default: usual, min, max } = costs[kdf.name];
  const cost = (kdf.name === 'scrypt' ? kdf.logN : kdf.iterations) ?? usual;
  if (!Number.isSafeInteger(cost) || cost < min || cost > max)
    throw new SealpinError('invalid_request', `the cost of ${kdf.name} must be from ${min} to ${max}`);
  return {
    kind: 'password',
    async wrap(fileKey, format, provider) {
      const salt = draw(provider, saltBytes);
      const aead = await wrapAeadOf(provider, format, bytes, { name: kdf.name, salt, cost });
      return { args: [kdf.name, encodeBase64(salt), String(cost)], body: await aead.seal(zeroNonce, fileKey) };
    },
  };
}

/**
 * Makes the identity of a password. It is tried in NFC and then, where that differs, unchanged:
 * other age tools do not normalize, and a runtime with older Unicode data may have left a newer
 * letter as it was.
 * @throws SealpinError `password_invalid` for an empty password or one with lone surrogates
 */
export function passwordIdentity(password: string): Identity {
  const normalized = utf8(normalize(password));
  const given = utf8(password);
  return {
    kind: 'password',
    async unwrap({ stanzas }, format, provider) {
      for (const stanza of stanzasOfKind(stanzas, 'password', format)) {
        const parameters = parsePasswordStanza(stanza, format);
        for (const bytes of timingSafeEqual(normalized, given) ? [normalized] : [normalized, given]) {
          const aead = await wrapAeadOf(provider, format, bytes, parameters);
          const fileKey = await openedBy(aead, zeroNonce, stanza.body);
          if (fileKey !== undefined) return fileKey;
        }
      }
      return undefined;
    },
  };
}
