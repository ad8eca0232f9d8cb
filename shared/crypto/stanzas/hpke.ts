/**
 * HPKE (RFC 9180), base mode, single-shot, with HKDF-SHA256: what wraps a file key to a public key.
 */
import { isSealpinError, otherwise, SealpinError } from '../../errors.ts';
import { draw, type Aead, type Awaitable, type CryptoProvider } from '../providers/provider.ts';
import { decodeBase64, utf8 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import { expand, extract } from '../providers/kdf.ts';

/** KEM identifiers (RFC 9180 section 7.1; draft-ietf-hpke-pq). */
export const kems = { p256: 0x0010, mlkem768p256: 0x0050, mlkem768x25519: 0x647a } as const;
/** AEAD identifiers and sizes of their keys (RFC 9180 section 7.3). */
export const aeads = { aes256Gcm: { id: 0x0002, keyBytes: 32 }, chaChaPoly: { id: 0x0003, keyBytes: 32 } } as const;
/** HKDF-SHA256 (RFC 9180 section 7.2). */
const kdfId = 0x0001;

/** Each key with it wraps one file key, so its nonce is zero. */
export const zeroNonce = new Uint8Array(12);

/** A row of `aeads`. */
export type HpkeAead = { readonly id: number; readonly keyBytes: number };
/** An encapsulated key, and the secret in it. */
export type Encapsulated = { enc: Uint8Array; shared: Uint8Array };

const hpkeVersion = utf8('HPKE-v1');
const empty = new Uint8Array(0);
/** I2OSP(value, 2) (RFC 8017 section 4.1). */
const uint16be = (value: number): Uint8Array => Uint8Array.of(value >> 8, value & 0xff);

/** LabeledExtract (RFC 9180 section 4). @param suite `suite_id` of the caller */
export function labeledExtract(
  provider: CryptoProvider,
  suite: Uint8Array,
  salt: Uint8Array,
  label: string,
  ikm: Uint8Array,
): Uint8Array {
  return extract(provider, salt, concat(hpkeVersion, suite, utf8(label), ikm));
}

/**
 * LabeledExpand (RFC 9180 section 4).
 * @param suite `suite_id` of the caller
 * @param bytes length of the result
 */
export function labeledExpand(
  provider: CryptoProvider,
  suite: Uint8Array,
  prk: Uint8Array,
  label: string,
  info: Uint8Array,
  bytes: number,
): Uint8Array {
  return expand(provider, 'sha256', prk, concat(uint16be(bytes), hpkeVersion, suite, utf8(label), info), bytes);
}

/** ExtractAndExpand of DHKEM (RFC 9180 section 4.1). */
function dhSecret(provider: CryptoProvider, dh: Uint8Array, enc: Uint8Array, recipient: Uint8Array): Uint8Array {
  const suite = concat(utf8('KEM'), uint16be(kems.p256));
  const prk = labeledExtract(provider, suite, empty, 'eae_prk', dh);
  return labeledExpand(provider, suite, prk, 'shared_secret', concat(enc, recipient), 32);
}

/** Draws a P-256 key pair: the scalar (32 bytes) and its point (65 bytes). */
export function newP256(provider: CryptoProvider): { secret: Uint8Array; point: Uint8Array } {
  for (let attempt = 0; attempt < 8; attempt += 1) {
    const secret = draw(provider, 32);
    try {
      return { secret, point: provider.p256.publicKey(secret) };
    } catch (error) {
      // One in 2^32 draws is not below the order of the curve.
      if (!isSealpinError(error, 'key_invalid')) throw error;
    }
  }
  throw new SealpinError('random_failed');
}

/** Encap of DHKEM(P-256, HKDF-SHA256) to a point of 65 bytes. */
export async function encapsulateP256(provider: CryptoProvider, recipient: Uint8Array): Promise<Encapsulated> {
  const { secret, point } = newP256(provider);
  return { enc: point, shared: dhSecret(provider, await provider.p256.agree(secret, recipient), point, recipient) };
}

/** Decap of the same; throws `key_invalid` for an `enc` that is not a point of the curve. */
export async function decapsulateP256(
  provider: CryptoProvider,
  own: { secret: Uint8Array; point: Uint8Array },
  enc: Uint8Array,
): Promise<Uint8Array> {
  return dhSecret(provider, await provider.p256.agree(own.secret, enc), enc, own.point);
}

/** Returns the cipher of an AEAD row under a key. */
export function cipherOf(provider: CryptoProvider, aead: HpkeAead, key: Uint8Array): Awaitable<Aead> {
  return aead.id === aeads.chaChaPoly.id ? provider.chaChaPoly(key) : provider.aesGcm(key);
}

/** KeySchedule of the base mode (RFC 9180 section 5.1), for the first and only message. */
export async function keySchedule(
  provider: CryptoProvider,
  kem: number,
  aead: HpkeAead,
  shared: Uint8Array,
  info: Uint8Array,
): Promise<{ key: Uint8Array; nonce: Uint8Array; aead: Aead }> {
  const suite = concat(utf8('HPKE'), uint16be(kem), uint16be(kdfId), uint16be(aead.id));
  const context = concat(
    Uint8Array.of(0),
    labeledExtract(provider, suite, empty, 'psk_id_hash', empty),
    labeledExtract(provider, suite, empty, 'info_hash', info),
  );
  const secret = labeledExtract(provider, suite, shared, 'secret', empty);
  const key = labeledExpand(provider, suite, secret, 'key', context, aead.keyBytes);
  const nonce = labeledExpand(provider, suite, secret, 'base_nonce', context, 12);
  return { key, nonce, aead: await cipherOf(provider, aead, key) };
}

/**
 * Computes the tag of a stanza, 4 bytes (C2SP age.md, "The p256tag recipient type").
 * @param hashed part of the key
 */
export function stanzaTag(provider: CryptoProvider, info: Uint8Array, enc: Uint8Array, hashed: Uint8Array): Uint8Array {
  return extract(provider, info, concat(enc, provider.sha256(hashed).subarray(0, 4))).slice(0, 4);
}

/** Parses the stanza of a public key, with a tag or not; undefined when it is malformed. */
export function parseKeyStanza(
  { args, body }: { args: readonly string[]; body: Uint8Array },
  kind: { isTagged: boolean; encBytes: number; bodyBytes: number },
) {
  const decoded = args.slice(1).map(decodeBase64);
  const enc = decoded.at(-1);
  const tag = kind.isTagged ? decoded[0] : undefined;
  const hasArguments = decoded.length === (kind.isTagged ? 2 : 1) && tag?.length === (kind.isTagged ? 4 : undefined);
  return hasArguments && enc?.length === kind.encBytes && body.length === kind.bodyBytes ? { tag, enc } : undefined;
}

/**
 * Returns the result of an agreement with what a stanza has.
 * @param what the entry is for, and what is wrong with a point that cannot be used
 * @throws SealpinError `header_invalid` for such a point
 */
export async function agreed(what: string, agree: () => Awaitable<Uint8Array>): Promise<Uint8Array> {
  try {
    return await agree();
  } catch (error) {
    if (!isSealpinError(error, 'key_invalid')) throw error;
    throw new SealpinError('header_invalid', `an entry for ${what}`);
  }
}

/** Opens the body of a stanza; undefined where it is for another key or password. */
export function openedBy(aead: Aead, nonce: Uint8Array, body: Uint8Array): Promise<Uint8Array | undefined> {
  return otherwise((async () => aead.open(nonce, body))(), 'decrypt_failed', undefined);
}

/** Returns the file key of the first stanza with this name that `open` opens, if there is one. */
export async function firstOpened<S extends { args: readonly string[] }>(
  name: string,
  stanzas: readonly S[],
  open: (stanza: S) => Promise<Uint8Array | undefined>,
): Promise<Uint8Array | undefined> {
  for (const stanza of stanzas) {
    const fileKey = stanza.args[0] === name ? await open(stanza) : undefined;
    if (fileKey !== undefined) return fileKey;
  }
  return undefined;
}
