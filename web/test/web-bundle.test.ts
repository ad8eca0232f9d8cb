/**
 * The parts of the pages: their sizes, their words, and that the same source gives the same bytes.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { bundleWeb, webModule, webModuleText } from '../../cli/local/code/web-bundle.ts';
import { wordsFor } from '../words/catalogue.ts';
import { de } from '../words/de.ts';
import { en, type Words } from '../words/en.ts';
import { inCi } from '../../testkit/long-run.ts';
import { present } from '../../testkit/present.ts';
import { bundledOnce } from '../../testkit/run-cache.ts';

const web = await bundleWeb();
const curves = present(web.files.find(({ path }) => path.startsWith('web/curves-')));
const gzipBytes = (text: string): number => gzipSync(text, { level: 9 }).length;
const fileOf = (path: string): string => present(web.files.find((each) => each.path === path)).text;

test('stay within their budgets', () => {
  for (const { html, scriptPath } of web.documents)
    expect(gzipBytes(html) + gzipBytes(fileOf('web/style.css')) + gzipBytes(fileOf(scriptPath))).toBeLessThan(
      26 * 1024,
    );
  expect(gzipBytes(fileOf('web/engine.js'))).toBeLessThan(75 * 1024);
  expect(gzipBytes(fileOf('web/sealing-engine.js'))).toBeLessThan(75 * 1024);
  expect(gzipBytes(curves.text)).toBeLessThan(28 * 1024);
});

test('engines name the curves that they were built with, and nothing else does', () => {
  const address = `curves-${createHash('sha256').update(curves.text).digest('hex').slice(0, 16)}.js`;
  expect(curves.path).toBe(`web/${address}`);
  const naming = web.files.filter(({ text }) => text.includes(address));
  expect(naming.map(({ path }) => path)).toEqual(['web/engine.js', 'web/sealing-engine.js']);
  expect(web.files.filter(({ loadsScripts }) => loadsScripts)).toEqual(naming);
});

test('are the same bytes when they are built again, and show the hash of all of them', async () => {
  // The one that the whole run has, mostly of another process.
  expect(await bundledOnce(webModule, webModuleText)).toBe(`export const web = ${JSON.stringify(web)};`);
  expect(web.hash).toMatch(/^[0-9a-f]{64}$/);
  for (const { html } of web.documents) expect(html).toContain(`>${web.hash}</code>`);
});

inCi('have another hash with other words', async () => {
  const other = await bundleWeb({ words: new URL('words-rtl.ts', import.meta.url).pathname });
  expect(other.hash).not.toBe(web.hash);
});

test('name no path, have no script or style in the HTML, and every place is filled', () => {
  for (const text of [...web.files.map((each) => each.text), ...web.documents.map((each) => each.html)])
    expect(text).not.toMatch(/\/(?:home|root|work|Users)\//);
  for (const { html } of web.documents) {
    expect(html).not.toMatch(/<style|<script(?! src=)|\sstyle=|\son[a-z]+=/i);
    expect(html).not.toMatch(/\{\{|innerHTML/);
  }
});

test('never turn text into elements', () => {
  for (const { text } of web.files) expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write/);
});

/**
 * What is newer than `oldestBrowsers` (MDN), with a name that nothing else has. What a version of
 * the language adds is held by the `lib` of `tsconfig.json`; esbuild adds no function.
 */
const newer = /\b(?:URL\.parse|ReadableStream\.from|cookieStore|moveBefore|URLPattern|CloseWatcher|getAllRecords)\b/;

test('use no function that the oldest browsers lack', () => {
  const found = web.files.flatMap(({ path, text }) => (newer.test(text) ? [`${path}: ${newer.exec(text)?.[0]}`] : []));
  expect(found).toEqual([]);
});

const room = new URL('../', import.meta.url);
const textsOf = (pattern: RegExp, folder = room): string[] =>
  readdirSync(folder)
    .filter((name) => pattern.test(name))
    .map((name) => readFileSync(new URL(name, folder), 'utf8'));
const html = textsOf(/\.html$/, new URL('html/', room)).join('');
const folders = ['', 'choosing/', 'inbox/', 'kept/', 'receiving/'];
const scripts = folders.flatMap((folder) => textsOf(/\.ts$/, new URL(folder, room)));

test('have a word in every language for each place, and a place for each word', () => {
  const places = [...html.matchAll(/data-word="(\w+)"/g)].map(([, word]) => present(word));
  for (const catalogue of [en, de])
    for (const word of places) expect(catalogue[word as keyof Words], word).toBeTypeOf('string');
  for (const word of Object.keys(en))
    expect(places.includes(word) || scripts.some((script) => new RegExp(`\\b${word}\\b`).test(script)), word).toBe(
      true,
    );
  expect(Object.keys(de.errors)).toEqual(Object.keys(en.errors));
});

test('have the words that they use, and no others', () => {
  const textOf = (path: string): string => fileOf(`web/${path}-page.js`);
  for (const catalogue of [en, de]) {
    expect(textOf('send')).toContain(catalogue.stepSealText);
    expect(textOf('receive')).toContain(catalogue.chooseFileHint);
    expect(textOf('receive')).toContain(catalogue.errors.cut_off);
    expect(textOf('send')).not.toContain(catalogue.errors.cut_off);
    for (const error of ['unreachable', 'quota', 'other'] as const)
      expect(textOf('send')).toContain(catalogue.errors[error]);
    for (const path of ['drop', 'receive', 'files']) expect(textOf(path)).not.toContain(catalogue.stepSealText);
  }
});

test('speak the first language that they have', () => {
  expect(wordsFor(['fr-FR', 'de-AT', 'en'])).toBe(de);
  expect(wordsFor(['fr'])).toBe(en);
  expect(wordsFor([])).toBe(en);
});
