/** Base64 decoded in pieces, and checked strictly. */
import { SealpinError } from '../../shared/errors.ts';

const afterPadding = 'nothing may follow the padding';
const isAlphabet = /[A-Za-z0-9+/]/;

/**
 * Decodes standard base64 (RFC 4648 section 4) with padding, without white space, and only in
 * canonical form: unused bits are zero. The native decoder skips white space, which shows in the
 * length of its output.
 * @returns a decoder of one text that arrives in pieces, which throws `invalid_base64`, naming the
 * offset in characters of the first one that is wrong
 */
export function base64Decoder() {
  let rest = '';
  let offset = 0; // of the first character of `rest`
  let padded = false;

  /** Decodes whole groups of four into `bytes`. @returns how many bytes that made */
  function decode(groups: string, bytes: Uint8Array): number {
    if (groups === '') return 0;
    if (padded) throw wrong(offset, afterPadding);
    let written: number;
    try {
      ({ written } = bytes.setFromBase64(groups, { lastChunkHandling: 'strict' }));
    } catch (cause) {
      throw firstWrong(groups, offset, cause);
    }
    const padding = groups.endsWith('==') ? 2 : groups.endsWith('=') ? 1 : 0;
    if (written !== (groups.length / 4) * 3 - padding) throw firstWrong(groups, offset);
    padded = padding > 0;
    offset += groups.length;
    return written;
  }

  return {
    /** Decodes the whole groups of four so far. `text` holds one character a byte (latin1). */
    write(text: string): Uint8Array {
      // A group that two pieces share is decoded by itself: to join the pieces would copy all of
      // the second.
      const needed = rest === '' ? 0 : Math.min(4 - rest.length, text.length);
      const shared = rest + text.slice(0, needed);
      const head = shared.length === 4 ? shared : '';
      const whole = text.length - needed - ((text.length - needed) % 4);
      const bytes = new Uint8Array(((head.length + whole) / 4) * 3);
      const first = decode(head, bytes.subarray(0, head === '' ? 0 : 3));
      const body = decode(text.slice(needed, needed + whole), bytes.subarray(first));
      rest = head === '' ? shared : '';
      rest += text.slice(needed + whole);
      if (rest !== '') check(rest, offset, padded);
      return first + body === bytes.length ? bytes : bytes.subarray(0, first + body);
    },
    /** Checks that the text may end here. */
    finish(): void {
      if (rest !== '') throw wrong(offset + rest.length, 'the text ends in the middle of a group of four');
    },
  };
}

/** Refuses a tail of one to three characters that cannot become a group of four. */
function check(rest: string, offset: number, padded: boolean): void {
  if (padded) throw wrong(offset, afterPadding);
  for (let index = 0; index < rest.length; index += 1) {
    const char = rest.charAt(index);
    if (!isAlphabet.test(char) && !(char === '=' && index >= 2)) throw wrong(offset + index);
  }
}

function firstWrong(quads: string, offset: number, cause?: unknown): SealpinError {
  for (let index = 0; index < quads.length; index += 1) {
    if (isAlphabet.test(quads.charAt(index))) continue;
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
