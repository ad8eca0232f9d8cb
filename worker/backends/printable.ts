/** Text of others in what operators read. */

/** Characters that are kept of an error of a backend, which may be in the words of others. */
export const maxDetail = 300;

/** The text with what is not printable as `\u{…}`, cut off after so many characters. */
export function printable(text: string, maxChars = 200): string {
  const escaped = text
    .slice(0, maxChars)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
  return Math.max(text.length, escaped.length) > maxChars ? `${escaped.slice(0, maxChars)}…` : escaped;
}
