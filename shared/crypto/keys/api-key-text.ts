/**
 * The shapes of API keys and account ids. They need no cryptography, so callers can check them before they load any.
 */

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** What an API key begins with. */
export const apiKeyPrefix = 'sp_';
/** Enough base62 characters for 128, 256 and 32 bits. */
export const accountCharacters = 22;
export const secretCharacters = 43;
export const checksumCharacters = 6;

const accountIdPattern = new RegExp(`^[0-9A-Za-z]{${accountCharacters}}$`);
const apiKeyPattern = new RegExp(
  `^${apiKeyPrefix}[0-9A-Za-z]{${accountCharacters + secretCharacters + checksumCharacters}}$`,
);

/** Encodes a big-endian integer in base62, left-padded with `0`. */
export function encodeBase62(bytes: Uint8Array, characters: number): string {
  let value = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = '';
  for (let index = 0; index < characters; index += 1) {
    text = alphabet.charAt(Number(value % 62n)) + text;
    value /= 62n;
  }
  return text;
}

/** Decodes the integer of a base62 text to so many bytes; undefined when it needs more. */
export function decodeBase62(text: string, bytes: number): Uint8Array | undefined {
  let value = 0n;
  for (const character of text) value = value * 62n + BigInt(alphabet.indexOf(character));
  if (value >> BigInt(8 * bytes) !== 0n) return undefined;
  const decoded = new Uint8Array(bytes);
  for (let index = bytes - 1; index >= 0; index -= 1) {
    decoded[index] = Number(value & 255n);
    value >>= 8n;
  }
  return decoded;
}

/** Whether text has the form of an account id: 128 bits as 22 base62 characters. */
export function isAccountId(text: string): boolean {
  return accountIdPattern.test(text) && decodeBase62(text, 16) !== undefined;
}

/** Whether text has the form of an API key: `sp_` and 71 base62 characters. Its checksum is not looked at. */
export function isApiKeyText(text: string): boolean {
  return apiKeyPattern.test(text);
}
