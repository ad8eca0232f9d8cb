import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

/**
 * Unidiomatic forms, each with a better one. They are forbidden in documents, comments, messages
 * and test names alike.
 */
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

/** The files of the checkout that match, also new ones, but for vectors. */
const listed = (...patterns: string[]) =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns], {
    cwd: root,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((path) => path !== '' && !path.includes('/vectors/') && existsSync(join(root, path)));

const code = ['*.ts', '*.js', '*.mts', '*.py', '*.css', '*.html', '*.sh'];
const files = listed(...code, '*.yml', '*.yaml', '*.md', '*.txt', '*.toml', 'sealpin', '.ci').filter(
  (path) => !exempt.has(path),
);
const sources = listed(...code);

/** The forms in a text, as `line: form → better`. */
function findForms(text: string): string[] {
  return text
    .split('\n')
    .flatMap((line, index) =>
      [...forms].flatMap(([form, better]) => (form.test(line) ? [`${index + 1}: ${form.source} → ${better}`] : [])),
    );
}

/**
 * Share of the docstrings of a room that may begin with a relative clause; most begin with a verb
 * or a noun.
 */
const mostRelative = 0.03;

const docstring = /\/\*\*[\s*]*(\w+)/g;
const relatives = new Set(['What', 'How', 'Whether', 'Who', 'Whose', 'Whom', 'Where', 'When', 'Why', 'Which']);

/** The first words of the docstrings in a source. */
function firstWords(source: string): string[] {
  return [...source.matchAll(docstring)].flatMap(([, word]) => word ?? []);
}

/** A line that is a comment, but for examples and what a linter is told. */
const commentLine = /^\s*(?:\/\*\*|\*|\/\/)(?! oxlint| (?:for|const|printLink\())/;
/** The same in languages whose comments begin with `#`. */
const hashLine = /^\s*# /;
const commentColumns = 100;

/** A message of an error that is a literal; the first argument is its code. */
const message = /\b(?:SealpinError|TemporaryError)\(\s*(?:'\w+'|[\w.]+),\s*(?:'([^']*)'|"([^"]*)"|`([^`]*)`)/g;
/**
 * A capital at the beginning of a word that is no name: `The`, but not `Upload-Offset`, `CARs`,
 * `P-256` or `Kubo`.
 */
const capital = /^(?!(?:Kubo|Cluster|Cloudflare|Sealpin|Node|Firefox)\b)[A-Z](?:[a-z]+)?(?=[ ,:.;'’]|$)/;

/** The messages in a source that begin with a capital. */
function capitalMessages(source: string): string[] {
  return [...source.matchAll(message)]
    .map(([, single, double, template]) => single ?? double ?? template ?? '')
    .filter((text) => capital.test(text));
}

/** A declaration at the top level of a module, with its name. */
const declaration =
  /^(?:(?:export|declare|default|abstract|async) )*(?:function\*?|const|let|class|type|interface|enum) ([\w$]+)/gm;
/** Names that may be declared in three or more sources, among them what each command exports. */
const mostShared = 20;

/** The names that three or more of these sources declare at top level. */
function sharedNames(sources: readonly string[]): string[] {
  const declared = sources.flatMap((source) => [
    ...new Set(Array.from(source.matchAll(declaration), ([, name = '']) => name)),
  ]);
  return [...Map.groupBy(declared, (name) => name)].filter(([, { length }]) => length >= 3).map(([name]) => name);
}

const columns = 120;
/** A line that is one regular expression or has one `data:` URI may be longer. */
const unbreakable = /^\s*(?:\/.+\/[a-z]*[;,]|href="data:[^"]+")$/;

/** The numbers of the lines of a text that are longer than 120 characters. */
function longLines(text: string): number[] {
  return text
    .split('\n')
    .flatMap((line, index) => (Array.from(line).length > columns && !unbreakable.test(line) ? [index + 1] : []));
}

const rooms = Map.groupBy(
  files.filter((path) => path.includes('/') && path.endsWith('.ts')),
  (path) => path.slice(0, path.indexOf('/')),
);

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

  const scripts = listed('*.py', '*.sh', '*.yml', '*.yaml', 'sealpin', '.ci');

  test.each([...rooms, ['scripts', scripts]] as const)('wraps comments at 100 columns: %s', (room, paths) => {
    const comment = room === 'scripts' ? hashLine : commentLine;
    const found = paths.flatMap((path) =>
      readFileSync(join(root, path), 'utf8')
        .split('\n')
        .flatMap((line, index) =>
          comment.test(line) && Array.from(line).length > commentColumns ? [`${path}:${index + 1}`] : [],
        ),
    );
    expect(found).toEqual([]);
  });

  test('has no line over 120 columns', () => {
    const found = sources.flatMap((path) =>
      longLines(readFileSync(join(root, path), 'utf8')).map((line) => `${path}:${line}`),
    );
    expect(sources.length).toBeGreaterThan(900);
    expect(found).toEqual([]);
  });

  test('finds lines over 120 columns, but for a regular expression or a data: URI', () => {
    const long = 'é'.repeat(120);
    const text = [long, `${long}.`, `  /${long}/gu,`, `  const pattern = /${long}/;`, `  href="data:,${long}"`];
    expect(longLines(text.join('\n'))).toEqual([2, 4]);
  });

  test.each([...rooms])('begins docstrings with a verb or a noun: %s', (_, paths) => {
    const words = paths.flatMap((path) =>
      firstWords(readFileSync(join(root, path), 'utf8')).map((word) => ({ word, path })),
    );
    const found = words.filter(({ word }) => relatives.has(word)).map(({ word, path }) => `${path}: ${word} …`);
    const most = Math.floor(words.length * mostRelative);
    expect(found.length, found.join('\n')).toBeLessThanOrEqual(most);
  });

  test('has no docstring that describes nothing', () => {
    // The first docstring of a file is about the file.
    const found = files.filter(
      (path) =>
        path.endsWith('.ts') &&
        /[^/]\*\/\n\s*\/\*\*/.test(readFileSync(join(root, path), 'utf8').replace(/^\/\*\*[^]*?\*\/\n/, '')),
    );
    expect(found).toEqual([]);
  });

  test('begins messages of errors in lower case', () => {
    const found = files
      .filter((path) => path.endsWith('.ts') && !path.includes('/test/'))
      .flatMap((path) => capitalMessages(readFileSync(join(root, path), 'utf8')).map((text) => `${path}: ${text}`));
    expect(found).toEqual([]);
  });

  test('finds messages that begin with a capital', () => {
    const source =
      "new SealpinError('usage', 'The end'); new SealpinError(code, `A ${x}`); new SealpinError('usage', 'P-256')";
    expect(capitalMessages(source)).toEqual(['The end', 'A ${x}']);
  });

  test('finds the first words of docstrings', () => {
    const source = '/** What it is. */\n/**\n * Reads. Where\n */\n/* no */\n';
    expect(firstWords(source)).toEqual(['What', 'Reads']);
  });

  test('gives a name to one thing, so that a search for it finds one', () => {
    const modules = listed('*.ts').filter((path) => !path.includes('/test/'));
    expect(modules.length).toBeGreaterThan(500);
    const names = sharedNames(modules.map((path) => readFileSync(join(root, path), 'utf8')));
    expect(names.length, names.join(', ')).toBeLessThanOrEqual(mostShared);
    expect(
      sharedNames(['const a = 1;\n  const b = 2;', 'export async function* a() {}', 'type a = b;\nlet b;']),
    ).toEqual(['a']);
  });
});
