/** Base62 with a checksum, as in API keys and links: it needs no cryptography. */

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const digits = /^[0-9A-Za-z]*$/;

/** Returns how many base62 digits so many bytes have: 22 for 16 bytes, 43 for 32. */
export function base62Characters(bytes: number): number {
  return Math.ceil((8 * bytes) / Math.log2(alphabet.length));
}

/** Encodes a big-endian integer, left-padded with `0` to the length for its number of bytes. */
export function encodeBase62(bytes: Uint8Array): string {
  let value = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = '';
  for (let left = base62Characters(bytes.length); left > 0; left -= 1) {
    text = alphabet.charAt(Number(value % 62n)) + text;
    value /= 62n;
  }
  return text;
}

/** Decodes what `encodeBase62` makes of so many bytes; undefined for any other text. */
export function decodeBase62(text: string, bytes: number): Uint8Array | undefined {
  if (text.length !== base62Characters(bytes) || !digits.test(text)) return undefined;
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

/** Digits of a checksum: enough for 32 bits. */
export const checksumCharacters = base62Characters(4);

/** Returns the CRC-32 as in zlib (ISO-HDLC) of ASCII text, in base62. It finds typing errors. */
export function checksum(text: string): string {
  let crc = 0xffffffff;
  for (let index = 0; index < text.length; index += 1) {
    crc ^= text.charCodeAt(index);
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, ~crc >>> 0);
  return encodeBase62(bytes);
}

/** Checks that a text ends with the checksum of what is before it. */
export function endsWithChecksum(text: string): boolean {
  return checksum(text.slice(0, -checksumCharacters)) === text.slice(-checksumCharacters);
}
