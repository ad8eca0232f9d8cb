import { fingerprintOf } from '../../shared/link/fingerprint-words.ts';

/** Returns the six words of a key. @param key text of a recipient or a signer */
export async function fingerprint(key: string): Promise<string> {
  const { wordlist } = await import('@scure/bip39/wordlists/english.js');
  return fingerprintOf(key, wordlist);
}
