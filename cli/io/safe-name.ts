/** The name under which a file that somebody sent is written. */
import { lstat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { foldedName, parseFilename } from '../../shared/filename.ts';
import { failWrite, ifMissing } from '../errno.ts';

/**
 * Checks the name of a file, as `parseFilename`.
 * @param where it comes from, such as a flag, or the path of the file
 */
export function parseName(text: string, where: string): string {
  try {
    return parseFilename(text);
  } catch (error) {
    if (!isSealpinError(error, 'invalid_filename')) throw error;
    const what = where.startsWith('--') ? `the filename of ${where}` : `the name of ${where}`;
    throw new SealpinError('invalid_filename', `${what} is not valid: it ${faultOf(text)}`, {
      hint: where.startsWith('--') ? error.hint : 'rename it, or send it through a pipe, with --name',
      cause: error,
    });
  }
}

/** What is wrong with a name that `parseFilename` refuses. */
function faultOf(text: string): string {
  if (text === '') return 'is empty';
  if (text === '.' || text === '..') return 'means a directory';
  if (Buffer.byteLength(text) > maxBytes) return `is longer than ${maxBytes} bytes`;
  if (/[/\\]/.test(text)) return 'has a path separator in it';
  return text.isWellFormed() ? 'has a character in it that is not seen' : 'is not UTF-8';
}

/**
 * Characters and names that Windows reserves (Microsoft, "Naming Files, Paths, and Namespaces").
 */
const reservedCharacters = /[<>:"|?*]/g;
const reservedName = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[\d\u00b9\u00b2\u00b3])(?= *(?:\.|$))/i;
/**
 * A name that is numbered may be longer than what the file systems take (NAME_MAX of POSIX
 * systems), in bytes.
 */
const maxBytes = 255;

/**
 * A name that hides nothing and has no meaning of its own on any system: no file that starts with a
 * dot, no option of a command, no device, no stream.
 * @param name one that `parseFilename` takes: it has no separators and no control characters
 */
export function safeName(name: string): string {
  const safe = name
    .replaceAll(reservedCharacters, '_')
    .replace(/^[.\s]+/, (start) => '_'.repeat(start.length))
    .replace(/[.\s]+$/, (end) => '_'.repeat(end.length))
    .replace(/^[~-]/, '_');
  return reservedName.test(safe) ? `_${safe}` : safe;
}

/**
 * The path of a new file in a directory: where the name is taken, it gets a number.
 * @param directory relative to `o.cwd`, as is the result
 * @param o.taken paths that are spoken for, as `foldedName`; the result is added
 * @throws file_unwritable when the directory cannot be looked into
 */
export async function freePath(
  directory: string,
  name: string,
  { cwd, taken }: { readonly cwd: string; readonly taken: Set<string> },
): Promise<string> {
  const [, stem = name, extension = ''] = /^(.+?)((?:\.[^.\s]{1,10}){0,2})$/s.exec(name) ?? [];
  for (let number = 1; ; number += 1) {
    const suffix = number === 1 ? extension : ` (${number})${extension}`;
    const path = join(directory, `${shortened(stem, maxBytes - Buffer.byteLength(suffix))}${suffix}`);
    if (taken.has(foldedName(path)) || (await exists(resolve(cwd, path)))) continue;
    taken.add(foldedName(path));
    return path;
  }
}

function shortened(text: string, bytes: number): string {
  const characters = Array.from(text);
  while (Buffer.byteLength(characters.join('')) > bytes) characters.pop();
  return characters.join('');
}

async function exists(path: string): Promise<boolean> {
  return (await ifMissing(lstat(path), undefined).catch(failWrite(path))) !== undefined;
}
