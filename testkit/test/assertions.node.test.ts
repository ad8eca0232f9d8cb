import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*/test/*.ts'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '');

const matcher = /^\s*(?:,[^)\n]*)?\)\s*\.(?:resolves\.)?(?:toEqual|toStrictEqual|toMatchObject)\(\s*\[/;

/**
 * The lines at which several values are compared as a list: its failure does not name which of them
 * differs.
 */
function tuplesIn(source: string): number[] {
  return [...source.matchAll(/\bexpect\(\s*(?=\[)/g)].flatMap(({ index, 0: call }) => {
    const begin = index + call.length;
    let depth = 0;
    let at = begin;
    let items = 1;
    for (; at < source.length; at += 1) {
      const character = source.charAt(at);
      if ('[({'.includes(character)) depth += 1;
      if ('])}'.includes(character)) depth -= 1;
      if (depth === 0) break;
      if (depth === 1 && character === ',' && source.slice(at + 1, begin + 2000).trimStart()[0] !== ']') items += 1;
    }
    return items > 1 && matcher.test(source.slice(at + 1)) ? [source.slice(0, index).split('\n').length] : [];
  });
}

test('no test compares several values as one list', () => {
  expect(tuplesIn("\nexpect([status, await text()]).toEqual([200, 'x']);")).toEqual([2]);
  expect(tuplesIn('expect([await only()]).toEqual([1]); expect([...a, b]).toEqual(c);')).toEqual([]);
  expect(files.length).toBeGreaterThan(250);
  const found = files.flatMap((path) =>
    tuplesIn(readFileSync(join(root, path), 'utf8')).map((line) => `${path}:${line}`),
  );
  expect(found).toEqual([]);
});
