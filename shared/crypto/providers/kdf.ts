import type { CryptoProvider } from './provider.ts';
import { utf8 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';

type Hmac = Pick<CryptoProvider, 'hmac'>;

/** HKDF-Extract with SHA-256 (RFC 5869 section 2.2). An empty salt means 32 zero bytes. */
export function extract(provider: Hmac, salt: Uint8Array, ikm: Uint8Array): Uint8Array {
  return provider.hmac('sha256', salt.length === 0 ? new Uint8Array(32) : salt, ikm);
}

/**
 * HKDF-Expand (RFC 5869 section 2.3).
 * @param prk any length: chunked-encryption gives 32 bytes to SHA-512
 */
export function expand(
  provider: Hmac,
  hash: 'sha256' | 'sha512',
  prk: Uint8Array,
  info: Uint8Array,
  bytes: number,
): Uint8Array {
  if (bytes > 255 * (hash === 'sha256' ? 32 : 64)) throw new RangeError('HKDF gives at most 255 blocks');
  const blocks: Uint8Array[] = [];
  for (let have = 0, previous = new Uint8Array(0) as Uint8Array; have < bytes; have += previous.length) {
    previous = provider.hmac(hash, prk, concat(previous, info, Uint8Array.of(blocks.length + 1)));
    blocks.push(previous);
  }
  return concat(...blocks).subarray(0, bytes);
}

/** HKDF-SHA-256 (RFC 5869) with a text for info and 32 bytes of result. */
export function hkdf(provider: Hmac, ikm: Uint8Array, salt: Uint8Array, info: string): Uint8Array {
  return expand(provider, 'sha256', extract(provider, salt, ikm), utf8(info), 32);
}
