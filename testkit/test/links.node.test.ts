import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, posix, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

const listed = (...patterns: string[]) =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns], {
    cwd: root,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((path) => path !== '' && !path.includes('/vectors/') && existsSync(join(root, path)));
const documents = listed('*.md');

/** The text of a document without its code, where brackets are no links. */
function proseOf(markdown: string): string {
  return markdown.replaceAll(/^```[^]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '');
}

/** The anchors of a document: its headings, as the hosts of repositories spell them. */
function anchorsOf(markdown: string): Set<string> {
  const headings = markdown.replaceAll(/^```[^]*?^```/gm, '').matchAll(/^#+ (.+)$/gm);
  return new Set(
    Array.from(headings, ([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(/\s/g, '-'),
    ),
  );
}

/**
 * The links of a document that lead nowhere in the repository.
 * @param read the text of a file, or undefined
 */
function brokenLinks(path: string, read: (path: string) => string | undefined): string[] {
  const links = proseOf(read(path) ?? '').matchAll(/\]\(([^()\s]+)\)/g);
  return Array.from(links, ([, link = '']) => link).filter((link) => {
    if (/^[a-z]+:/.test(link)) return false;
    const [file = '', anchor] = link.split('#');
    const target = file === '' ? path : posix.normalize(posix.join(posix.dirname(path), file));
    const text = read(target);
    return text === undefined || (anchor !== undefined && !anchorsOf(text).has(anchor));
  });
}

/**
 * The sections that a text names in words, as `"Settings" and "Backends" in docs/operating.md` or
 * `docs/operating.md, "When it fails"`, and that are no headings there.
 */
function missingSections(text: string, read: (path: string) => string | undefined): string[] {
  const named = [
    ...Array.from(
      text.matchAll(/((?:"[A-Z][^"\n]*"(?:,| and)? )+)in `?([\w-]+\/[\w/-]+\.md)\b/g),
      ([, names, path]) => [path, names],
    ),
    ...Array.from(text.matchAll(/\b([\w-]+\/[\w/-]+\.md)`?,? \(?("[A-Z][^"\n]*")/g), ([, path, names]) => [
      path,
      names,
    ]),
  ];
  return named.flatMap(([path = '', names = '']) => {
    const headings = Array.from((read(path) ?? '').matchAll(/^#+ (.+)$/gm), ([, heading]) => heading);
    const missing = Array.from(names.matchAll(/"([^"]+)"/g), ([, name]) => name).filter(
      (name) => !headings.includes(name),
    );
    return missing.map((name) => `${path}: ${name}`);
  });
}

describe('the links between documents', () => {
  test('lead to files and headings that exist', () => {
    const read = (path: string) => {
      const absolute = join(root, path);
      if (!existsSync(absolute)) return undefined;
      return path.endsWith('.md') ? readFileSync(absolute, 'utf8') : '';
    };
    expect(documents.length).toBeGreaterThan(10);
    expect(documents.flatMap((path) => brokenLinks(path, read).map((link) => `${path}: ${link}`))).toEqual([]);
  });

  test('and the sections that messages and comments name are there', () => {
    const read = (path: string) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined);
    const sources = listed('*.ts', '*.md', '*.toml', '*.yaml', '*.sh').filter(
      (path) => path !== 'testkit/test/links.node.test.ts',
    );
    const found = sources.flatMap((path) =>
      missingSections(read(path) ?? '', read).map((section) => `${path}: ${section}`),
    );
    expect(found).toEqual([]);
  });

  test('would be reported otherwise', () => {
    const files: Record<string, string> = {
      'a.md': '[b](docs/b.md#two-words) [c](docs/c.md) [d](docs/b.md#none) `[e](e.md)` [f](https://example.org)',
      'docs/b.md': '# `Two` words\n[a](../a.md)',
    };
    expect(brokenLinks('a.md', (path) => files[path])).toEqual(['docs/c.md', 'docs/b.md#none']);
    expect(brokenLinks('docs/b.md', (path) => files[path])).toEqual([]);
    const hints = 'see "Two" and "Three" in b/c.md, or b/c.md, "Four"';
    expect(missingSections(hints, () => '## Two\n')).toEqual(['b/c.md: Three', 'b/c.md: Four']);
  });
});

/** In bytes: a document that would grow past them is divided, or repeats another one. */
const longest = { 'README.md': 8192, 'CONTRIBUTING.md': 6144, 'docs/performance.md': 20_480 };

test('the documents that everybody reads stay short', () => {
  const tooLong = Object.entries(longest).filter(([path, most]) => readFileSync(join(root, path)).length > most);
  expect(tooLong).toEqual([]);
});
