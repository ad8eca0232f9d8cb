/** Names of files and words that cannot be sent as they are, and what is sent instead. */
import { isFilename } from '../shared/filename.ts';

/**
 * `refused`: the characters that had to go, once each and in a form that can be seen; none where
 * the name was only too long.
 */
export type SendableName = { readonly name: string; readonly refused: readonly string[] };

/** No name has more: each takes a byte at least. */
const maxNameCharacters = 255;

/** Name for a file whose name has nothing left. */
const emptyName = 'file';

/**
 * The name under which a file can be sent: without the characters that no name may have, of which
 * those that can be seen become `_`, and shortened before its extension where it is too long.
 * @returns undefined for a name that can be sent as it is
 */
export function sendableName(text: string): SendableName | undefined {
  if (isFilename(text)) return undefined;
  const characters = Array.from(text);
  // Joiners are refused at the start only, and `..` is refused as a whole.
  const start = characters.findIndex((each) => isFilename(`${each}x`));
  const isRefused = (character: string, at: number): boolean => !isFilename(`x${character}`) || at < start || start < 0;
  const refused = [...new Set(characters.filter(isRefused))].map(characterText);
  const kept = characters.flatMap((each, at) => (isRefused(each, at) ? (/[\s/\\]/.test(each) ? ['_'] : []) : [each]));
  const extension = /\.[^.]{1,16}$/.exec(kept.join(''))?.[0] ?? '';
  const stem = kept.slice(0, Math.min(kept.length - Array.from(extension).length, maxNameCharacters));
  while (stem.length > 0 && !isFilename(stem.join('') + extension)) stem.pop();
  const name = stem.join('') + extension;
  return { name: stem.length > 0 ? name : emptyName + extension, refused };
}

/**
 * Words as a parcel may have them. Programs that people paste from have their own ends of lines and
 * pages; other characters of control cannot be seen.
 */
export function sendableText(text: string): string {
  const lines = text.toWellFormed().replace(/[\v\f\u0085]/g, '\n');
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return lines.replace(/[\0-\u0008\r-\u001f\u007f-\u009f]/g, '').trim();
}

/** A character as people can name it: itself, or its number. */
function characterText(character: string): string {
  if (/[!-~]/.test(character)) return character;
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}
