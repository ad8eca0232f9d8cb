/** The three DER shapes of a P-256 key: PKCS#8 (RFC 5958), SEC1 (RFC 5915) and SPKI (RFC 5480). */
import { SealpinError } from '../../errors.ts';
import { at } from '../../streams/at.ts';
import { concat } from '../../streams/concat.ts';
import { equalBytes } from '../../streams/equal-bytes.ts';

const derTags = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  sequence: 0x30,
  parameters: 0xa0,
  publicKey: 0xa1,
  /** In PKCS#8 (RFC 5958 section 2). */
  attributes: 0xa0,
  implicitPublicKey: 0x81,
} as const;
/** 1.2.840.10045.2.1 id-ecPublicKey and 1.2.840.10045.3.1.7 secp256r1 (RFC 5480 section 2.1). */
const ecPublicKey = Uint8Array.of(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01);
const secp256r1 = Uint8Array.of(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07);

/** A private key as in its file; the points (33 or 65 bytes) are not compared with it yet. */
export type EcPrivate = { secret: Uint8Array; points: readonly Uint8Array[] };
type Item = { tag: number; value: Uint8Array };

function malformed(): SealpinError {
  return new SealpinError('key_invalid', 'the key file is damaged');
}

function notP256(): SealpinError {
  return new SealpinError('key_invalid', 'not a P-256 key', { reason: 'unsupported_key' });
}

/** Reads tag-length-value items of a DER structure, strictly. */
function items(bytes: Uint8Array): Item[] {
  const found: Item[] = [];
  for (let offset = 0; offset < bytes.length;) {
    const tag = at(bytes, offset);
    let length = bytes[offset + 1] ?? 0xff;
    let start = offset + 2;
    if (length === 0x81 || length === 0x82) {
      const lengthBytes = length - 0x80;
      length = bytes.subarray(start, start + lengthBytes).reduce((sum, byte) => sum * 256 + byte, 0);
      start += lengthBytes;
      if (length < (lengthBytes === 1 ? 0x80 : 0x100)) throw malformed();
    } else if (length > 0x7f) throw malformed();
    const value = bytes.subarray(start, start + length);
    if (value.length !== length) throw malformed();
    found.push({ tag, value });
    offset = start + length;
  }
  return found;
}

function only(bytes: Uint8Array, tag: number): Uint8Array {
  const [first, ...others] = items(bytes);
  if (first?.tag !== tag || others.length > 0) throw malformed();
  return first.value;
}

/**
 * Takes the optional items with these tags, in this order; anything else that is left is malformed.
 */
function optional(left: readonly Item[], ...order: readonly number[]): (Uint8Array | undefined)[] {
  const rest = [...left];
  const found = order.map((tag) => (rest[0]?.tag === tag ? rest.shift()?.value : undefined));
  if (rest.length > 0) throw malformed();
  return found;
}

function checkCurve(curve: Item | undefined): void {
  if (curve?.tag === derTags.sequence)
    throw new SealpinError(
      'key_invalid',
      'the key lists the parameters of its curve, where only the name P-256 is read',
    );
  if (curve?.tag !== derTags.oid || !equalBytes(curve.value, secp256r1)) throw notP256();
}

function checkAlgorithm(bytes: Uint8Array): void {
  const [algorithm, curve, ...others] = items(bytes);
  if (algorithm?.tag !== derTags.oid || !equalBytes(algorithm.value, ecPublicKey)) throw notP256();
  checkCurve(curve);
  if (others.length > 0) throw malformed();
}

function bitString(bytes: Uint8Array): Uint8Array {
  if (bytes[0] !== 0) throw malformed();
  return bytes.subarray(1);
}

/**
 * Parses a SEC1 ECPrivateKey (RFC 5915 section 3).
 * @param inside whether it is the content of a PKCS#8 structure, which names the curve
 * @throws SealpinError `key_invalid`
 */
export function parseSec1(der: Uint8Array, inside: boolean): EcPrivate {
  const [version, secret, ...others] = items(only(der, derTags.sequence));
  if (
    version?.tag !== derTags.integer ||
    !equalBytes(version.value, Uint8Array.of(1)) ||
    secret?.tag !== derTags.octetString
  )
    throw malformed();
  const [parameters, point] = optional(others, derTags.parameters, derTags.publicKey);
  if (parameters !== undefined || !inside) {
    const [curve, ...more] = items(parameters ?? new Uint8Array(0));
    checkCurve(curve);
    if (more.length > 0) throw malformed();
  }
  if (secret.value.length !== 32) throw malformed();
  return { secret: secret.value, points: point === undefined ? [] : [bitString(only(point, derTags.bitString))] };
}

/** Parses PKCS#8, also with a public key of its own (RFC 5958 section 2); throws `key_invalid`. */
export function parsePkcs8(der: Uint8Array): EcPrivate {
  const [version, algorithm, key, ...others] = items(only(der, derTags.sequence));
  if (version?.tag !== derTags.integer || algorithm?.tag !== derTags.sequence || key?.tag !== derTags.octetString)
    throw malformed();
  const isV2 = equalBytes(version.value, Uint8Array.of(1));
  if (!isV2 && !equalBytes(version.value, Uint8Array.of(0))) throw malformed();
  checkAlgorithm(algorithm.value);
  const [, publicKey] = optional(others, derTags.attributes, ...(isV2 ? [derTags.implicitPublicKey] : []));
  const { secret, points } = parseSec1(key.value, true);
  return { secret, points: publicKey === undefined ? points : [...points, bitString(publicKey)] };
}

/** Parses an SPKI; throws `key_invalid`. The point has 33 or 65 bytes and is not checked yet. */
export function parseSpki(der: Uint8Array): Uint8Array {
  const [algorithm, key, ...others] = items(only(der, derTags.sequence));
  if (algorithm?.tag !== derTags.sequence || key?.tag !== derTags.bitString || others.length > 0) throw malformed();
  checkAlgorithm(algorithm.value);
  return bitString(key.value);
}

function item(tag: number, ...parts: Uint8Array[]): Uint8Array {
  const value = concat(...parts);
  return concat(value.length < 0x80 ? Uint8Array.of(tag, value.length) : Uint8Array.of(tag, 0x81, value.length), value);
}

const algorithm = item(derTags.sequence, item(derTags.oid, ecPublicKey), item(derTags.oid, secp256r1));

/** Encodes PKCS#8 of a scalar and its point, as OpenSSL does. */
export function encodePkcs8(secret: Uint8Array, point: Uint8Array): Uint8Array {
  const key = item(
    derTags.sequence,
    item(derTags.integer, Uint8Array.of(1)),
    item(derTags.octetString, secret),
    item(derTags.publicKey, item(derTags.bitString, Uint8Array.of(0), point)),
  );
  return item(derTags.sequence, item(derTags.integer, Uint8Array.of(0)), algorithm, item(derTags.octetString, key));
}

/** Encodes SPKI of a point, as OpenSSL does. */
export function encodeSpki(point: Uint8Array): Uint8Array {
  return item(derTags.sequence, algorithm, item(derTags.bitString, Uint8Array.of(0), point));
}
