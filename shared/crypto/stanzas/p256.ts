/**
 * P-256 keys: the stanzas `p256tag` of age (C2SP age.md) and `p256` of `sealpin/v1`, which has no
 * tag.
 */
import { isSealpinError, SealpinError } from '../../errors.ts';
import type { CryptoProvider } from '../providers/provider.ts';
import { decodeBase64, encodeBase64, timingSafeEqual, utf8 } from '../bytes.ts';
import type { FormatRow, Stanza } from '../formats/format-row.ts';
import { encodeKey } from '../keys/bech32.ts';
import { aeadTagBytes, decapsulateP256, encapsulateP256, kems, keySchedule, openedBy, stanzaTag } from './hpke.ts';
import type { Identity, NamedRecipient } from '../types.ts';

const p256TagBytes = 4;
const pointBytes = 65;

/** Parses the stanza of a P-256 key; throws `header_invalid`. */
export function parsePointStanza(
  { args, body }: Stanza,
  { p256, fileKeyBytes }: FormatRow,
): { tag?: Uint8Array; enc: Uint8Array } {
  const decoded = args.slice(1).map(decodeBase64);
  const enc = decoded.at(-1);
  const tag = p256.isTagged ? decoded[0] : undefined;
  const isValid =
    args.length === (p256.isTagged ? 3 : 2) &&
    tag?.length === (p256.isTagged ? p256TagBytes : undefined) &&
    enc?.length === pointBytes &&
    enc[0] === 4;
  if (!isValid || body.length !== fileKeyBytes + aeadTagBytes)
    throw new SealpinError('header_invalid', 'an entry for a P-256 key is malformed');
  return tag === undefined ? { enc } : { tag, enc };
}

/**
 * Makes the recipient of a point.
 * @param point 65 bytes, already checked
 * @param compressed in 33 bytes
 */
export function p256Recipient(point: Uint8Array, compressed: Uint8Array): NamedRecipient {
  return {
    kind: 'key',
    text: encodeKey('age1tag', compressed),
    async wrap(fileKey, { p256, wrapAead }, provider) {
      const info = utf8(p256.info);
      const { enc, shared } = await encapsulateP256(provider, point);
      const { aead, nonce } = await keySchedule(provider, kems.p256, wrapAead, shared, info);
      const tag = p256.isTagged ? [encodeBase64(stanzaTag(provider, info, enc, compressed))] : [];
      return { args: [p256.name, ...tag, encodeBase64(enc)], body: await aead.seal(nonce, fileKey) };
    },
  };
}

/** A P-256 private key: the scalar (32 bytes) and its point (65 bytes). */
type P256Key = { secret: Uint8Array; point: Uint8Array };

/** Makes the identity of a P-256 private key. @param own checked by the caller */
export function p256Identity(own: P256Key): Identity {
  return {
    kind: 'key',
    async unwrap({ stanzas }, format, provider) {
      for (const stanza of stanzas) {
        if (stanza.args[0] !== format.p256.name) continue;
        const { tag, enc } = parsePointStanza(stanza, format);
        if (tag !== undefined && !isTagOf(provider, tag, { info: utf8(format.p256.info), enc, point: own.point }))
          continue;
        const fileKey = await openStanza(provider, format, own, enc, stanza.body);
        if (fileKey !== undefined) return fileKey;
      }
      return undefined;
    },
  };
}

function isTagOf(
  provider: CryptoProvider,
  tag: Uint8Array,
  { info, enc, point }: { info: Uint8Array; enc: Uint8Array; point: Uint8Array },
): boolean {
  return timingSafeEqual(tag, stanzaTag(provider, info, enc, provider.p256.compress(point)));
}

async function openStanza(
  provider: CryptoProvider,
  { p256, wrapAead }: FormatRow,
  own: P256Key,
  enc: Uint8Array,
  body: Uint8Array,
): Promise<Uint8Array | undefined> {
  try {
    const shared = await decapsulateP256(provider, own, enc);
    const { aead, nonce } = await keySchedule(provider, kems.p256, wrapAead, shared, utf8(p256.info));
    return await openedBy(aead, nonce, body);
  } catch (error) {
    if (isSealpinError(error, 'key_invalid'))
      throw new SealpinError('header_invalid', 'an entry for a P-256 key has a point that is not on the curve');
    throw error;
  }
}
