/** The names that files may have, wherever they come from. */
import { SealpinError } from './errors.ts';

/** What the usual file systems allow (NAME_MAX of POSIX systems). */
const maxNameBytes = 255;

/**
 * Checks a filename: 1 to 255 bytes of UTF-8, no control characters, no path separators, not `.` or `..`.
 * @throws invalid_filename
 */
export function parseFilename(text: string): string {
  const bytes = new TextEncoder().encode(text).length;
  // Control characters of both blocks, path separators of both families, characters that reverse the direction of a name,
  // and invisible ones, except U+200C and U+200D, which Persian and emoji need.
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  const forbidden = /[\u0000-\u001f\u007f-\u009f\u061c/\\\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;
  if (
    bytes < 1 ||
    bytes > maxNameBytes ||
    !text.isWellFormed() ||
    text === '.' ||
    text === '..' ||
    forbidden.test(text)
  ) {
    throw new SealpinError('invalid_filename');
  }
  return text;
}
