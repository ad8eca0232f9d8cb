/**
 * File keys as text, in parcels and links. Like the texts of API keys, they need no cryptography.
 */
import { base62Characters, decodeBase62, encodeBase62 } from './base62.ts';

/** The lengths of file keys that the formats have (`../formats/`, which a test compares). */
const fileKeyLengths = [16, 32];

/** Encodes a file key in base62: 22 characters for an age file, 43 for `sealpin/v1`. */
export function fileKeyText(fileKey: Uint8Array): string {
  return encodeBase62(fileKey);
}

/** Decodes the text of a file key, whose length shows its format; undefined for anything else. */
export function parseFileKey(text: string): Uint8Array | undefined {
  const bytes = fileKeyLengths.find((length) => base62Characters(length) === text.length);
  return bytes === undefined ? undefined : decodeBase62(text, bytes);
}
