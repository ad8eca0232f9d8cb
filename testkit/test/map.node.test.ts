/**
 * The map of the house, `docs/map.md`: what it names exists, and it names every source file; the
 * files that the READMEs of rooms list; and the numbers of `docs/survival.md`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, posix, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)));

const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const rooms = /^(?:worker|cli|client|web|shared|deploy|packaging|simulation|bench|testkit|contrib)\//;
const isSource = (path: string): boolean =>
  rooms.test(path) && /\.(?:ts|js|html|css|py)$/.test(path) && !path.includes('/test/');

interface Row {
  /** The files and folders that the row is about, in its first cell. */
  readonly owns: string[];
  /** Every path in the row. */
  readonly names: string[];
  /** Names in the code that the row has. */
  readonly words: string[];
}

/**
 * The rows of the tables. A name that is not in the root of the repository is in the folder of the
 * path before it.
 */
function rowsOf(map: string, files: readonly string[]): Row[] {
  return Array.from(map.matchAll(/^\|(?! file \||-)(.*)\|$/gm), ([, row = '']) => {
    let folder = '';
    const owns: string[] = [];
    const names: string[] = [];
    const words = Array.from(row.matchAll(/`(#?[a-z]+[A-Z]\w*)`/g), ([, word = '']) => word);
    for (const [index, cell] of row.split('|').entries())
      for (const [, span = ''] of cell.matchAll(/`([^`\s]+)`/g)) {
        if (!/^\w.*\.(?:ts|sh|md|py|css|toml|txt)$|^[\w.].*\//.test(span)) continue;
        const path = span.includes('/') || files.includes(span) ? span : posix.join(folder, span);
        if (span.includes('/')) folder = posix.dirname(`${span}x`);
        names.push(path);
        if (index === 0) owns.push(path);
      }
    return { owns, names, words };
  });
}

/** What is wrong with a map of these files. */
function faults(map: string, files: readonly string[], textOf: (path: string) => string): string[] {
  const rows = rowsOf(map, files);
  const owned = rows.flatMap(({ owns }) => owns);
  const exists = (path: string) => files.some((file) => file === path || (path.endsWith('/') && file.startsWith(path)));
  const lacks = ({ names }: Row, word: string) =>
    !files.some(
      (path) => [path, `${posix.dirname(path)}/`].some((each) => names.includes(each)) && textOf(path).includes(word),
    );
  return [
    ...rows.flatMap(({ names }) => names.filter((path) => !exists(path)).map((path) => `not there: ${path}`)),
    ...rows.flatMap((row) => row.words.filter((word) => lacks(row, word)).map((word) => `not in its files: ${word}`)),
    ...owned.filter((path, index) => owned.indexOf(path) < index).map((path) => `in two rows: ${path}`),
    ...files
      .filter((path) => isSource(path) && !owned.includes(path) && !owned.includes(`${posix.dirname(path)}/`))
      .map((path) => `in no row: ${path}`),
  ];
}

describe('the map', () => {
  const map = read('docs/map.md');

  test('names what exists, also in its files, every source file, and no file in two rows', () => {
    expect(rowsOf(map, tracked).length).toBeGreaterThan(100);
    expect(faults(map, tracked, read)).toEqual([]);
  });

  test('would be reported otherwise', () => {
    const rows = ['| file | decides |', '|---|---|', '| `cli/a.ts`, `b.ts` | `x` of `/ipfs/` | `c.ts`, `docs/` |'];
    const files = ['cli/a.ts', 'cli/b.ts', 'cli/c.ts', 'docs/d.md', 'cli/io/e.ts', 'cli/test/f.ts'];
    const faultsOf = () => faults(rows.join('\n'), files, (path) => (path === 'cli/c.ts' ? 'idleMs' : ''));
    expect(faultsOf()).toEqual(['in no row: cli/c.ts', 'in no row: cli/io/e.ts']);
    rows.push('| `cli/`, `cli/b.ts`, `gone.ts` | `idleMs`, `maxMs` | `cli/none/` |');
    expect(faultsOf()).toEqual([
      'not there: cli/gone.ts',
      'not there: cli/none/',
      'not in its files: maxMs',
      'in two rows: cli/b.ts',
      'in no row: cli/io/e.ts',
    ]);
  });
});

test('the README of a room lists files that are there', () => {
  const named = tracked
    .filter((path) => path.endsWith('/README.md'))
    .flatMap((readme) =>
      Array.from(read(readme).matchAll(/^\|([^|]*)\|/gm), ([, cell = '']) => cell)
        .flatMap((cell) => Array.from(cell.matchAll(/`([\w./-]+\.(?:ts|html|css|py|md))`/g), ([, name = '']) => name))
        .map((name) => ({ name, room: posix.dirname(readme) })),
    );
  expect(named.length).toBeGreaterThan(100);
  const isThere = (path: string, { name, room }: (typeof named)[number]) =>
    path === name || (path.startsWith(`${room}/`) && path.endsWith(`/${name}`));
  expect(named.filter((each) => !tracked.some((path) => isThere(path, each)))).toEqual([]);
});

test('each case of docs/survival.md has its number in the name of a test, or says that no test shows it', () => {
  const tests = tracked.filter((path) => /(?:^|\/)test\//.test(path) && path.endsWith('.ts'));
  // Names may go over lines, and some stand in tables; without a colon, S3 is a kind of store.
  const names = tests.flatMap((path) =>
    Array.from(read(path).matchAll(/['"`]((?:S\d+[, ]*)+):/g), ([, numbers = '']) => numbers),
  );
  const named = new Set(names.flatMap((numbers) => Array.from(numbers.matchAll(/\d+/g), Number)));
  const cases = Array.from(read('docs/survival.md').matchAll(/^\| (S[^|]*) \|(.*)$/gm), ([, cell = '', row = '']) => {
    const numbers = Array.from(cell.matchAll(/\d+/g), Number);
    const [from = 0, to = from] = numbers;
    const all = cell.includes('–') ? Array.from({ length: to - from + 1 }, (_, i) => from + i) : numbers;
    return { all, hasNone: row.includes('(no test)') };
  });
  expect(cases.flatMap(({ all }) => all)).toHaveLength(91);
  const untested = cases.flatMap(({ all, hasNone }) => all.filter((each) => !named.has(each) && !hasNone));
  expect(untested.map((number) => `S${number}`)).toEqual([]);
});
