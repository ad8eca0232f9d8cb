/** Tests of allowed names of files, for every character that there is. */
import * as v from 'valibot';
import { expect, test } from 'vitest';
import { FileChange, ListQuery } from '../api.ts';
import { Label } from '../api/fields.ts';
import { cleanFilename, filenamePattern, foldedName, parseFilename } from '../filename.ts';
import { encodeParcel, parseParcel } from '../link/parcel.ts';

const isTaken = (name: string): boolean => {
  try {
    return parseFilename(name) === name;
  } catch {
    return false;
  }
};

test('a name has no character that is not seen, and what needs some keeps them', () => {
  const wrong: string[] = [];
  let taken = '';
  for (let code = 0; code <= 0x10_ffff; code += 1) {
    if (code === 0xd8_00) code = 0xe0_00;
    const character = String.fromCodePoint(code);
    if (/[\p{Cc}\p{Zl}\p{Zp}/\\]/u.test(character)) {
      if (isTaken(`a${character}`)) wrong.push(`U+${code.toString(16)}`);
      continue;
    }
    const isModifier = /[\u200c\u200d]|\p{Variation_Selector}/u.test(character);
    if (/[\p{Cf}\p{Default_Ignorable_Code_Point}]/u.test(character) && !isModifier) {
      if (isTaken(`a${character}b`) || isTaken(`${character}b`)) wrong.push(`U+${code.toString(16)}`);
      // What the pattern of the API allows becomes a name that is taken.
      const name = `${character}a${character}`;
      if (filenamePattern.test(name) && !isTaken(cleanFilename(name))) wrong.push(name);
    } else if (isModifier && isTaken(`${character}b`)) wrong.push(`U+${code.toString(16)} first`);
    else taken += character;
    // Many at once: an exception for each would take seconds.
    if (taken.length < 60 && code < 0x10_ffff) continue;
    if (!isTaken(`a${taken}`)) wrong.push(`one of ${JSON.stringify(taken)}`);
    taken = '';
  }
  expect(wrong).toEqual([]);
});

test.each(['نامه‌ها.pdf', '👩‍👩‍👧.png', '❤️.png', '葛󠄀城.txt', ' a', 'é'.repeat(127)])('%j is taken', (name) => {
  expect(isTaken(name)).toBe(true);
  expect(cleanFilename(name)).toBe(name);
});

test.each(['\u2060.bashrc', '\u200d.bashrc', '\ufe0f.bashrc', 'a\u00adb', 'a\u{e0041}b', '\u3164'])(
  '%j is not taken, and one that exists is read with _',
  (name) => {
    expect(isTaken(name)).toBe(false);
    const shown = cleanFilename(name);
    expect(shown).toMatch(/_/);
    expect(isTaken(shown)).toBe(true);
  },
);

test('a parcel of an older sender opens, its names changed; none such is written', () => {
  const file = {
    cid: 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku',
    fileKey: new Uint8Array(32),
    type: 'text/plain',
    size: 1,
  };
  const written = encodeParcel({ files: [{ ...file, name: 'a_____.bashrc' }] });
  const older = new TextEncoder().encode(new TextDecoder().decode(written).replace('_____', '\u2060\u00ad'));
  expect(parseParcel(older).files[0]?.name).toBe('a__.bashrc');
  expect(() => encodeParcel({ files: [{ ...file, name: 'a\u2060' }] })).toThrow('the filename is not valid');
});

test('labels and tags have the characters that names have, and separators', () => {
  const isAllowed = (text: string): boolean[] => [
    v.safeParse(Label, text).success,
    v.safeParse(FileChange, { tags: [text] }).success,
  ];
  const wrong: string[] = [];
  const compare = (characters: readonly string[]): void => {
    const text = `a${characters.join('')}b`;
    const isNamed = isTaken(text.replaceAll(/[/\\]/g, ''));
    if (isNamed && !isAllowed(text).includes(false)) return;
    if (characters.length > 1) for (const character of characters) compare([character]);
    else if (isNamed || isAllowed(text).includes(true)) wrong.push(JSON.stringify(text));
  };
  // Many at once: each is looked at for long.
  for (let code = 0; code <= 0x10_ffff; code += 32) {
    if (code === 0xd8_00) code = 0xe0_00;
    compare(Array.from({ length: 32 }, (_, at) => String.fromCodePoint(code + at)));
  }
  expect(wrong).toEqual([]);
  // What is stored already is read, and looked for.
  expect(v.safeParse(ListQuery, { tag: 'a\u2060b' }).success).toBe(true);
});

test('names that differ in the case or in the spelling of any letter are one name, and others are not', () => {
  const wrong: string[] = [];
  for (let code = 0; code <= 0x1_ffff; code += 1) {
    if (code === 0xd8_00) code = 0xe0_00;
    const letter = String.fromCodePoint(code);
    const cases = [letter, letter.toLowerCase(), letter.toUpperCase()];
    const spelled = new Set(cases.flatMap((each) => [each, each.normalize('NFC'), each.normalize('NFD')]));
    if (spelled.size === 1) continue;
    if (new Set([...spelled].map((each) => foldedName(`a${each}b`))).size > 1) wrong.push(letter);
  }
  expect(wrong).toEqual([]);
  expect(new Set(['a', 'b', 'ä', 'a b', '1', 'ａ'].map(foldedName)).size).toBe(6);
});
