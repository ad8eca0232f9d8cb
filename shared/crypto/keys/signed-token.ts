/**
 * The token of a signed URL: a JSON Web Token (RFC 7519) in compact form, signed with Ed25519 (RFC
 * 8037). The seed comes from the secret of an API key, so only who has the key signs; a service
 * keeps the public half, which checks and does nothing else.
 */
import { base64urlnopad } from '@scure/base';
import { ed25519 } from '../providers/ed25519.ts';
import { hkdf } from '../providers/kdf.ts';
import { webProvider } from '../providers/web.ts';
import { fromUtf8, utf8 } from '../bytes.ts';
import { keyIdOf, type ApiKey } from './api-key.ts';

/** Longer ones are not looked at; no client has a reason to make one of more than half of that. */
const maxCharacters = 1024;

const info = 'sealpin/v1 signed-url ed25519';

/** A token that is not verified yet. `signed` is what the signature covers. */
export type SignedToken = { alg: unknown; keyId: string; signed: string; signature: Uint8Array; claims: unknown };

function seedOf({ secret }: Pick<ApiKey, 'secret'>): Uint8Array {
  return hkdf(webProvider, secret, new Uint8Array(0), info);
}

/** The public half of what an API key signs with: 32 bytes. */
export function signerOf(key: Pick<ApiKey, 'secret'>): Uint8Array {
  return ed25519.getPublicKey(seedOf(key));
}

export function signToken(key: Pick<ApiKey, 'hash' | 'secret'>, claims: object): string {
  const encode = (value: object): string => base64urlnopad.encode(utf8(JSON.stringify(value)));
  const signed = `${encode({ alg: 'EdDSA', kid: keyIdOf(key.hash) })}.${encode(claims)}`;
  return `${signed}.${base64urlnopad.encode(ed25519.sign(utf8(signed), seedOf(key)))}`;
}

/** Parses a token; undefined for any other text, and for unknown members of the header. */
export function parseSignedToken(text: string): SignedToken | undefined {
  const [header = '', payload = '', signature = '', ...more] = text.length > maxCharacters ? [] : text.split('.');
  const decode = (part: string): unknown => JSON.parse(fromUtf8(base64urlnopad.decode(part)));
  try {
    const { alg, kid, typ = 'JWT', ...others } = decode(header) as Record<string, unknown>;
    const isOurs = typ === 'JWT' && typeof kid === 'string' && /^[0-9a-f]{16}$/.test(kid);
    if (!isOurs || more.length > 0 || Object.keys(others).length > 0) return undefined;
    const bytes = base64urlnopad.decode(signature);
    return { alg, keyId: kid, signed: `${header}.${payload}`, signature: bytes, claims: decode(payload) };
  } catch {
    return undefined;
  }
}

/** Verifies a token by the public half of its API key, with the one algorithm that counts. */
export function isSignedBy(signer: Uint8Array, { alg, signed, signature }: SignedToken): boolean {
  // Of what RFC 8032 leaves open, the strict reading: one signature for one text.
  return (
    alg === 'EdDSA' && signature.length === 64 && ed25519.verify(signature, utf8(signed), signer, { zip215: false })
  );
}
