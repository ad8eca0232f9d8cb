/** Passwords: the `scrypt` stanza of age and of `sealpin/v1`, and the `pbkdf2-sha512` stanza of the latter. */
import { isSealpinError, SealpinError } from '../../errors.ts';
import { draw, type Backend } from '../backends/backend.ts';
import { decodeBase64, encodeBase64, isEqual, utf8 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import type { Format, Identity, Recipient, Stanza } from '../types.ts';

const saltBytes = 16;
const tagBytes = 16;
const zeroNonce = new Uint8Array(12);

/** The costs: the default, and the range that is written and that `sealpin/v1` is read in. scrypt's as log2(N), PBKDF2's as iterations. */
export const costs = {
  scrypt: { written: 18, least: 10, most: 20 },
  'pbkdf2-sha512': { written: 1_000_000, least: 220_000, most: 10_000_000 },
} as const;
/** What is read in age files, as log2(N). age and rage have the same upper limit and no lower one: reading a weak file does not make it weaker. */
const ageCosts = { least: 1, most: 22 } as const;

/** The labels before the stanza's 16 bytes of salt (C2SP age.md, "The scrypt recipient type"; shared/README.md). */
const saltLabels = {
  age: { scrypt: 'age-encryption.org/v1/scrypt', 'pbkdf2-sha512': undefined },
  sealpin: { scrypt: 'sealpin/v1 scrypt', 'pbkdf2-sha512': 'sealpin/v1 pbkdf2-sha512' },
} as const;

type KdfName = keyof typeof costs;
/** How a key is derived from a password: scrypt with N = 2^logN, or PBKDF2-HMAC-SHA-512. */
export type PasswordKdf =
  | { name: 'scrypt'; logN?: number | undefined }
  | { name: 'pbkdf2-sha512'; iterations?: number | undefined };

/** Whether a stanza is one of a password, which has to stand alone. */
export function isPasswordStanza(stanza: Stanza, format: Format): boolean {
  return stanza.args[0] === 'scrypt' || (format === 'sealpin' && stanza.args[0] === 'pbkdf2-sha512');
}

/** Reads a password stanza; throws `header_invalid` before anything is derived from it. */
export function parsePasswordStanza(
  { args, body }: Stanza,
  format: Format,
  fileKeyBytes: number,
): { name: KdfName; salt: Uint8Array; cost: number } {
  const name: KdfName = args[0] === 'scrypt' ? 'scrypt' : 'pbkdf2-sha512';
  const salt = args.length === 3 ? decodeBase64(args[1]!) : undefined;
  if (salt?.length !== saltBytes || body.length !== fileKeyBytes + tagBytes || !/^[1-9][0-9]*$/.test(args[2]!))
    throw new SealpinError('header_invalid', 'The password entry of the header is malformed');
  const cost = Number(args[2]);
  const { least, most } = format === 'age' ? ageCosts : costs[name];
  if (cost > most)
    throw new SealpinError(
      'header_invalid',
      `The password entry asks for more than ${costText(name, most)}, the limit`,
    );
  if (cost < least)
    throw new SealpinError(
      'header_invalid',
      `The password entry asks for less than ${costText(name, least)}, the least`,
    );
  return { name, salt, cost };
}

function costText(name: KdfName, cost: number): string {
  return name === 'scrypt' ? `scrypt with N = 2^${cost}` : `${cost} iterations of PBKDF2`;
}

async function wrapKey(
  backend: Backend,
  format: Format,
  password: Uint8Array,
  { name, salt, cost }: { name: KdfName; salt: Uint8Array; cost: number },
) {
  const label = saltLabels[format][name];
  if (label === undefined) throw new SealpinError('invalid_request', 'An age file takes a password by scrypt only');
  const labelled = concat(utf8(label), salt);
  const key =
    name === 'scrypt'
      ? await backend.scrypt(password, labelled, { logN: cost, r: 8, p: 1 })
      : await backend.pbkdf2(password, labelled, cost);
  return format === 'age' ? backend.chaChaPoly(key) : backend.aesGcm(key);
}

function normalize(password: string): string {
  if (password === '') throw new SealpinError('password_invalid', 'The password is empty');
  if (!password.isWellFormed()) throw new SealpinError('password_invalid', 'The password is not valid Unicode');
  return password.normalize('NFC');
}

/**
 * A password from bytes of a file or pipe: UTF-8, one line feed (with or without a carriage return) at the end left out; else as it is,
 * since age files of others may be made with one that is not in NFC. Bytes that are not UTF-8: `password_invalid`.
 */
export function parsePassword(bytes: Uint8Array): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new SealpinError('password_invalid', 'The password is not valid UTF-8');
  }
  return text.replace(/\r?\n$/, '');
}

/**
 * Someone who knows a password.
 * @param password is brought to NFC; empty, or with lone surrogates: `password_invalid`
 * @param kdf scrypt with logN 18 when left out; a cost outside of what is read throws `invalid_request`
 */
export function passwordRecipient(password: string, kdf: PasswordKdf = { name: 'scrypt' }): Recipient {
  const bytes = utf8(normalize(password));
  const { written, least, most } = costs[kdf.name];
  const cost = (kdf.name === 'scrypt' ? kdf.logN : kdf.iterations) ?? written;
  if (!Number.isSafeInteger(cost) || cost < least || cost > most)
    throw new SealpinError('invalid_request', `The cost of ${kdf.name} must be from ${least} to ${most}`);
  return {
    kind: 'password',
    async wrap(fileKey, format, backend) {
      const salt = draw(backend, saltBytes);
      const aead = await wrapKey(backend, format, bytes, { name: kdf.name, salt, cost });
      return { args: [kdf.name, encodeBase64(salt), String(cost)], body: await aead.seal(zeroNonce, fileKey) };
    },
  };
}

/**
 * What opens a container with a password. It is tried in NFC and then, where that differs, as given: other age tools do not normalize, and a
 * runtime with older Unicode data left a newer letter as it was given.
 */
export function passwordIdentity(password: string): Identity {
  const normalized = utf8(normalize(password));
  const given = utf8(password);
  return {
    kind: 'password',
    async unwrap(stanzas, format, backend) {
      for (const stanza of stanzas) {
        if (!isPasswordStanza(stanza, format)) continue;
        const parameters = parsePasswordStanza(stanza, format, format === 'age' ? 16 : 32);
        for (const bytes of isEqual(normalized, given) ? [normalized] : [normalized, given]) {
          const aead = await wrapKey(backend, format, bytes, parameters);
          try {
            return await aead.open(zeroNonce, stanza.body);
          } catch (error) {
            if (!isSealpinError(error, 'decrypt_failed')) throw error;
          }
        }
      }
      return undefined;
    },
  };
}
