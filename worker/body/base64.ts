/** Base64 as it streams by, checked strictly. */
import { SealpinError } from '../../shared/errors.ts';

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
      if (padded && all !== '') throw wrong(offset, 'nothing may follow the padding');
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
  if (padded) throw wrong(offset, 'nothing may follow the padding');
  for (let index = 0; index < rest.length; index += 1) {
    if (!isAlphabet.test(rest[index]!) && !(rest[index] === '=' && index >= 2)) throw wrong(offset + index);
  }
}

function firstWrong(quads: string, offset: number, cause?: unknown): SealpinError {
  const end = quads.endsWith('==') ? quads.length - 2 : quads.endsWith('=') ? quads.length - 1 : quads.length;
  for (let index = 0; index < end; index += 1) {
    if (!isAlphabet.test(quads[index]!)) return wrong(offset + index, undefined, cause);
  }
  return wrong(offset + end - 1, 'the unused bits of the last character are not zero', cause);
}

function wrong(offset: number, why = 'it is not a character of base64', cause?: unknown): SealpinError {
  return new SealpinError('invalid_base64', `data is not valid at character ${offset}: ${why}`, {
    hint: 'use standard base64 (RFC 4648 section 4) with padding and without line breaks',
    cause,
  });
}
