/** Text of others in what operators read. */

/**
 * The text with what is not printable as `\u{…}`, cut off after so many characters: by default
 * those that are kept of an error of a backend.
 */
export function printable(text: string, maxChars = 300): string {
  const escaped = text
    .slice(0, maxChars)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
  return Math.max(text.length, escaped.length) > maxChars ? `${escaped.slice(0, maxChars)}…` : escaped;
}
