/** P-256 keys in DER as recipients and identities. */
import { SealpinError } from '../../errors.ts';
import type { CryptoProvider } from '../providers/provider.ts';
import { webProvider } from '../providers/web.ts';
import { p256Identity, p256Recipient } from '../stanzas/p256.ts';
import type { Identity, NamedIdentity, NamedRecipient } from '../types.ts';
import { parsePkcs8, parseSpki, type EcPrivate } from './der.ts';

type P256Provider = Pick<CryptoProvider, 'p256'>;

/** Makes the recipient of a point of 33 or 65 bytes; throws `key_invalid`. */
export function recipientFromPoint(bytes: Uint8Array, { p256 }: P256Provider = webProvider): NamedRecipient {
  const point = bytes.length === 33 ? p256.decompress(bytes) : bytes;
  return p256Recipient(point, p256.compress(point));
}

/** Makes the recipient of a public key in DER (SPKI, P-256); throws `key_invalid`. */
export function recipientFromSpki(spki: Uint8Array, provider: P256Provider = webProvider): NamedRecipient {
  return recipientFromPoint(parseSpki(spki), provider);
}

/** Makes the identity of a private key; throws `key_invalid` for a public key of another. */
export function identityFromEcPrivate(
  { secret, points }: EcPrivate,
  provider: P256Provider = webProvider,
): NamedIdentity {
  const own = provider.p256.publicKey(secret);
  const recipient = recipientFromPoint(own, provider).text;
  if (points.some((point) => recipientFromPoint(point, provider).text !== recipient))
    throw new SealpinError('key_invalid', 'the private key and the public key in the file do not belong together');
  return { ...p256Identity({ secret: secret.slice(), point: own }), recipient };
}

/** Makes the identity of a private key in DER (PKCS#8, P-256); throws `key_invalid`. */
export function identityFromPkcs8(pkcs8: Uint8Array): NamedIdentity {
  return identityFromEcPrivate(parsePkcs8(pkcs8));
}

/**
 * Makes the identity of a pair that belongs together, such as one that was unsealed as such; throws
 * `key_invalid`. It computes no public key, which takes longer than everything else about opening a
 * small file. If they do not belong together, it opens nothing.
 * @param pkcs8 P-256, in DER
 * @param spki P-256, in DER
 */
export function identityFromPair(pkcs8: Uint8Array, spki: Uint8Array): Identity {
  const bytes = parseSpki(spki);
  const point = bytes.length === 33 ? webProvider.p256.decompress(bytes) : bytes;
  return p256Identity({ secret: parsePkcs8(pkcs8).secret.slice(), point });
}

/** Checks that PKCS#8 and SPKI in DER, both of P-256, belong together; throws `key_invalid`. */
export function isKeyPair(pkcs8: Uint8Array, spki: Uint8Array): boolean {
  return identityFromPkcs8(pkcs8).recipient === recipientFromSpki(spki).text;
}
