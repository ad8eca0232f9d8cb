/** Entries of a folder that are archived: `--include` and `--exclude`. */
import { SealpinError } from '../../shared/errors.ts';
import type { Input } from '../io/input.ts';

/** Names from the folder down, `**` for any number of them. */
type Pattern = { readonly names: readonly string[]; readonly isForDirectories: boolean };

/** The patterns of a command; without `include` everything is wanted. */
export type Filter = { readonly include: readonly Pattern[]; readonly exclude: readonly Pattern[] };

/** The values of both flags, as they were given. */
export type FilterValues = {
  readonly include: readonly string[] | undefined;
  readonly exclude: readonly string[] | undefined;
};

/** Reads both flags. @throws usage */
export function readFilter({ include = [], exclude = [] }: FilterValues): Filter {
  return { include: include.map(parsePattern), exclude: exclude.map(parsePattern) };
}

/** Tells whether a filter has a pattern. */
export function hasPatterns({ include, exclude }: Filter): boolean {
  return include.length + exclude.length > 0;
}

/** Refuses patterns that no folder is there for. @throws usage */
export function refuseIdleFilter(values: FilterValues, inputs: readonly Pick<Input, 'lookThrough'>[]): void {
  if (!hasPatterns(readFilter(values)) || inputs.some(({ lookThrough }) => lookThrough !== undefined)) return;
  throw new SealpinError('usage', '--include and --exclude are for folders, and none is named', {
    hint: 'leave them out',
  });
}

/**
 * Parses one pattern: `*` and `?` stay within a name, `**` stands for any number of names, a slash
 * at the end for directories only. A pattern without another slash matches at any depth.
 */
function parsePattern(text: string): Pattern {
  const names = text
    .normalize('NFC')
    .split('/')
    .filter((name) => name !== '' && name !== '.');
  if (names.length === 0 || names.includes('..'))
    throw new SealpinError('usage', `${JSON.stringify(text)} matches nothing in a folder`, {
      hint: "patterns are such as '*.tmp', 'drafts/' and 'photos/**/raw'; relative to the folder, between quotes",
    });
  const isAnywhere = !text.slice(0, -1).includes('/');
  return { names: isAnywhere ? ['**', ...names] : names, isForDirectories: text.endsWith('/') };
}

/**
 * Checks whether an entry is excluded, or is a file that is not included.
 * @param path relative to the folder
 */
export function isLeftOut(filter: Filter, path: string, isDirectory: boolean): boolean {
  return matchesAny(filter.exclude, path, isDirectory) || !(isDirectory || isIncluded(filter, path, false));
}

/** Checks whether an entry matches `--include`, or a directory that it is in does. */
export function isIncluded({ include }: Filter, path: string, isDirectory: boolean): boolean {
  if (include.length === 0 || matchesAny(include, path, isDirectory)) return true;
  const names = path.split('/');
  return names.some((_, index) => index > 0 && matchesAny(include, names.slice(0, index).join('/'), true));
}

/** Checks whether one of the patterns matches an entry. */
export function matchesAny(patterns: readonly Pattern[], path: string, isDirectory: boolean): boolean {
  const names = path.normalize('NFC').split('/');
  return patterns.some((each) => (isDirectory || !each.isForDirectories) && matches(names, each.names));
}

/** Follows all positions of the pattern at once, so that no pattern takes long. */
function matches(names: readonly string[], pattern: readonly string[]): boolean {
  let positions = opened(new Set([0]), pattern);
  for (const name of names) {
    const next = new Set<number>();
    for (const at of positions) {
      if (pattern[at] === '**') next.add(at);
      else if (at < pattern.length && matchesName(name, pattern[at] ?? '')) next.add(at + 1);
    }
    positions = opened(next, pattern);
  }
  return positions.has(pattern.length);
}

/** Adds the positions behind each `**`, which may stand for no name at all. */
function opened(positions: Set<number>, pattern: readonly string[]): Set<number> {
  for (const at of positions) if (pattern[at] === '**') positions.add(at + 1);
  return positions;
}

/** Goes back to the last `*` only, which takes the product of both lengths at most. */
function matchesName(name: string, pattern: string): boolean {
  let [at, next, star, taken] = [0, 0, -1, 0];
  while (at < name.length) {
    if (pattern[next] === '*') [star, taken, next] = [next, at, next + 1];
    else if (pattern[next] === '?' || pattern[next] === name[at]) [at, next] = [at + 1, next + 1];
    else if (star >= 0) [taken, at, next] = [taken + 1, taken + 1, star + 1];
    else return false;
  }
  return /^\**$/.test(pattern.slice(next));
}
