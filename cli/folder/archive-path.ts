/** Names and links in an archive, which anyone may have written: which stay in the folder. */
import { sep } from 'node:path';

/** A longer name of an entry is cut in a message. */
const shownLength = 120;

/** The name of an entry, as a message has it. */
export function shortName(name: string): string {
  return name.length > shownLength ? `${name.slice(0, shownLength)}…` : name;
}

/** A path in an archive that must not be used, and why. */
export class UnsafePath extends Error {}

/**
 * The names on the way to an entry, from the folder that is extracted into; none for the folder
 * itself.
 * @throws UnsafePath for an absolute path, one with `..`, and one that is not what the archive's
 * writer had
 */
export function namesOf(path: string): string[] {
  if (path.startsWith('/')) throw new UnsafePath('its path is absolute');
  if (path.includes('\0')) throw new UnsafePath('its name has a NUL in it');
  if (path.includes('\uFFFD')) throw new UnsafePath('its name is not UTF-8');
  // On Windows a backslash separates, and a colon names a drive or a stream.
  if (sep === '\\' && /[\\:]/.test(path)) throw new UnsafePath('its name is not valid on Windows');
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) throw new UnsafePath('its path has .. in it');
  return names;
}

/**
 * Checks the target of a symbolic link, which may lead anywhere: a link is made, and never
 * followed.
 * @throws UnsafePath where the system has no such link, or the archive's writer did not have it
 */
export function checkTarget(target: string): void {
  if (target === '' || target.includes('\0')) throw new UnsafePath('it is a link that leads nowhere');
  if (target.includes('\uFFFD')) throw new UnsafePath('its target is not UTF-8');
  // A link to another computer would greet it with the user's name and a proof of the password.
  if (sep === '\\' && /[\\:]/.test(target)) throw new UnsafePath('its target is not valid on Windows');
}

/**
 * Checks that the target of a symbolic link stays in the folder, whatever other links are there:
 * `..` may only come first, where it starts from a real directory, and not more often than the link
 * is deep.
 * @param depth how many directories are between the folder and the link
 */
export function isInside(target: string, depth: number): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0')) return false;
  if (sep === '\\' && /[\\:]/.test(target)) return false;
  const names = target.split('/').filter((name) => name !== '' && name !== '.');
  const down = names.findIndex((name) => name !== '..');
  const ups = down < 0 ? names.length : down;
  return ups <= depth && !names.slice(ups).includes('..');
}

/**
 * A warning about symbolic links that lead out of a folder; undefined where there are none.
 * @param folder as the user named it
 * @param first of so many
 */
export function leavingWarning(
  folder: string,
  count: number,
  first: { readonly name: string; readonly target: string } | undefined,
): string | undefined {
  if (first === undefined) return undefined;
  const more = count === 1 ? '' : ` (and ${count - 1} more)`;
  return `symbolic links may lead out of ${folder}: ${first.name} -> ${first.target}${more}`;
}
