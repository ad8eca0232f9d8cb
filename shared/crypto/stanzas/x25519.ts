/** C2SP age.md, "The X25519 recipient type": age's own keys. */
import { SealpinError } from '../../errors.ts';
import { draw, type CryptoProvider } from '../providers/provider.ts';
import { decodeBase64, encodeBase64 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import { decodeKey, encodeKey } from '../keys/bech32.ts';
import { hkdf } from '../providers/kdf.ts';
import type { Stanza } from '../formats/format-row.ts';
import { agreed, firstOpened, openedBy, zeroNonce } from './hpke.ts';
import type { NamedIdentity, Recipient } from '../types.ts';

const stanzaName = 'X25519';

/** Returns the share in an X25519 stanza; throws `header_invalid`. */
function shareIn({ args, body }: Stanza): Uint8Array {
  const share = args.length === 2 ? decodeBase64(args[1] ?? '') : undefined;
  if (share?.length !== 32 || body.length !== 32)
    throw new SealpinError('header_invalid', 'an entry for an X25519 key is malformed');
  return share;
}

async function wrapAead(provider: CryptoProvider, shared: Uint8Array, share: Uint8Array, recipient: Uint8Array) {
  return provider.chaChaPoly(hkdf(provider, shared, concat(share, recipient), 'age-encryption.org/v1/X25519'));
}

/** Makes the recipient of an `age1…` text; throws `key_invalid`. */
export function x25519Recipient(text: string): Recipient {
  const recipient = decodeKey(text, 'age', 32);
  return {
    kind: 'key',
    text,
    async wrap(fileKey, format, provider) {
      if (!format.stanzas.has(stanzaName)) throw new SealpinError('key_invalid', 'an X25519 key takes age files only');
      const secret = draw(provider, 32);
      const share = provider.x25519.publicKey(secret);
      const aead = await wrapAead(provider, await provider.x25519.agree(secret, recipient), share, recipient);
      return { args: [stanzaName, encodeBase64(share)], body: await aead.seal(zeroNonce, fileKey) };
    },
  };
}

/** Makes the identity of an `AGE-SECRET-KEY-1…` text; throws `key_invalid`. */
export function x25519Identity(text: string, provider: CryptoProvider): NamedIdentity {
  const secret = decodeKey(text, 'age-secret-key-', 32);
  const recipient = provider.x25519.publicKey(secret);
  return {
    kind: 'key',
    recipient: encodeKey('age', recipient),
    unwrap: ({ stanzas }, format, provider) =>
      firstOpened(stanzaName, format.stanzas.has(stanzaName) ? stanzas : [], async (stanza) => {
        const share = shareIn(stanza);
        const shared = await agreed('an X25519 key has a share of low order', () =>
          provider.x25519.agree(secret, share),
        );
        return openedBy(await wrapAead(provider, shared, share, recipient), zeroNonce, stanza.body);
      }),
  };
}
