/** C2SP age.md, "The X25519 recipient type": age's own keys. */
import { isSealpinError, SealpinError } from '../../errors.ts';
import { draw, type Backend } from '../backends/backend.ts';
import { decodeBase64, encodeBase64 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import { decodeKey, encodeKey } from '../keys/bech32.ts';
import { hkdf } from '../backends/kdf.ts';
import type { Format, Identity, Recipient, Stanza } from '../types.ts';

const zeroNonce = new Uint8Array(12);

/** Reads an X25519 stanza; throws `header_invalid`. */
function parseX25519Stanza({ args, body }: Stanza): { share: Uint8Array } {
  const share = args.length === 2 ? decodeBase64(args[1]!) : undefined;
  if (share?.length !== 32 || body.length !== 32)
    throw new SealpinError('header_invalid', 'An entry for an X25519 key is malformed');
  return { share };
}

async function wrapAead(backend: Backend, shared: Uint8Array, share: Uint8Array, recipient: Uint8Array) {
  return backend.chaChaPoly(hkdf(backend, shared, concat(share, recipient), 'age-encryption.org/v1/X25519'));
}

function ageOnly(format: Format): void {
  if (format !== 'age') throw new SealpinError('key_invalid', 'An X25519 key takes age files only');
}

/** Who holds the private key of `age1…`; throws `key_invalid`. */
export function x25519Recipient(text: string): Recipient {
  const recipient = decodeKey(text, 'age', 32);
  return {
    kind: 'key',
    text,
    async wrap(fileKey, format, backend) {
      ageOnly(format);
      const secret = draw(backend, 32);
      const share = backend.x25519.publicKey(secret);
      const aead = await wrapAead(backend, await backend.x25519.agree(secret, recipient), share, recipient);
      return { args: ['X25519', encodeBase64(share)], body: await aead.seal(zeroNonce, fileKey) };
    },
  };
}

/** What opens a container with `AGE-SECRET-KEY-1…`, and its recipient; throws `key_invalid`. @param text in capitals, as it is written */
export function x25519Identity(text: string, backend: Backend): { identity: Identity; recipient: string } {
  const secret = decodeKey(text, 'age-secret-key-', 32);
  const recipient = backend.x25519.publicKey(secret);
  const identity: Identity = {
    kind: 'key',
    async unwrap(stanzas, format, backend) {
      if (format !== 'age') return undefined;
      for (const stanza of stanzas) {
        if (stanza.args[0] !== 'X25519') continue;
        const { share } = parseX25519Stanza(stanza);
        const aead = await wrapAead(backend, await agree(backend, secret, share), share, recipient);
        try {
          return await aead.open(zeroNonce, stanza.body);
        } catch (error) {
          if (!isSealpinError(error, 'decrypt_failed')) throw error;
        }
      }
      return undefined;
    },
  };
  return { identity, recipient: encodeKey('age', recipient) };
}

async function agree(backend: Backend, secret: Uint8Array, share: Uint8Array): Promise<Uint8Array> {
  try {
    return await backend.x25519.agree(secret, share);
  } catch (error) {
    if (!isSealpinError(error, 'key_invalid')) throw error;
    throw new SealpinError('header_invalid', 'An entry for an X25519 key has a share of low order');
  }
}
