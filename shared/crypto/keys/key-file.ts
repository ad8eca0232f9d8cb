/** Key pairs, and the texts of key files. */
import { SealpinError } from '../../errors.ts';
import type { Backend } from '../backends/backend.ts';
import { decodePadded, encodePadded } from '../bytes.ts';
import { encodePkcs8, encodeSpki, parsePkcs8, parseSec1, parseSpki, type EcPrivate } from './der.ts';
import { newP256 } from '../stanzas/hpke.ts';
import { decodeKey } from './bech32.ts';
import { hybridIdentity, hybridRecipient, isHybridSecret, newHybridKey } from '../stanzas/hybrid.ts';
import { p256Identity, p256Recipient } from '../stanzas/p256.ts';
import type { Identity, Recipient } from '../types.ts';
import { webBackend } from '../backends/web.ts';
import { x25519Identity, x25519Recipient } from '../stanzas/x25519.ts';

/** A P-256 key pair: DER, the texts of `private.key` and `public.key`, and the recipient `age1tag1…`. */
export type KeyPair = { pkcs8: Uint8Array; spki: Uint8Array; privatePem: string; publicPem: string; recipient: string };

const recipientComment = '# recipient: ';

/** Makes a P-256 key pair; throws `random_failed`. */
export async function generateKeyPair(backend: Backend = webBackend): Promise<KeyPair> {
  const { secret, point } = newP256(backend);
  const pkcs8 = encodePkcs8(secret, point);
  const spki = encodeSpki(point);
  const recipient = p256Recipient(point, backend.p256.compress(point)).text!;
  return {
    pkcs8,
    spki,
    recipient,
    privatePem: keyFile(recipient, 'PRIVATE KEY', pkcs8),
    publicPem: keyFile(recipient, 'PUBLIC KEY', spki),
  };
}

/** A post-quantum key pair: the texts of `private.key` and `public.key`, and the recipient `age1tagpq1…`. */
export type PostQuantumKeyPair = { privateText: string; publicText: string; recipient: string };

/** Makes a post-quantum key pair (ML-KEM-768 with P-256); throws `random_failed`. */
export async function generatePostQuantumKeyPair(backend: Backend = webBackend): Promise<PostQuantumKeyPair> {
  const { secret, recipient } = newHybridKey(backend, 'mlkem768p256tag');
  return { recipient, privateText: `${recipientComment}${recipient}\n${secret}\n`, publicText: `${recipient}\n` };
}

function keyFile(recipient: string, label: string, der: Uint8Array): string {
  const lines = encodePadded(der).match(/.{1,64}/g)!;
  return `${recipientComment}${recipient}\n-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

/** A point of 33 or 65 bytes as a recipient; throws `key_invalid`. */
function recipientFromPoint(bytes: Uint8Array): Recipient {
  const point = bytes.length === 33 ? webBackend.p256.decompress(bytes) : bytes;
  return p256Recipient(point, webBackend.p256.compress(point));
}

/** The recipient of a public key in DER (SPKI, P-256); throws `key_invalid`. */
export function recipientFromSpki(spki: Uint8Array): Recipient {
  return recipientFromPoint(parseSpki(spki));
}

type KnownIdentity = { identity: Identity; recipient?: string };

function fromPrivate({ secret, points }: EcPrivate): KnownIdentity {
  const own = webBackend.p256.publicKey(secret);
  const recipient = recipientFromPoint(own).text!;
  if (points.some((point) => recipientFromPoint(point).text !== recipient))
    throw new SealpinError('key_invalid', 'The private key and the public key in the file do not belong together');
  return { identity: p256Identity({ secret: secret.slice(), point: own }), recipient };
}

/** The identity of a private key in DER (PKCS#8, P-256); throws `key_invalid`. */
export function identityFromPkcs8(pkcs8: Uint8Array): Identity {
  return fromPrivate(parsePkcs8(pkcs8)).identity;
}

/** A key file in parts: PEM blocks and single lines, each with the recipient that the line above it names. */
type Part = { label?: string; text: string; line: number; named?: string };

/** A line that may have been meant as a key in Bech32; other words around PEM are an explanation. */
const likeKey = /^[0-9a-z-]{20,}$/i;

/**
 * Splits the text of a key file. Text outside of PEM blocks is ignored (RFC 7468 section 2), but for what looks like a key: a recipient is
 * never dropped for a typing error.
 */
function parts(text: string): Part[] {
  const found: Part[] = [];
  let named: string | undefined;
  let block: Part | undefined;
  for (const [index, raw] of text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .entries()) {
    const line = raw.trim();
    const begin = /^-----BEGIN ([A-Z0-9 ]+)-----$/.exec(line);
    if (block !== undefined) {
      if (line === `-----END ${block.label}-----`) {
        found.push(block);
        block = undefined;
      } else block.text += line;
    } else if (begin) {
      block = { label: begin[1]!, text: '', line: index + 1, ...(named === undefined ? {} : { named }) };
      named = undefined;
    } else if (line.startsWith(recipientComment)) named = line.slice(recipientComment.length).trim();
    else if (line !== '' && !line.startsWith('#')) {
      found.push({ text: line, line: index + 1, ...(named === undefined ? {} : { named }) });
      named = undefined;
    }
  }
  if (block !== undefined) throw new SealpinError('key_invalid', 'The key file ends in the middle of a key');
  const isPem = found.some(({ label }) => label !== undefined);
  return found.filter(
    ({ label, text }) => label !== 'EC PARAMETERS' && (label !== undefined || !isPem || likeKey.test(text)),
  );
}

function der({ text, line }: Part): Uint8Array {
  if (/Proc-Type|DEK-Info/.test(text)) throw encrypted();
  if (text.includes(':'))
    throw new SealpinError('key_invalid', `The key at line ${line} has PEM headers, which are not read`);
  const bytes = decodePadded(text);
  if (bytes === undefined) throw new SealpinError('key_invalid', `The key at line ${line} is damaged`);
  return bytes;
}

function encrypted(): SealpinError {
  return new SealpinError('key_invalid', 'The private key is protected by a password', { reason: 'is_protected' });
}

function agree(part: Part, recipient: string | undefined): void {
  if (part.named !== undefined && part.named !== recipient)
    throw new SealpinError('key_invalid', 'The recipient line and the key below it do not belong together');
}

const isPrivateText = (text: string): boolean =>
  /(?:AGE|SEALPIN)-SECRET-KEY-/i.test(text) || /PRIVATE KEY-----/.test(text);

/**
 * Reads the text of a private key file: PKCS#8 or SEC1 in PEM (P-256), `AGE-SECRET-KEY-1…`, `AGE-SECRET-KEY-PQ-1…` and
 * `SEALPIN-SECRET-KEY-PQ-1…` lines, several in one file. Public keys in PEM may stand beside their private keys.
 * @throws SealpinError `key_invalid`, which never says any of the text
 */
export function parseIdentities(text: string): Identity[] {
  const all = parts(text);
  const isPair =
    all.some(({ label }) => label === 'PUBLIC KEY') && all.some(({ label }) => label?.endsWith('PRIVATE KEY'));
  const recipients = new Set<string | undefined>();
  const identities: Identity[] = [];
  for (const part of all.filter(({ label }) => !isPair || label !== 'PUBLIC KEY')) {
    const { identity, recipient } = parseIdentity(part);
    agree(part, recipient);
    identities.push(identity);
    recipients.add(recipient);
  }
  for (const part of isPair ? all.filter(({ label }) => label === 'PUBLIC KEY') : []) {
    const recipient = parseRecipient(part).text;
    agree(part, recipient);
    if (!recipients.has(recipient))
      throw new SealpinError(
        'key_invalid',
        `The public key at line ${part.line} is not that of a private key in the file`,
      );
  }
  if (identities.length === 0) throw new SealpinError('key_invalid', 'There is no private key in the file');
  return identities;
}

function parseIdentity(part: Part): KnownIdentity {
  switch (part.label) {
    case 'PRIVATE KEY':
      return fromPrivate(parsePkcs8(der(part)));
    case 'EC PRIVATE KEY':
      return fromPrivate(parseSec1(der(part), false));
    case 'ENCRYPTED PRIVATE KEY':
      throw encrypted();
    case 'PUBLIC KEY':
      throw new SealpinError('key_invalid', 'This is a public key, where a private one is needed', {
        reason: 'is_public',
      });
    case undefined:
      break;
    default:
      throw new SealpinError('key_invalid', `A key of this kind cannot be used (line ${part.line})`, {
        reason: 'unsupported_key',
      });
  }
  if (isHybridSecret(part.text)) return hybridIdentity(part.text, webBackend);
  if (part.text.startsWith('AGE-SECRET-KEY-1')) return x25519Identity(part.text, webBackend);
  if (part.text.startsWith('age1'))
    throw new SealpinError('key_invalid', 'This is a public key, where a private one is needed', {
      reason: 'is_public',
    });
  if (part.text.startsWith('AGE-PLUGIN-')) throw new SealpinError('key_invalid', 'Keys of age plugins cannot be used');
  throw new SealpinError('key_invalid', `Line ${part.line} of the file is not a private key`, {
    reason: 'not_a_key',
  });
}

/**
 * Reads the text of a public key file: SPKI in PEM (P-256), `age1…`, `age1tag1…`, `age1pq1…` and `age1tagpq1…` lines, several in one file.
 * @throws SealpinError `key_invalid`; a text with anything private in it is refused
 */
export function parseRecipients(text: string): Recipient[] {
  if (isPrivateText(text))
    throw new SealpinError('key_invalid', 'This is a private key, where a public one is needed', {
      reason: 'is_private',
    });
  const recipients = parts(text).map((part) => {
    const recipient = parseRecipient(part);
    agree(part, recipient.text);
    return recipient;
  });
  if (recipients.length === 0) throw new SealpinError('key_invalid', 'There is no public key in the file');
  return recipients;
}

function parseRecipient(part: Part): Recipient {
  if (part.label === 'PUBLIC KEY') return recipientFromSpki(der(part));
  if (part.label !== undefined)
    throw new SealpinError('key_invalid', `A key of this kind cannot be used (line ${part.line})`, {
      reason: 'unsupported_key',
    });
  if (part.text.startsWith('age1tag1')) return recipientFromPoint(decodeKey(part.text, 'age1tag', 33));
  if (/^age1(?:tag)?pq1/.test(part.text)) return hybridRecipient(part.text);
  if (/^age1[^1]+$/.test(part.text)) return x25519Recipient(part.text);
  if (part.text.startsWith('age1'))
    throw new SealpinError('key_invalid', `Keys of this kind cannot be used (line ${part.line})`, {
      reason: 'unsupported_key',
    });
  // The text form of an OpenSSH public key (RFC 4253 section 6.6, sshd(8) "AUTHORIZED_KEYS FILE FORMAT").
  if (/^(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+ /.test(part.text))
    throw new SealpinError('key_invalid', `Line ${part.line} is an ssh key, and ssh keys are not supported`, {
      reason: 'is_ssh',
    });
  throw new SealpinError('key_invalid', `Line ${part.line} of the file is not a public key`, { reason: 'not_a_key' });
}
