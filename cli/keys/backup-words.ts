/** Backup words: the 32 bytes of a private key as 24 words on paper (BIP 39). */
import { SealpinError } from '../../shared/errors.ts';

/** 256 bits of key and 8 of checksum, in words of 11 bits. */
export const backupWords = 24;

/** The words of a key: 32 bytes, a P-256 scalar or a post-quantum seed. */
export async function wordsOf(secret: Uint8Array): Promise<string[]> {
  const [{ entropyToMnemonic }, { wordlist }] = await library();
  return entropyToMnemonic(secret, wordlist).split(' ');
}

/** Takes the words out of a text; where all are numbered, as by `keygen`, those alone. */
export function splitWords(text: string): string[] {
  const lower = text.toLowerCase();
  let numbered: string[] = [];
  for (const [, number, word = ''] of lower.matchAll(/(?<![\p{L}\p{N}])(\d{1,2})[.):]? +(\p{L}+)/gu)) {
    if (Number(number) === 1) numbered = [];
    if (Number(number) === numbered.length + 1) numbered.push(word);
    if (numbered.length === backupWords) return numbered;
  }
  return lower.match(/\p{L}+/gu) ?? [];
}

/**
 * The key that words stand for.
 * @returns 32 bytes
 * @throws key_invalid with the position of an unknown word, for another number of words, and for a
 * wrong checksum; no word is repeated
 */
export async function secretOf(words: readonly string[]): Promise<Uint8Array> {
  const [{ mnemonicToEntropy }, { wordlist }] = await library();
  const hint = 'compare each word with the paper: the order counts, and each is from the English list of BIP 39';
  const unknown = words.findIndex((word) => !wordlist.includes(word));
  if (unknown >= 0)
    throw new SealpinError('key_invalid', `word ${unknown + 1} is not one of the list of words`, { hint });
  if (words.length !== backupWords)
    throw new SealpinError('key_invalid', `these are ${words.length} words, and a key has ${backupWords}`, { hint });
  try {
    return mnemonicToEntropy(words.join(' '), wordlist);
  } catch {
    // The library's error could repeat the words.
    const detail = 'the checksum of the words does not match: one is wrong, or two are swapped';
    throw new SealpinError('key_invalid', detail, { hint });
  }
}

function library() {
  return Promise.all([import('@scure/bip39'), import('@scure/bip39/wordlists/english.js')]);
}
