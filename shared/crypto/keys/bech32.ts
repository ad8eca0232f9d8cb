import { bech32 } from '@scure/base';
import { SealpinError } from '../../errors.ts';

/**
 * Encodes a key in Bech32 (BIP 173), beyond 90 characters, as age does.
 * @param prefix in lower case: `age1tag`
 */
export function encodeKey(prefix: string, bytes: Uint8Array): string {
  return bech32.encode(prefix, bech32.toWords(bytes), false);
}

/** Decodes Bech32 of this prefix and length; throws `key_invalid`, which never repeats it. */
export function decodeKey(text: string, prefix: string, bytes: number): Uint8Array {
  let decoded: { prefix: string; bytes: Uint8Array } | undefined;
  try {
    const { prefix, words } = bech32.decode(text as `${string}1${string}`, false);
    decoded = { prefix, bytes: bech32.fromWords(words) };
  } catch {
    // Wrong checksum, letters or case: refused below, like a wrong prefix.
  }
  if (decoded?.prefix !== prefix || decoded.bytes.length !== bytes) {
    throw new SealpinError('key_invalid', 'a key is not valid: a letter is wrong, or part of it is missing', {
      reason: 'mistyped',
    });
  }
  return decoded.bytes;
}
