/** The shapes of API keys and account IDs, which can be checked without any cryptography. */
import { base62Characters, checksumCharacters, decodeBase62 } from './base62.ts';

export const apiKeyPrefix = 'sp_';
/** Bytes of an account id and of a secret. */
export const accountBytes = 16;
export const secretBytes = 32;
export const accountCharacters = base62Characters(accountBytes);
/** Characters of the secret: 32 bytes in base62. */
export const secretCharacters = base62Characters(secretBytes);

/** Characters after the prefix. */
const bodyCharacters = accountCharacters + secretCharacters + checksumCharacters;
/** Characters of an API key, all of them ASCII. */
export const apiKeyCharacters = apiKeyPrefix.length + bodyCharacters;

const apiKeyPattern = new RegExp(`^${apiKeyPrefix}[0-9A-Za-z]{${bodyCharacters}}$`);

/** Hint for text that is no API key. */
export const apiKeyHint = `an API key is ${apiKeyPrefix} followed by ${bodyCharacters} letters and digits`;

/** Recognizes the form of an account id: 128 bits as 22 base62 characters. */
export function isAccountId(text: string): boolean {
  return decodeBase62(text, accountBytes) !== undefined;
}

/** Recognizes the form of an API key, without its checksum: `sp_` and 71 base62 characters. */
export function isApiKeyText(text: string): boolean {
  return apiKeyPattern.test(text);
}
