/**
 * The token of a signed URL: a JSON Web Token (RFC 7519) in compact form, with HS256 under a key that is derived from the hash of an API
 * key. Who has the API key makes it offline; a service that keeps only the hash checks it.
 */
import { base64urlnopad } from '@scure/base';
import { hkdf } from '../backends/kdf.ts';
import { webBackend } from '../backends/web.ts';
import { fromUtf8, timingSafeEqual, utf8 } from '../bytes.ts';
import { keyIdOf, type ApiKey } from './api-key.ts';

/** Longer ones are not looked at; the longest that a client has a reason to make has half of that. */
const maxCharacters = 1024;

const info = 'sealpin/v1 signed-url';

/** A token that is not verified yet. `signed` is what the signature covers. */
export type SignedToken = { keyId: string; signed: string; signature: Uint8Array; claims: unknown };

/** The key that signs. @param hash of the API key, in hex */
function signingKey(hash: string): Uint8Array {
  const bytes = Uint8Array.from(hash.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  return hkdf(webBackend, bytes, new Uint8Array(0), info);
}

function macOf(hash: string, signed: string): Uint8Array {
  return webBackend.hmac('sha256', signingKey(hash), utf8(signed));
}

/** Signs claims with an API key. */
export function signToken(key: Pick<ApiKey, 'hash'>, claims: object): string {
  const encode = (value: object): string => base64urlnopad.encode(utf8(JSON.stringify(value)));
  const signed = `${encode({ alg: 'HS256', kid: keyIdOf(key.hash) })}.${encode(claims)}`;
  return `${signed}.${base64urlnopad.encode(macOf(key.hash, signed))}`;
}

/** Parses a token; undefined for any other text, and for one whose header has another algorithm or members that we do not know. */
export function parseSignedToken(text: string): SignedToken | undefined {
  const [header = '', payload = '', signature = '', ...more] = text.length > maxCharacters ? [] : text.split('.');
  const decode = (part: string): unknown => JSON.parse(fromUtf8(base64urlnopad.decode(part)));
  try {
    const { alg, kid, typ = 'JWT', ...others } = decode(header) as Record<string, unknown>;
    const isOurs = alg === 'HS256' && typ === 'JWT' && typeof kid === 'string' && /^[0-9a-f]{16}$/.test(kid);
    if (!isOurs || more.length > 0 || Object.keys(others).length > 0) return undefined;
    const bytes = base64urlnopad.decode(signature);
    return { keyId: kid, signed: `${header}.${payload}`, signature: bytes, claims: decode(payload) };
  } catch {
    return undefined;
  }
}

/** Whether a token was signed with the API key that has this hash, in a time that does not depend on the signature. */
export function isSignedBy(hash: string, { signed, signature }: SignedToken): boolean {
  return timingSafeEqual(macOf(hash, signed), signature);
}
