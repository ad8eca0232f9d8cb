/** P-256 keys: the stanzas `p256tag` of age (C2SP age.md) and `p256` of `sealpin/v1`. */
import { SealpinError } from '../../errors.ts';
import { encodeBase64, timingSafeEqual, utf8 } from '../bytes.ts';
import type { FormatRow, Stanza } from '../formats/format-row.ts';
import { encodeKey } from '../keys/bech32.ts';
import { tagBytes } from '../payload/chunking.ts';
import {
  agreed,
  decapsulateP256,
  encapsulateP256,
  firstOpened,
  kems,
  keySchedule,
  openedBy,
  parseKeyStanza,
  stanzaTag,
} from './hpke.ts';
import type { Identity, NamedRecipient } from '../types.ts';

const pointBytes = 65;

/** Parses the stanza of a P-256 key; throws `header_invalid`. */
export function parsePointStanza(stanza: Stanza, { p256, fileKeyBytes }: FormatRow) {
  const bodyBytes = fileKeyBytes + tagBytes;
  const parsed = parseKeyStanza(stanza, { isTagged: p256.isTagged, encBytes: pointBytes, bodyBytes });
  if (parsed?.enc[0] !== 4) throw new SealpinError('header_invalid', 'an entry for a P-256 key is malformed');
  return parsed;
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
    unwrap: ({ stanzas }, format, provider) =>
      firstOpened(format.p256.name, stanzas, async (stanza) => {
        const { tag, enc } = parsePointStanza(stanza, format);
        const info = utf8(format.p256.info);
        const isOwn = (given: Uint8Array): boolean =>
          timingSafeEqual(given, stanzaTag(provider, info, enc, provider.p256.compress(own.point)));
        if (tag !== undefined && !isOwn(tag)) return undefined;
        const shared = await agreed('a P-256 key has a point that is not on the curve', () =>
          decapsulateP256(provider, own, enc),
        );
        const { aead, nonce } = await keySchedule(provider, kems.p256, format.wrapAead, shared, info);
        return openedBy(aead, nonce, stanza.body);
      }),
  };
}
