/** The names that files may have, wherever they come from. */
import { SealpinError } from './errors.ts';

/** What the usual file systems allow (NAME_MAX of POSIX systems). */
const maxNameBytes = 255;

/**
 * The characters of a filename: no control characters of either block, no path separators of either family, none that reverse the
 * direction of a name, and no invisible ones except U+200C and U+200D, which Persian and emoji need; neither `.` nor `..`.
 */
export const filenamePattern =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f\u061c/\\\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+$/;

/**
 * Checks a filename: 1 to 255 bytes of UTF-8 of the characters in `filenamePattern`.
 * @throws invalid_filename
 */
export function parseFilename(text: string): string {
  if (!isFilename(text)) throw new SealpinError('invalid_filename');
  return text;
}

/** Whether a text is what `parseFilename` takes. */
export function isFilename(text: string): boolean {
  const bytes = new TextEncoder().encode(text).length;
  return bytes <= maxNameBytes && text.isWellFormed() && filenamePattern.test(text);
}
