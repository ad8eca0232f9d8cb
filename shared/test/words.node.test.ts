/** The words of the shared rooms: they also reach clients of the API, who have no command line. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { codes, describe } from '../errors.ts';
import { present } from '../../testkit/present.ts';

const room = join(import.meta.dirname, '..');
/** A command of the command line, or a flag: `sealpin keygen`, `--force`. */
const commandLine = /\bsealpin (?:[a-z]+-)?[a-z]+\b|\b(?:ecc|chacha)-(?:en|de)crypt\b|(?:^|[\s(])--[a-z]/;

/** The texts between quotes, without the comments. */
function literals(source: string): string[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  return Array.from(
    code.matchAll(/'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g),
    ([, plain, template]) => plain ?? present(template),
  );
}

test('no text of the shared rooms names a command or a flag of the command line', () => {
  const files = readdirSync(room, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !/^(test|bench)\//.test(path),
  );
  expect(files.length).toBeGreaterThan(30);
  const found = files.flatMap((path) =>
    literals(readFileSync(join(room, path), 'utf8'))
      .filter((text) => commandLine.test(text))
      .map((text) => `${path}: ${text}`),
  );
  expect(found).toEqual([]);
});

test('nor does a title or hint of the table of codes', () => {
  for (const code of codes) expect(`${describe(code).title} ${describe(code).hint ?? ''}`).not.toMatch(commandLine);
});

test('the pattern finds what it must find', () => {
  for (const text of ['make one with: sealpin keygen', 'use ecc-decrypt', 'use --force to replace it'])
    expect(text).toMatch(commandLine);
});
