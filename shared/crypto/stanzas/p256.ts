/**
 * P-256 keys: the `p256tag` stanza of age (C2SP age.md, "The p256tag recipient type") and the untagged `p256` stanza of `sealpin/v1`.
 */
import { isSealpinError, SealpinError } from '../../errors.ts';
import type { Backend } from '../backends/backend.ts';
import { decodeBase64, encodeBase64, isEqual, utf8 } from '../bytes.ts';
import { aeads, decapsulateP256, encapsulateP256, kems, keySchedule, stanzaTag } from './hpke.ts';
import { encodeKey } from '../keys/bech32.ts';
import type { Format, Identity, Recipient, Stanza } from '../types.ts';

const tagBytes = 4;
const pointBytes = 65;
const info = { age: utf8('age-encryption.org/p256tag'), sealpin: utf8('sealpin/v1 p256') } as const;
const aeadOf = { age: aeads.chaChaPoly, sealpin: aeads.aes256Gcm } as const;
const bodyBytes = { age: 32, sealpin: 48 } as const;

/** Reads the stanza of a P-256 key; throws `header_invalid`. */
export function parsePointStanza({ args, body }: Stanza, format: Format): { tag?: Uint8Array; enc: Uint8Array } {
  const [tag, enc] = (format === 'age' ? args.slice(1) : ['', ...args.slice(1)]).map(decodeBase64);
  const isValid =
    args.length === (format === 'age' ? 3 : 2) &&
    tag?.length === (format === 'age' ? tagBytes : 0) &&
    enc?.length === pointBytes &&
    enc[0] === 4;
  if (!isValid || body.length !== bodyBytes[format])
    throw new SealpinError('header_invalid', 'An entry for a P-256 key is malformed');
  return format === 'age' ? { tag, enc } : { enc };
}

/**
 * Who holds the private key of a point.
 * @param point 65 bytes, checked by the caller
 * @param compressed the same in 33 bytes
 */
export function p256Recipient(point: Uint8Array, compressed: Uint8Array): Recipient {
  return {
    kind: 'key',
    text: encodeKey('age1tag', compressed),
    async wrap(fileKey, format, backend) {
      const { enc, shared } = await encapsulateP256(backend, point);
      const { aead, nonce } = await keySchedule(backend, kems.p256, aeadOf[format], shared, info[format]);
      const args =
        format === 'age'
          ? ['p256tag', encodeBase64(stanzaTag(backend, info.age, enc, compressed)), encodeBase64(enc)]
          : ['p256', encodeBase64(enc)];
      return { args, body: await aead.seal(nonce, fileKey) };
    },
  };
}

/** What opens a container with a P-256 private key. @param own the scalar (32 bytes) and its point (65 bytes), checked by the caller */
export function p256Identity(own: { secret: Uint8Array; point: Uint8Array }): Identity {
  return {
    kind: 'key',
    async unwrap(stanzas, format, backend) {
      const compressed = backend.p256.compress(own.point);
      for (const stanza of stanzas) {
        if (stanza.args[0] !== (format === 'age' ? 'p256tag' : 'p256')) continue;
        const { tag, enc } = parsePointStanza(stanza, format);
        if (tag !== undefined && !isEqual(tag, stanzaTag(backend, info.age, enc, compressed))) continue;
        const fileKey = await openStanza(backend, format, own, enc, stanza.body);
        if (fileKey !== undefined) return fileKey;
      }
      return undefined;
    },
  };
}

async function openStanza(
  backend: Backend,
  format: Format,
  own: { secret: Uint8Array; point: Uint8Array },
  enc: Uint8Array,
  body: Uint8Array,
): Promise<Uint8Array | undefined> {
  try {
    const shared = await decapsulateP256(backend, own, enc);
    const { aead, nonce } = await keySchedule(backend, kems.p256, aeadOf[format], shared, info[format]);
    return await aead.open(nonce, body);
  } catch (error) {
    if (isSealpinError(error, 'key_invalid'))
      throw new SealpinError('header_invalid', 'An entry for a P-256 key has a point that is not on the curve');
    if (isSealpinError(error, 'decrypt_failed')) return undefined;
    throw error;
  }
}
