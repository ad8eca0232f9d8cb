/** Fingerprints of public keys, to be compared over the telephone. */
import { createHash } from 'node:crypto';

const fingerprintWords = 6;
/** Each word is one of 2,048 (BIP 39). */
const bitsOfWord = 11;

/**
 * Six words of SHA-256 of a recipient's text: 66 bits, so that finding another key with the same
 * ones takes about 2^66 tries.
 * @param recipient `age1…`, `age1tag1…`: each key has one such text, whatever file it came in
 */
export async function fingerprint(recipient: string): Promise<string> {
  const { wordlist } = await import('@scure/bip39/wordlists/english.js');
  const hash = createHash('sha256').update(recipient).digest();
  const bits = BigInt(`0x${hash.toString('hex')}`);
  const indices = Array.from({ length: fingerprintWords }, (_, at) =>
    Number((bits >> BigInt(256 - (at + 1) * bitsOfWord)) & BigInt(2 ** bitsOfWord - 1)),
  );
  return indices.map((index) => wordlist[index]).join('-');
}
