/** Texts of the pages: names under which files are sent, and days as headings. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { isFilename } from '../../shared/filename.ts';
import { encodeParcel } from '../../shared/link/index.ts';
import { present } from '../../testkit/present.ts';
import { dayHeading } from '../amounts.ts';
import { sendableName, sendableText } from '../sendable-name.ts';

test('a name that can be sent stays', () => {
  for (const name of ['report.pdf', '.bashrc', 'CON.txt', '👩‍💻.txt', 'Übersicht "Straße"', 'a'.repeat(255)])
    expect(sendableName(name)).toBeUndefined();
});

test.each([
  ['invoice\u202egpj.exe', { name: 'invoicegpj.exe', refused: ['U+202E'] }],
  ['\u200bone\u200btwo\t.txt', { name: 'onetwo_.txt', refused: ['U+200B', 'U+0009'] }],
  ['C:\\plans/house', { name: 'C:_plans_house', refused: ['\\', '/'] }],
  ['\u202e.exe', { name: 'file.exe', refused: ['U+202E'] }],
  ['..', { name: 'file', refused: [] }],
  ['', { name: 'file', refused: [] }],
  ['\ud800lone.txt', { name: 'lone.txt', refused: ['U+D800'] }],
  [`${'é'.repeat(300)}.tar.gz`, { name: `${'é'.repeat(126)}.gz`, refused: [] }],
])('%j is changed as little as possible', (text, expected) => {
  expect(sendableName(text)).toEqual(expected);
});

const file = { cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'a', type: 'a/b', size: 1 };

test('words may have every character, of which ends of lines stay ends of lines', () => {
  for (let code = 0; code < 0x1_0000; code += 1) {
    const note = sendableText(`a${String.fromCharCode(code)}b`);
    if (!/^a.?b$/su.test(note)) expect.unreachable(`U+${code.toString(16)}: ${note}`);
    if (code < 0x100 || code > 0xd000) encodeParcel({ files: [file], note });
  }
  for (const end of ['\n', '\v', '\f', '\u0085']) expect(sendableText(` a${end}b${end}`)).toBe('a\nb');
});

test('the longest name of a sender fits, in any writing', () => {
  const html = readFileSync(new URL('../html/compose.html', import.meta.url), 'utf8');
  const length = Number(present(/id="from"[^>]* maxlength="(\d+)"/.exec(html)?.[1]));
  for (const character of ['a', 'é', '水']) encodeParcel({ files: [file], from: character.repeat(length) });
});

test('every character, wherever it stands, gives a name that can be sent, and what was refused is named', () => {
  for (let code = 0; code < 0x3100; code += 1)
    for (const text of [
      String.fromCharCode(code),
      `${String.fromCharCode(code)}a.txt`,
      `a${String.fromCharCode(code)}.txt`,
    ]) {
      const change = sendableName(text);
      expect(isFilename(change?.name ?? text), JSON.stringify(text)).toBe(true);
      for (const refused of change?.refused ?? []) expect(refused).toMatch(/^(?:U\+[0-9A-F]{4}|[!-~])$/);
    }
});

test.each([
  ['en-GB', ['Today', 'Yesterday', 'Friday 27 March', expect.stringMatching(/^Wednesday,? 31 December 2025$/)]],
  ['de-DE', ['Heute', 'Gestern', 'Freitag, 27. März', 'Mittwoch, 31. Dezember 2025']],
])('days are headings in %s', (locale, expected) => {
  const at = (...time: [number, number, number, number, number]): string => new Date(...time).toISOString();
  const times = [at(2026, 2, 29, 0, 0), at(2026, 2, 28, 23, 59), at(2026, 2, 27, 1, 0), at(2025, 11, 31, 12, 0)];
  const now = new Date(2026, 2, 29, 23, 30);
  expect(times.map((time) => dayHeading(time, locale, now))).toEqual(expected);
});
