/** Parts of folders: what is packed, and what is taken out; and folders that are sent. */
import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { packTar } from 'modern-tar';
import { beforeEach, describe, expect, test } from 'vitest';
import { matchesAny, readFilter } from '../../folder/filter.ts';
import { byPassword, contain, env as ofContainers } from '../containers.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { sharedLocalService } from '../local.ts';
import { present } from '../../../testkit/present.ts';

const local = sharedLocalService();
const env = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };
/** Not a whole second, and long ago. */
const then = new Date('2001-02-03T04:05:06.789Z');
const tree: Readonly<Record<string, string>> = {
  'a.txt': 'a',
  'b.tmp': 'b',
  '.hidden/c.tmp': 'c',
  'plans/final/d.pdf': 'd',
  'plans/drafts/e.pdf': 'e',
  'plans/drafts/deep/f.txt': 'f',
  'empty/g.log': 'g',
};
let desk: string;
const sealpin = (...argv: string[]): Promise<Ran> => run([...argv, '--data-dir', local.dataDir], desk, { env });

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(join(desk, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(join(desk, folder).length + 1))
    .toSorted();
}

beforeEach(async () => {
  desk = await temporaryDirectory();
  for (const [path, text] of Object.entries(tree)) {
    const at = join(desk, 'photos', path);
    await mkdir(join(at, '..'), { recursive: true });
    await writeFile(at, text);
    await utimes(at, then, then);
  }
  await utimes(join(desk, 'photos/plans'), then, then);
});

describe('a pattern', () => {
  const matches = (pattern: string, path: string, isDirectory = false): boolean =>
    matchesAny(present(readFilter({ include: [pattern], exclude: undefined })).include, path, isDirectory);

  test.each([
    ['*.tmp', ['b.tmp', '.hidden/c.tmp'], ['b.tmpx', 'b.tmp/x']],
    ['/*.tmp', ['b.tmp'], ['.hidden/c.tmp']],
    ['plans/**/*.pdf', ['plans/d.pdf', 'plans/a/b/d.pdf'], ['d.pdf', 'plans/a/d.txt']],
    ['plans/*/d.pdf', ['plans/a/d.pdf'], ['plans/d.pdf', 'plans/a/b/d.pdf']],
    ['a?c', ['abc', 'x/a*c'], ['ac', 'a/c']],
    ['caf\u00e9', ['cafe\u0301'], ['cafe']],
    ['**', ['a', 'a/b'], []],
    ['a**b', ['ab', 'axxb'], ['a/b']],
    ['[a]', ['[a]'], ['a']],
  ])('%s', (pattern, good, bad) => {
    for (const path of good) expect(matches(pattern, path), path).toBe(true);
    for (const path of bad) expect(matches(pattern, path), path).toBe(false);
  });

  test('with a slash at its end is for directories', () => {
    expect(matches('cache/', 'x/cache', true)).toBe(true);
    expect(matches('cache/', 'x/cache')).toBe(false);
  });

  test('matches as the regular expression of the same meaning, of any names', () => {
    const text = fc.stringMatching(/^[ab*?/]{1,8}$/);
    const expected = (pattern: string, path: string): boolean => {
      const names = pattern.split('/').filter((name) => name !== '');
      const all = pattern.slice(0, -1).includes('/') ? names : ['**', ...names];
      const source = all
        .map((name) => (name === '**' ? '(?:[^/]+/)*' : `${name.replaceAll(/\*+/g, '[^/]*').replaceAll('?', '[^/]')}/`))
        .join('');
      return new RegExp(`^${source}$`).test(`${path}/`);
    };
    fc.assert(
      fc.property(text, fc.stringMatching(/^[ab]{1,3}(?:\/[ab]{1,3}){0,3}$/), (pattern, path) => {
        if (pattern.replaceAll('/', '') === '') return;
        expect(matches(pattern, path, true)).toBe(expected(pattern, path));
      }),
    );
  });

  test('takes no longer for names that almost match', () => {
    const name = 'a'.repeat(250);
    for (const pattern of [`${'a*'.repeat(100)}b`, `${'**/'.repeat(100)}b`])
      expect(matches(pattern, Array.from({ length: 50 }, () => name).join('/'))).toBe(false);
  });

  test.each(['/', '../x', 'a/../b', '.'])('%s is refused', (pattern) => {
    expect(() => readFilter({ include: undefined, exclude: [pattern] })).toThrow('matches nothing in a folder');
  });
});

describe('of a folder', () => {
  test.each([
    {
      flags: ['--exclude', '*.tmp', '--exclude', 'drafts/'],
      files: ['a.txt', 'empty/g.log', 'plans/final/d.pdf'],
      empty: ['.hidden'],
    },
    { flags: ['--include', '*.pdf'], files: ['plans/drafts/e.pdf', 'plans/final/d.pdf'], empty: [] },
    { flags: ['--include', 'drafts', '--exclude', '*.pdf'], files: ['plans/drafts/deep/f.txt'], empty: [] },
  ])('$flags packs only what is wanted', async ({ flags, files, empty }) => {
    expect(await sealpin('encrypt', 'photos', '--output', 'p.sealpin', ...flags)).toMatchObject({ exit: 0 });
    expect(await sealpin('decrypt', './p.sealpin', 'out', '--extract')).toMatchObject({ exit: 0 });
    expect(await filesIn('out')).toEqual(files);
    for (const name of empty) expect(await readdir(join(desk, 'out', name))).toEqual([]);
    const wanted = new Set([...files.map((path) => path.split('/')[0]), ...empty]);
    expect(new Set(await readdir(join(desk, 'out')))).toEqual(wanted);
  });

  test('a pattern that leaves nothing, or has no folder, is refused, and nothing is sent', async () => {
    for (const [argv, says] of [
      [['encrypt', 'photos', '--include', '*.png'], 'nothing in photos is left'],
      [['send', 'photos', '--include', '*.png'], 'nothing in photos is left'],
      [['encrypt', 'photos/a.txt', '--exclude', '*.png'], 'are for folders, and none is named'],
    ] as const) {
      const ran = await sealpin(...argv);
      expect(ran, ran.stderr).toMatchObject({ exit: 2, stdout: '' });
      expect(ran.stderr).toContain(says);
    }
  });

  test('one file comes out alone, and one folder with --extract, with their times', async () => {
    const blob = (await sealpin('encrypt', 'photos', '--quiet')).stdout.trim();
    expect(await sealpin('decrypt', blob, 'one', '--path', './plans/final/d.pdf')).toMatchObject({ exit: 0 });
    expect(await readFile(join(desk, 'one'), 'utf8')).toBe('d');
    expect((await sealpin('decrypt', blob, '-', '--path', 'a.txt')).stdout).toBe('a');
    await writeFile(join(desk, 'photos', 'e\u0301.txt'), 'e');
    await sealpin('encrypt', 'photos', '--output', 'p.sealpin');
    for (const spelled of ['\u00e9.txt', 'e\u0301.txt'])
      expect((await sealpin('decrypt', './p.sealpin', '-', '--path', spelled)).stdout).toBe('e');
    expect(await sealpin('decrypt', blob, 'plans', '--extract', '--path', 'plans')).toMatchObject({ exit: 0 });
    expect(await filesIn('plans')).toEqual(['drafts/deep/f.txt', 'drafts/e.pdf', 'final/d.pdf']);
    for (const path of ['plans', 'plans/final/d.pdf'])
      expect((await stat(join(desk, path))).mtime.getTime(), path).toBe(Math.floor(then.getTime() / 1000) * 1000);
  });

  test.each([
    { flags: ['--path', 'none'], exit: 3, says: 'there is no none in the folder' },
    { flags: ['--path', 'plans/fin'], exit: 3, says: 'there is no plans/fin in the folder' },
    { flags: ['--path', 'plans'], exit: 2, says: 'plans is a folder' },
    { flags: ['--path', '../a.txt'], exit: 2, says: '--path is no path in a folder' },
    { flags: ['--path', 'a.txt', '--extract'], exit: 2, says: 'a.txt is a file' },
  ])('$flags is refused, and nothing appears', async ({ flags, exit, says }) => {
    await sealpin('encrypt', 'photos', '--output', 'p.sealpin');
    const ran = await sealpin('decrypt', './p.sealpin', 'out', ...flags);
    expect(ran, ran.stderr).toMatchObject({ exit, stdout: '' });
    expect(ran.stderr).toContain(says);
    expect((await readdir(desk)).toSorted()).toEqual(['p.sealpin', 'photos']);
  });
});

test.each([
  { kind: 'file', is: 'a file', hint: 'leave --extract out' },
  { kind: 'symlink', is: 'a link', hint: 'name what it leads to' },
  { kind: 'link', is: 'another name of a file before it', hint: 'name that one: --path d/first' },
  { kind: 'directory', is: 'a folder', hint: 'make the folder of it with --extract' },
  { kind: 'fifo', is: 'neither a file, a folder nor a link', hint: 'name another part' },
] as const)('a part that is a $kind is called that, where it is not what is written', async ({ kind, is, hint }) => {
  const headers = [
    { name: 'd/first', type: 'file', size: 0 },
    { name: 'd/part', type: kind, size: 0, linkname: 'd/first' },
  ] as const;
  const archive = await packTar(headers.map((header) => ({ header })));
  await writeFile(join(desk, 'c'), await contain(archive, 'sealpin', byPassword()));
  // One of the two is how it is written.
  const flags = { file: [['--extract']], directory: [[]] }[kind as string] ?? [[], ['--extract']];
  for (const each of flags) {
    const argv = ['decrypt', './c', 'out', '--path', 'd/part', ...each];
    const ran = await run(argv, desk, { env: ofContainers });
    expect(ran, ran.stderr).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(`error: d/part is ${is}\nsealpin: hint: ${hint}`);
    expect((await readdir(desk)).toSorted()).toEqual(['c', 'photos']);
  }
});

test.each([
  { linkname: 'x', flags: ['--path', 'b'], says: 'b/y is another name of x, which is outside of b' },
  { linkname: 'none/x', flags: ['--path', 'b'], says: 'b/y is another name of none/x, which is outside of b' },
  { linkname: 'none/x', flags: [], says: 'it is a link to none/x, which is no file before it' },
])('a name of what is not extracted ($linkname, $flags) is never that of another file', async ({ flags, ...o }) => {
  const archive = await packTar([
    { header: { name: 'x', type: 'file', size: 5 }, body: 'right' },
    { header: { name: 'b/x', type: 'file', size: 5 }, body: 'wrong' },
    { header: { name: 'b/y', type: 'link', size: 0, linkname: o.linkname } },
  ]);
  await writeFile(join(desk, 'c'), await contain(archive, 'sealpin', byPassword()));
  const ran = await run(['decrypt', './c', 'out', '--extract', ...flags], desk, { env: ofContainers });
  expect(ran, ran.stderr).toMatchObject({ exit: 5, stdout: '' });
  expect(ran.stderr).toContain(o.says);
  expect((await readdir(desk)).toSorted()).toEqual(['c', 'photos']);
});

describe('a folder that is sent', () => {
  test('is a folder again with receive --extract, with its times, beside files as they are', async () => {
    await mkdir(join(desk, 'in/photos'), { recursive: true });
    const link = (await sealpin('send', 'photos', 'photos/a.txt', '--exclude', '*.tmp', '--quiet')).stdout.trim();
    const ran = await sealpin('receive', link, 'in', '--extract');
    expect(ran, ran.stderr).toMatchObject({ exit: 0 });
    // The name photos is taken.
    expect(await filesIn('in')).toEqual(
      [
        'a.txt',
        ...['a.txt', 'empty/g.log', 'plans/drafts/deep/f.txt', 'plans/drafts/e.pdf', 'plans/final/d.pdf'].map(
          (path) => `photos (2)/${path}`,
        ),
      ].toSorted(),
    );
    expect((await stat(join(desk, 'in/photos (2)/a.txt'))).mtime.getTime()).toBe(
      Math.floor(then.getTime() / 1000) * 1000,
    );
  });

  test('says how it is unpacked where it stays an archive', async () => {
    const link = (await sealpin('send', 'photos', '--quiet')).stdout.trim();
    const ran = await sealpin('receive', link, 'in');
    expect(ran.stderr).toContain('photos.tar is a folder in one file: tar -x unpacks it');
    expect(await readdir(join(desk, 'in'))).toEqual(['photos.tar']);
  });

  test('is not there at all where its archive leads out of it', async () => {
    await writeFile(join(desk, 'photos.tar'), 'no archive');
    const link = (await sealpin('send', 'photos.tar', 'photos/a.txt', '--quiet')).stdout.trim();
    const ran = await sealpin('receive', link, 'in', '--extract');
    expect(ran, ran.stderr).toMatchObject({ exit: 5 });
    expect(await readdir(join(desk, 'in'))).toEqual(['a.txt']);
  });
});

test('many files are received in the order in which they were sent', async () => {
  const names = Array.from({ length: 9 }, (_, index) => `file-${index}`);
  for (const [index, name] of names.entries()) await writeFile(join(desk, name), `${name} `.repeat((9 - index) * 1000));
  const link = (await sealpin('send', ...names, '--quiet')).stdout.trim();
  const ran = await sealpin('receive', link, 'in');
  expect(Array.from(ran.stderr.matchAll(/wrote in\/(\S+)/g), ([, name]) => name)).toEqual(names);
  for (const name of names) expect(await readFile(join(desk, 'in', name))).toEqual(await readFile(join(desk, name)));
});
