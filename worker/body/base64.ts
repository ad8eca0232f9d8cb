/** Base64 as it streams by, checked strictly. */
import { SealpinError } from '../../shared/errors.ts';

const afterPadding = 'nothing may follow the padding';
const isAlphabet = /[A-Za-z0-9+/]/;

/** A decoder of one base64 text that arrives in pieces. */
export type Base64Decoder = {
  /** Decodes as much as is whole. `text` holds one character a byte (latin1). */
  write(text: string): Uint8Array;
  /** Says that the text is at its end. */
  finish(): void;
};

/**
 * Decodes standard base64 (RFC 4648 section 4) with padding, without white space, and only as an encoder writes it: unused
 * bits are zero. The native decoder skips white space, which shows in the length of what it gives.
 * @returns a decoder that throws `invalid_base64`, naming the offset in characters of the first one that is wrong
 */
export function base64Decoder(): Base64Decoder {
  let rest = '';
  let offset = 0; // of the first character of `rest`
  let padded = false;
  return {
    write(text) {
      const all = rest === '' ? text : rest + text;
      if (padded && all !== '') throw wrong(offset, afterPadding);
      const whole = all.length - (all.length % 4);
      const quads = whole === all.length ? all : all.slice(0, whole);
      const bytes = decode(quads, offset);
      padded = quads.endsWith('=');
      rest = whole === all.length ? '' : all.slice(whole);
      offset += whole;
      if (rest !== '') check(rest, offset, padded);
      return bytes;
    },
    finish() {
      if (rest !== '') throw wrong(offset + rest.length, 'the text ends in the middle of a group of four');
    },
  };
}

function decode(quads: string, offset: number): Uint8Array {
  if (quads === '') return new Uint8Array(0);
  const bytes = new Uint8Array((quads.length / 4) * 3);
  let written: number;
  try {
    written = bytes.setFromBase64(quads, { lastChunkHandling: 'strict' }).written;
  } catch (cause) {
    throw firstWrong(quads, offset, cause);
  }
  const padding = quads.endsWith('==') ? 2 : quads.endsWith('=') ? 1 : 0;
  if (written !== bytes.length - padding) throw firstWrong(quads, offset);
  return padding === 0 ? bytes : bytes.subarray(0, written);
}

/** Refuses a tail of one to three characters that cannot become a group of four. */
function check(rest: string, offset: number, padded: boolean): void {
  if (padded) throw wrong(offset, afterPadding);
  for (let index = 0; index < rest.length; index += 1) {
    if (!isAlphabet.test(rest[index]!) && !(rest[index] === '=' && index >= 2)) throw wrong(offset + index);
  }
}

function firstWrong(quads: string, offset: number, cause?: unknown): SealpinError {
  for (let index = 0; index < quads.length; index += 1) {
    if (isAlphabet.test(quads[index]!)) continue;
    const place = index % 4;
    const isPadding = place >= 2 && quads.slice(index, index + 4 - place) === '='.repeat(4 - place);
    if (!isPadding) return wrong(offset + index, undefined, cause);
    const next = index + 4 - place;
    if (next < quads.length) return wrong(offset + next, afterPadding, cause);
    return wrong(offset + index - 1, 'its unused bits are not zero', cause);
  }
  return wrong(offset, undefined, cause);
}

function wrong(offset: number, why = 'it is not a character of base64', cause?: unknown): SealpinError {
  return new SealpinError('invalid_base64', `data is not valid at character ${offset}: ${why}`, {
    hint: 'use standard base64 (RFC 4648 section 4) with padding and without line breaks',
    cause,
  });
}
