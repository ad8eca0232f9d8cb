/**
 * The reader of JSON uploads against JSON.parse: both accept the same, and read the same. In
 * workerd, whose base64 it uses.
 */
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { isSealpinError } from '../../../shared/errors.ts';
import { long } from '../../../testkit/long-run.ts';
import { JsonUploadReader } from '../../upload/json-upload-reader.ts';

const documents = long ? 100_000 : 4_000;

type Read = { filename: string | undefined; data: string } | undefined;

/**
 * Returns what the reader makes of bytes that arrive in these pieces; undefined if it refuses them.
 */
function scanned(pieces: readonly Uint8Array[]): Read {
  const reader = new JsonUploadReader();
  const data: Uint8Array[] = [];
  try {
    for (const piece of pieces) data.push(...reader.write(piece));
    return { filename: reader.finish().filename, data: joined(data).toBase64() };
  } catch (error) {
    if (!isSealpinError(error, 'invalid_json') && !isSealpinError(error, 'invalid_base64')) throw error;
    return undefined;
  }
}

/**
 * The same by JSON.parse: an object of the two members, each at most once, both strings, `data` in
 * canonical base64.
 */
function parsed(bytes: Uint8Array): Read {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const members = value as Record<string, unknown>;
  if (Object.keys(members).some((name) => name !== 'filename' && name !== 'data')) return undefined;
  if (Object.values(members).some((each) => typeof each !== 'string')) return undefined;
  // Of duplicate members JSON.parse keeps the last; outside of strings each member has one colon.
  const colons = text.replaceAll(/"(?:[^"\\]|\\.)*"/gs, '').match(/:/g) ?? [];
  if (colons.length !== Object.keys(members).length) return undefined;
  const { filename, data } = members as { filename?: string; data?: string };
  return data === undefined || !isCanonical(data) ? undefined : { filename, data };
}

/** Tells whether text is base64 as an encoder writes it. */
function isCanonical(data: string): boolean {
  try {
    return btoa(atob(data)) === data;
  } catch {
    return false;
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

const space = fc.stringMatching(/^[ \t\r\n]{0,2}$/);
const character = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom('é', '€', '日', '😀', '“', '\u2028', '\ufeff', '\u0080', '\u009f', '\u00ff'),
  },
  { weight: 2, arbitrary: fc.constantFrom('"', '\\', '/', '\n', '\u0000', '\u001f', '\u007f', '{', '}', ',', ':') },
  { weight: 1, arbitrary: fc.constantFrom('\ud800', '\udfff') },
);

/** A string in JSON: each character as it is, or as one of its escapes. */
function written(text: string, choices: readonly number[]): string {
  const parts = Array.from(text, (char, index) => {
    const choice = choices[index % choices.length] ?? 0;
    const units = Array.from({ length: char.length }, (_, unit) => char.charCodeAt(unit).toString(16).padStart(4, '0'));
    if (choice === 0) return units.map((unit) => String.raw`\u${unit}`).join('');
    if (choice === 1) return units.map((unit) => String.raw`\u${unit.toUpperCase()}`).join('');
    if (choice === 2 && char === '/') return String.raw`\/`;
    return JSON.stringify(char).slice(1, -1);
  });
  return `"${parts.join('')}"`;
}

const choices = fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 8 });
const text = fc.array(character, { maxLength: 12 }).map((all) => all.join(''));
const base64 = fc.uint8Array({ maxLength: 24 }).map((bytes) => bytes.toBase64());
const member = fc
  .tuple(
    fc.oneof({ weight: 8, arbitrary: fc.constantFrom('filename', 'data') }, { weight: 1, arbitrary: text }),
    fc.oneof({ weight: 4, arbitrary: base64 }, { weight: 3, arbitrary: text }),
    choices,
    space,
  )
  .map(([name, value, how, gap]) => `${gap}${written(name, how)}${gap}:${gap}${written(value, how)}${gap}`);
const filename = fc.tuple(text, base64, choices, space, fc.boolean()).map(([name, data, how, gap, first]) => {
  const both = [`${gap}"filename":${gap}${written(name, how)}`, `"data"${gap}:${written(data, how)}${gap}`];
  return `${gap}{${(first ? both : both.toReversed()).join(',')}}${gap}`;
});
const objects = fc.oneof(
  { weight: 3, arbitrary: filename },
  { weight: 2, arbitrary: fc.array(member, { maxLength: 3 }).map((all) => `{${all.join(',')}}`) },
);

/** Something done to the bytes of a document: cut, changed or inserted at a place. */
const change = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  how: fc.constantFrom('none', 'none', 'none', 'set', 'insert', 'remove', 'end'),
  byte: fc.oneof(fc.nat({ max: 255 }), fc.constantFrom(0x22, 0x5c, 0x2c, 0x7d, 0xc3, 0xe2, 0xf0, 0xff)),
});

function changed(bytes: Uint8Array, { at, how, byte }: { at: number; how: string; byte: number }): Uint8Array {
  const place = Math.floor(at * bytes.length);
  const [before, after] = [bytes.subarray(0, place), bytes.subarray(place)];
  if (how === 'set') return joined([before, Uint8Array.of(byte), after.subarray(1)]);
  if (how === 'insert') return joined([before, Uint8Array.of(byte), after]);
  if (how === 'remove') return joined([before, after.subarray(1)]);
  return how === 'end' ? before : bytes;
}

it(`accepts what JSON.parse accepts, and reads the same, in ${documents} documents`, () => {
  const seen = { taken: 0, refused: 0, named: 0 };
  fc.assert(
    fc.property(objects, change, fc.array(fc.nat({ max: 40 }), { maxLength: 6 }), (document, what, cuts) => {
      const bytes = changed(new TextEncoder().encode(document), what);
      const pieces: Uint8Array[] = [];
      let rest = bytes;
      for (const cut of cuts) {
        pieces.push(rest.subarray(0, cut));
        rest = rest.subarray(cut);
      }
      const wanted = parsed(bytes);
      expect(scanned([...pieces, rest])).toEqual(wanted);
      if (wanted === undefined) seen.refused += 1;
      else seen.taken += 1;
      if (/[^\0-\u007f]/.test(wanted?.filename ?? '')) seen.named += 1;
    }),
    { numRuns: documents },
  );
  // Neither side of the comparison may be empty.
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(documents / 20);
});
