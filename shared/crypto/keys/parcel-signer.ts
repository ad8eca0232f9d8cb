/** Signer of parcels (docs/links.md): an Ed25519 key that follows from a private key. */
import { ed25519 } from '../providers/ed25519.ts';
import { hkdf } from '../providers/kdf.ts';
import { webProvider } from '../providers/web.ts';
import { decodeKey, encodeKey } from './bech32.ts';

const prefix = 'sealpin-signer';
const publicBytes = 32;
const info = 'sealpin/v1 sign';

/** Begins the comment of a `public.key` that names who signs. */
export const signerComment = '# signer: ';

/** `text`: the public half, `sealpin-signer1…`. */
export type ParcelSigner = { readonly text: string; sign(message: Uint8Array): Uint8Array };

/** The signer of a key pair. @param secret 32 bytes: a P-256 scalar, or the seed of a hybrid key */
export function parcelSigner(secret: Uint8Array): ParcelSigner {
  const seed = hkdf(webProvider, secret, new Uint8Array(0), info);
  return { text: encodeKey(prefix, ed25519.getPublicKey(seed)), sign: (message) => ed25519.sign(message, seed) };
}

/** Parses `sealpin-signer1…`. @returns 32 bytes @throws SealpinError `key_invalid` */
export function parseSigner(text: string): Uint8Array<ArrayBuffer> {
  return decodeKey(text, prefix, publicBytes).slice();
}

/** Recognizes what is meant as a signer. */
export function isSignerText(text: string): boolean {
  return text.startsWith(`${prefix}1`);
}

/** The signers that the comments of a public key file name. */
export function signersIn(publicText: string): string[] {
  return publicText
    .split(/\r?\n/)
    .filter((line) => line.startsWith(signerComment))
    .map((line) => line.slice(signerComment.length).trim());
}
