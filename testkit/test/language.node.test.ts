import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

/** Unidiomatic forms, each with a better one. They are forbidden in documents, comments, messages and test names alike. */
const forms: ReadonlyMap<RegExp, string> = new Map([
  [/\banew\b/i, 'again'],
  [/\b(?:is|are|was|be) told of\b/i, 'reported, warned about'],
  [/\btold of\b/i, 'reported, warned about'],
  [/\bmend(?:s|ed)?\b/i, 'fix'],
  [/\bwho(?:so)?ever\b/i, 'anyone who'],
  [/\b(?:thereof|hereby|therein|whereof)\b/i, 'a plain relative clause'],
  [/\bin the place of\b/i, 'instead of'],
  [/\bas (?:it|they) comes?\b/i, 'unchanged'],
  [/\bshall\b/i, 'must, will, or the present tense'],
  [/\bleft out of account\b/i, 'ignored'],
  [/\bis gone afterwards\b/i, 'temporary'],
  [/\bsends us elsewhere\b/i, 'redirects'],
  [/\bthe line\b(?= and try)/i, 'your connection'],
  [/\bwho has the [a-z ]+ (?:is|opens|can)\b/i, 'anyone with the … can'],
  [/\bstands there twice\b/i, 'appears twice'],
  [/\b(?:gave|gives) an answer that is not\b/i, 'unexpected response'],
]);

/** The file that must contain the forms: this one. */
const exempt = new Set(['testkit/test/language.node.test.ts']);

const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.md', '*.txt', '*.toml', 'sealpin', '.ci'],
  { cwd: root, encoding: 'utf8' },
)
  .split('\n')
  .filter((path) => path !== '' && !path.includes('/vectors/') && !exempt.has(path));

/** The forms in a text, as `line: form → better`. */
function findForms(text: string): string[] {
  return text
    .split('\n')
    .flatMap((line, index) =>
      [...forms].flatMap(([form, better]) => (form.test(line) ? [`${index + 1}: ${form.source} → ${better}`] : [])),
    );
}

describe('the language of the project', () => {
  test('is plain in documents, comments, messages and tests', () => {
    expect(files.length).toBeGreaterThan(250);
    const found = files.flatMap((path) =>
      findForms(readFileSync(join(root, path), 'utf8')).map((form) => `${path}:${form}`),
    );
    expect(found).toEqual([]);
  });

  test('would be reported otherwise', () => {
    expect(findForms('Build the Worker anew\nfine\nwhoever mends it')).toEqual([
      '1: \\banew\\b → again',
      '3: \\bmend(?:s|ed)?\\b → fix',
      '3: \\bwho(?:so)?ever\\b → anyone who',
    ]);
  });
});
