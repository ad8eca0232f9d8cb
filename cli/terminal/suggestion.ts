/** Guess of the word that a person most likely meant. */

/**
 * The known word that a mistyped one most likely meant, as a hint: one typo in a short word, a few
 * in a long one. Part of a word that has hyphens counts, too: `--pasword` means `--password-file`.
 * @param prefix put in front of the word in the hint, such as `--`
 * @returns undefined when no word is near
 */
export function suggestion(word: string, known: readonly string[], prefix = ''): string | undefined {
  const near = known
    .map((name) => ({ name, distance: Math.min(...beginningsOf(name).map((part) => editDistance(word, part))) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.floor(Math.min(word.length, name.length) / 4)))
    .sort((a, b) => a.distance - b.distance)[0];
  return near === undefined ? undefined : `did you mean ${prefix}${near.name}?`;
}

/** Words of other programs for what a command does. */
const otherWords: readonly (readonly [command: string, words: readonly string[]])[] = [
  ['encrypt (or, for a link, sealpin send)', ['upload', 'put', 'add', 'store', 'save', 'push']],
  ['decrypt', ['cat', 'download', 'open', 'fetch', 'read', 'pull']],
  ['list', ['ls', 'dir', 'files']],
  ['delete', ['rm', 'remove', 'del', 'unpin']],
];

/** The command that does what a word of other programs means, as a hint. */
export function commandFor(word: string): string | undefined {
  const found = otherWords.find(([, words]) => words.includes(word.toLowerCase()));
  return found === undefined ? undefined : `use: sealpin ${found[0]}`;
}

/** A name, and its beginnings up to each hyphen, unless they are too short to be meant. */
function beginningsOf(name: string): string[] {
  const parts = name.split('-');
  const beginnings = parts.map((_, index) => parts.slice(0, index + 1).join('-'));
  return beginnings.filter((part) => part === name || part.length > 4);
}

/**
 * Optimal string alignment: an inserted, missing or wrong letter, and two swapped neighbours, count
 * one each.
 */
function editDistance(a: string, b: string): number {
  const cell = (row: readonly number[], index: number): number => row[index] ?? Infinity;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = cell(row, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? cell(before, j - 2) + 1 : Infinity;
      next.push(Math.min(cell(row, j) + 1, cell(next, j - 1) + 1, change, swap));
    }
    [before, row] = [row, next];
  }
  return cell(row, b.length);
}
