/** The names that files may have, wherever they come from. */
import { SealpinError } from './errors.ts';

/** Limit of the usual file systems (NAME_MAX of POSIX systems). */
export const maxNameBytes = 255;

/**
 * Pattern of a filename in a schema: no control characters of either block, no path separators of
 * either family, none that reverse the direction of a name or have no width; neither `.` nor `..`.
 */
export const filenamePattern =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f\u061c/\\\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+$/;

/**
 * All characters that are not seen, with which a name can look like another one: format characters
 * and default-ignorable ones (`DI` of Unicode, UAX #44), but for U+200C, U+200D and variation
 * selectors (`VS`), which Persian, emoji and Japanese names need. Those change a character before
 * them, so that at the start they would hide a dot.
 */
const unseen = /(?![\u200c\u200d\p{VS}])[\p{Cf}\p{DI}]|^[\u200c\u200d\p{VS}]+/gu;

/**
 * Checks a filename: 1 to 255 bytes in `filenamePattern`, none of them unseen.
 * @throws invalid_filename
 */
export function parseFilename(text: string): string {
  if (!isFilename(text)) throw new SealpinError('invalid_filename');
  return text;
}

/** Recognizes text that `parseFilename` accepts. */
export function isFilename(text: string): boolean {
  return isAllowed(text) && isSeen(text);
}

/** Recognizes text all of whose characters are seen, or change one that is. */
export function isSeen(text: string): boolean {
  return text.replace(unseen, '') === text;
}

/**
 * Makes a filename of an older one: what is not seen becomes `_`.
 * @throws invalid_filename where none can be
 */
export function cleanFilename(text: string): string {
  if (!isAllowed(text)) throw new SealpinError('invalid_filename');
  return text.replace(unseen, '_');
}

/**
 * What names have in common that are one file on some system, which tells neither cases nor
 * spellings of a letter apart: macOS writes `é` as one character or as two.
 */
export function foldedName(name: string): string {
  // To capitals, too: ß is SS there.
  return name.normalize('NFC').toLowerCase().toUpperCase().normalize('NFC');
}

function isAllowed(text: string): boolean {
  const bytes = new TextEncoder().encode(text).length;
  return bytes <= maxNameBytes && text.isWellFormed() && filenamePattern.test(text);
}
