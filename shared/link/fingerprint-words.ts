/** Fingerprints of public keys, which people compare, over the telephone, say. */
import { utf8 } from '../crypto/bytes.ts';
import { sha256 } from '../ipfs/tree.ts';

const fingerprintWords = 6;
/** Each word is one of 2,048 (BIP 39). */
const bitsOfWord = 11;

/**
 * Returns six words of SHA-256 of a key's text: 66 bits, so that finding another key with the same
 * ones takes about 2^66 tries.
 * @param key text of a recipient or a signer: each has one, whatever file it came in
 * @param wordlist the English one of BIP 39
 * @throws TypeError for a list of another length
 */
export async function fingerprintOf(key: string, wordlist: readonly string[]): Promise<string> {
  if (wordlist.length !== 2 ** bitsOfWord) throw new TypeError('the list of words is incomplete');
  const bits = Array.from(await sha256(utf8(key)), (byte) => byte.toString(2).padStart(8, '0')).join('');
  const indices = Array.from({ length: fingerprintWords }, (_, at) =>
    bits.slice(at * bitsOfWord, (at + 1) * bitsOfWord),
  );
  return indices.map((each) => wordlist[Number.parseInt(each, 2)]).join('-');
}
