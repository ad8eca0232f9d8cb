/** The texts of key files: how they are written, and how they are read. */
import { SealpinError, type Reason } from '../../errors.ts';
import { at } from '../../streams/at.ts';
import type { CryptoProvider } from '../providers/provider.ts';
import { webProvider } from '../providers/web.ts';
import { decodePadded } from '../bytes.ts';
import { newP256 } from '../stanzas/hpke.ts';
import { hybridIdentity, hybridRecipient, isHybridSecret, newHybridKey } from '../stanzas/hybrid.ts';
import { p256Recipient } from '../stanzas/p256.ts';
import { x25519Identity, x25519Recipient } from '../stanzas/x25519.ts';
import type { Identity, NamedIdentity, Recipient } from '../types.ts';
import { decodeKey } from './bech32.ts';
import { encodePkcs8, encodeSpki, parsePkcs8, parseSec1 } from './der.ts';
import { identityFromEcPrivate, identityFromPkcs8, recipientFromPoint, recipientFromSpki } from './key-pair.ts';
import { encodePem } from './pem.ts';

/** Begins the comment that names the recipient of the key below it. */
const recipientComment = '# recipient: ';

function recipientLine(recipient: string): string {
  return `${recipientComment}${recipient}\n`;
}

/** Encodes the text of a `public.key` file; throws `key_invalid`. @param spki P-256, in DER */
export function encodePublicKeyFile(spki: Uint8Array): string {
  return recipientLine(recipientFromSpki(spki).text) + encodePem('PUBLIC KEY', spki);
}

/** Encodes the text of a `private.key` file; throws `key_invalid`. @param pkcs8 P-256, in DER */
export function encodePrivateKeyFile(pkcs8: Uint8Array): string {
  return recipientLine(identityFromPkcs8(pkcs8).recipient) + encodePem('PRIVATE KEY', pkcs8);
}

/** A P-256 key pair: its scalar (32 bytes), in DER, and as texts; `recipient`: `age1tag1…`. */
export type KeyPair = {
  secret: Uint8Array;
  pkcs8: Uint8Array;
  spki: Uint8Array;
  privatePem: string;
  publicPem: string;
  recipient: string;
};

/** Makes a P-256 key pair; throws `random_failed`. */
export async function generateKeyPair(provider: CryptoProvider = webProvider): Promise<KeyPair> {
  return keyPairOf(newP256(provider).secret, provider);
}

/** Makes the P-256 key pair of a scalar; throws `key_invalid` for one out of range. */
export function keyPairOf(secret: Uint8Array, provider: CryptoProvider = webProvider): KeyPair {
  const point = provider.p256.publicKey(secret);
  const pkcs8 = encodePkcs8(secret, point);
  const spki = encodeSpki(point);
  const recipient = p256Recipient(point, provider.p256.compress(point)).text;
  return {
    secret,
    pkcs8,
    spki,
    recipient,
    privatePem: recipientLine(recipient) + encodePem('PRIVATE KEY', pkcs8),
    publicPem: recipientLine(recipient) + encodePem('PUBLIC KEY', spki),
  };
}

/** A post-quantum key pair: its seed (32 bytes), and as texts; `recipient`: `age1tagpq1…`. */
export type PostQuantumKeyPair = { seed: Uint8Array; privateText: string; publicText: string; recipient: string };

/** Makes a post-quantum key pair (ML-KEM-768 with P-256); throws `random_failed`. */
export async function generatePostQuantumKeyPair(provider: CryptoProvider = webProvider): Promise<PostQuantumKeyPair> {
  return postQuantumKeyPairOf(undefined, provider);
}

/** Makes the post-quantum key pair of a seed again. @param seed a fresh one when undefined */
export function postQuantumKeyPairOf(
  seed: Uint8Array | undefined,
  provider: CryptoProvider = webProvider,
): PostQuantumKeyPair {
  const { secret, recipient, ...made } = newHybridKey(provider, 'mlkem768p256tag', seed);
  return { ...made, recipient, privateText: `${recipientLine(recipient)}${secret}\n`, publicText: `${recipient}\n` };
}

/** A PEM block or a line of a key file, with the recipient that the line above it names. */
type KeyPart = { label?: string | undefined; text: string; line: number; named?: string | undefined };

/** A line that may be meant as a key in Bech32; other words around PEM are an explanation. */
const likeKey = /^[0-9a-z-]{20,}$/i;

/**
 * Splits the text of a key file. Text outside of PEM blocks is ignored (RFC 7468 section 2) unless
 * it looks like a key: a recipient is never dropped because of a typing error.
 */
function splitKeyFile(text: string): KeyPart[] {
  const found: KeyPart[] = [];
  let named: string | undefined;
  let block: KeyPart | undefined;
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  for (const [index, raw] of lines.entries()) {
    const line = raw.trim();
    const begin = /^-----BEGIN ([A-Z0-9 ]+)-----$/.exec(line);
    if (block !== undefined) {
      if (line === `-----END ${block.label}-----`) {
        found.push(block);
        block = undefined;
      } else block.text += line;
    } else if (begin) {
      block = { label: at(begin, 1), text: '', line: index + 1, named };
      named = undefined;
    } else if (line.startsWith(recipientComment)) named = line.slice(recipientComment.length).trim();
    else if (line !== '' && !line.startsWith('#')) {
      found.push({ text: line, line: index + 1, named });
      named = undefined;
    }
  }
  if (block !== undefined) throw keyInvalid('the key file ends in the middle of a key');
  const isPem = found.some(({ label }) => label !== undefined);
  return found.filter(
    ({ label, text }) => label !== 'EC PARAMETERS' && (label !== undefined || !isPem || likeKey.test(text)),
  );
}

function decodeBlock({ text, line }: KeyPart): Uint8Array {
  if (/Proc-Type|DEK-Info/.test(text)) throw protectedKey();
  if (text.includes(':')) throw keyInvalid(`the key at line ${line} has PEM headers, which are not read`);
  const bytes = decodePadded(text);
  if (bytes === undefined) throw keyInvalid(`the key at line ${line} is damaged`);
  return bytes;
}

function keyInvalid(detail: string, reason?: Reason): SealpinError {
  return new SealpinError('key_invalid', detail, { reason });
}

function protectedKey(): SealpinError {
  return keyInvalid('the private key is protected by a password', 'is_protected');
}

function checkRecipientLine(part: KeyPart, recipient: string | undefined): void {
  if (part.named !== undefined && part.named !== recipient)
    throw keyInvalid('the recipient line and the key below it do not belong together');
}

/** Detects anything in a text that looks like a private key. */
export function isPrivateText(text: string): boolean {
  return /(?:AGE|SEALPIN)-SECRET-KEY-/i.test(text) || /PRIVATE KEY-----/.test(text);
}

/**
 * Parses the text of a private key file: PKCS#8 or SEC1 in PEM (P-256), `AGE-SECRET-KEY-1…`,
 * `AGE-SECRET-KEY-PQ-1…` and `SEALPIN-SECRET-KEY-PQ-1…` lines, several in one file. It may also
 * have the public keys of its private keys, in PEM.
 * @throws SealpinError `key_invalid`, which never repeats any of the text
 * @example
 * const identities = parseIdentities('AGE-SECRET-KEY-1…\n');
 * const plaintext = await opened.decrypt(identities);
 */
export function parseIdentities(text: string, provider: CryptoProvider = webProvider): Identity[] {
  const all = splitKeyFile(text);
  const hasPrivate = all.some(({ label }) => label?.endsWith('PRIVATE KEY'));
  const isPublic = ({ label }: KeyPart): boolean => hasPrivate && label === 'PUBLIC KEY';
  const identities = all.flatMap((part) => (isPublic(part) ? [] : parseIdentity(part, provider)));
  const recipients = new Set<string | undefined>(identities.map(({ recipient }) => recipient));
  for (const part of all.filter(isPublic)) {
    if (!recipients.has(parseRecipient(part, provider).text))
      throw keyInvalid(`the public key at line ${part.line} does not belong to a private key in the file`);
  }
  if (identities.length === 0) throw keyInvalid('there is no private key in the file');
  return identities;
}

/**
 * The 32 secret bytes of the first key in a private key file from which a signer follows: the
 * scalar of a P-256 key, or the seed of a post-quantum pair of Sealpin.
 * @throws SealpinError `key_invalid`, also where there is none
 */
export function secretIn(text: string): Uint8Array {
  for (const part of splitKeyFile(text)) {
    if (part.label === 'PRIVATE KEY') return parsePkcs8(decodeBlock(part)).secret.slice();
    if (part.label === 'EC PRIVATE KEY') return parseSec1(decodeBlock(part), false).secret.slice();
    if (part.text.startsWith('SEALPIN-SECRET-KEY-PQ-1')) return decodeKey(part.text, 'sealpin-secret-key-pq-', 32);
  }
  throw keyInvalid('there is no private key in the file that signs');
}

function parseIdentity(part: KeyPart, provider: CryptoProvider): NamedIdentity {
  const identity = identityOf(part, provider);
  checkRecipientLine(part, identity.recipient);
  return identity;
}

function identityOf(part: KeyPart, provider: CryptoProvider): NamedIdentity {
  const { label, text, line } = part;
  if (label === 'PRIVATE KEY') return identityFromEcPrivate(parsePkcs8(decodeBlock(part)), provider);
  if (label === 'EC PRIVATE KEY') return identityFromEcPrivate(parseSec1(decodeBlock(part), false), provider);
  if (label === 'ENCRYPTED PRIVATE KEY') throw protectedKey();
  if (label === 'PUBLIC KEY' || (label === undefined && text.startsWith('age1')))
    throw keyInvalid('this is a public key, where a private one is needed', 'is_public');
  if (label !== undefined) throw keyInvalid(`a key of this kind cannot be used (line ${line})`, 'unsupported_key');
  if (isHybridSecret(text)) return hybridIdentity(text, provider);
  if (text.startsWith('AGE-SECRET-KEY-1')) return x25519Identity(text, provider);
  if (text.startsWith('AGE-PLUGIN-')) throw keyInvalid('keys of age plugins cannot be used');
  throw keyInvalid(`line ${line} of the file is not a private key`, 'not_a_key');
}

/**
 * Parses the text of a public key file: SPKI in PEM (P-256), `age1…`, `age1tag1…`, `age1pq1…` and
 * `age1tagpq1…` lines, several in one file.
 * @throws SealpinError `key_invalid`, also for a text with anything private in it
 * @example
 * const recipients = parseRecipients('age1tag1…');
 * const { stream } = await encrypt(plaintext, { format: 'sealpin', recipients });
 */
export function parseRecipients(text: string, provider: CryptoProvider = webProvider): Recipient[] {
  if (isPrivateText(text)) throw keyInvalid('this is a private key, where a public one is needed', 'is_private');
  const recipients = splitKeyFile(text).map((part) => parseRecipient(part, provider));
  if (recipients.length === 0) throw keyInvalid('there is no public key in the file');
  return recipients;
}

function parseRecipient(part: KeyPart, provider: CryptoProvider): Recipient {
  const recipient = recipientOf(part, provider);
  checkRecipientLine(part, recipient.text);
  return recipient;
}

function recipientOf(part: KeyPart, provider: CryptoProvider): Recipient {
  const { label, text, line } = part;
  if (label === 'PUBLIC KEY') return recipientFromSpki(decodeBlock(part), provider);
  if (label !== undefined) throw keyInvalid(`a key of this kind cannot be used (line ${line})`, 'unsupported_key');
  if (text.startsWith('age1tag1')) return recipientFromPoint(decodeKey(text, 'age1tag', 33), provider);
  if (/^age1(?:tag)?pq1/.test(text)) return hybridRecipient(text);
  if (/^age1[^1]+$/.test(text)) return x25519Recipient(text);
  if (text.startsWith('age1')) throw keyInvalid(`keys of this kind cannot be used (line ${line})`, 'unsupported_key');
  // The text form of an OpenSSH public key (RFC 4253 section 6.6, sshd(8) "AUTHORIZED_KEYS FILE
  // FORMAT").
  if (/^(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+ /.test(text))
    throw keyInvalid(`line ${line} is an ssh key, and ssh keys are not supported`, 'is_ssh');
  throw keyInvalid(`line ${line} of the file is not a public key`, 'not_a_key');
}
