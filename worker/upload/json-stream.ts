/**
 * Reads `{"filename": …, "data": …}` as it arrives. Nothing holds `data` whole: its base64 is decoded piece by piece. Members
 * may come in any order, with any white space and escapes that JSON (RFC 8259) allows; a member that comes twice, one of another
 * name, and a value that is not a string are refused, so there is no depth to bound.
 */
import { SealpinError } from '../../shared/errors.ts';
import { base64Decoder, type Base64Decoder } from './base64.ts';

/** A name in JSON, or a member's name, never needs more: 255 bytes, each written `\u00XX`, fit. */
const maxTextChars = 4096;

const space = new Set([' ', '\t', '\n', '\r']);

export type JsonUpload = {
  /** Takes the next bytes of the body, gives what `data` they decode to. */
  write(chunk: Uint8Array): Uint8Array[];
  /** Says that the body is at its end; gives the other member. */
  finish(): { filename: string | undefined };
};

type Place = 'start' | 'first' | 'name' | 'colon' | 'value' | 'next' | 'end' | 'in name' | 'in filename' | 'in data';

/**
 * @returns a reader that throws `invalid_json` (naming the offset in bytes) and `invalid_base64` (naming the character of `data`)
 */
export function jsonUpload(): JsonUpload {
  const seen = new Set<string>();
  let place: Place = 'start';
  let offset = 0;
  let text = '';
  let escape = '';
  let member = '';
  let filename: string | undefined;
  const base64: Base64Decoder = base64Decoder();

  /** Takes a string's characters up to its closing quote; gives the index after it, or the length when it goes on. */
  function takeText(piece: string, from: number): { next: number; closed: boolean } {
    let index = from;
    for (; index < piece.length; index += 1) {
      const char = piece[index]!;
      // The character after a backslash never closes the string.
      if (escape === '\\') escape = '';
      else if (char === '\\') escape = '\\';
      else if (char === '"') return { next: index + 1, closed: true };
      text += char;
      if (text.length > maxTextChars) throw wrong(offset + index, 'a name or filename is too long');
    }
    return { next: index, closed: false };
  }

  function takeData(piece: string, from: number, out: Uint8Array[]): { next: number; closed: boolean } {
    const quote = piece.indexOf('"', from);
    const end = quote === -1 ? piece.length : quote;
    const slash = escape === '' ? piece.indexOf('\\', from) : from;
    const plain = slash === -1 || slash >= end;
    const taken = plain
      ? { text: piece.slice(from, end), next: quote === -1 ? end : end + 1, closed: quote !== -1 }
      : undoEscapes(piece, from);
    const bytes = base64.write(taken.text);
    if (bytes.length > 0) out.push(bytes);
    if (taken.closed) base64.finish();
    return taken;
  }

  function undoEscapes(piece: string, from: number): { text: string; next: number; closed: boolean } {
    const parts: string[] = [];
    let index = from;
    while (index < piece.length) {
      if (escape !== '') {
        escape += piece[index]!;
        index += 1;
        if ((escape.length === 2 && escape !== '\\u') || escape.length === 6) {
          parts.push(undo(escape, index));
          escape = '';
        }
        continue;
      }
      const char = piece[index]!;
      if (char === '"') return { text: parts.join(''), next: index + 1, closed: true };
      if (char === '\\') {
        escape = '\\';
        index += 1;
        continue;
      }
      let end = index + 1;
      while (end < piece.length && piece[end] !== '\\' && piece[end] !== '"') end += 1;
      parts.push(piece.slice(index, end));
      index = end;
    }
    return { text: parts.join(''), next: index, closed: false };
  }

  function undo(sequence: string, index: number): string {
    try {
      return JSON.parse(`"${sequence}"`) as string;
    } catch (cause) {
      throw wrong(offset + index - sequence.length, 'this escape is not one of JSON’s', cause);
    }
  }

  function parseText(at: number): string {
    const bytes = Uint8Array.from(text, (char) => char.codePointAt(0)!);
    text = '';
    try {
      return JSON.parse(`"${new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)}"`) as string;
    } catch (cause) {
      throw wrong(at, 'this string is not valid JSON in UTF-8', cause);
    }
  }

  function step(char: string, at: number): void {
    const expect = (wanted: string, next: Place): void => {
      if (char !== wanted) throw wrong(at, `${wanted} was expected`);
      place = next;
    };
    if (space.has(char)) return;
    if (place === 'start') expect('{', 'first');
    else if (place === 'first') {
      if (char === '}') place = 'end';
      else expect('"', 'in name');
    } else if (place === 'name') expect('"', 'in name');
    else if (place === 'colon') expect(':', 'value');
    else if (place === 'value') {
      if (char !== '"') throw wrong(at, `${member} is not a string`);
      place = member === 'data' ? 'in data' : 'in filename';
    } else if (place === 'next') {
      if (char === ',') place = 'name';
      else if (char === '}') place = 'end';
      else throw wrong(at, ', or } was expected');
    } else throw wrong(at, 'nothing may follow the object');
  }

  function named(at: number): void {
    member = parseText(at);
    if (member !== 'filename' && member !== 'data') throw wrong(at, 'only filename and data are members here');
    if (seen.has(member)) throw wrong(at, `${member} comes twice`);
    seen.add(member);
    place = 'colon';
  }

  return {
    write(chunk) {
      const piece = charOfEachByte(chunk);
      const out: Uint8Array[] = [];
      let index = 0;
      while (index < piece.length) {
        if (place === 'in data') {
          const taken = takeData(piece, index, out);
          index = taken.next;
          if (taken.closed) place = 'next';
        } else if (place === 'in name' || place === 'in filename') {
          const start = index;
          const taken = takeText(piece, index);
          index = taken.next;
          if (!taken.closed) break;
          if (place === 'in name') named(offset + start);
          else {
            filename = parseText(offset + start);
            place = 'next';
          }
        } else {
          step(piece[index]!, offset + index);
          index += 1;
        }
      }
      offset += piece.length;
      return out;
    },
    finish() {
      if (place !== 'end') throw wrong(offset, 'the text ends before the object does');
      if (!seen.has('data')) throw new SealpinError('invalid_json', 'the member data is missing');
      return { filename };
    },
  };
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Bytes that become arguments of one call: far fewer than any engine takes. */
const callBytes = 8192;

/**
 * One character a byte, so that offsets stay true and the native searches run at full speed; UTF-8 is decoded where text is text.
 * ASCII, which base64 is, takes the native decoder. For the rest there is none: by the Encoding standard the label `latin1`
 * means windows-1252, which maps 0x80 to 0x9f elsewhere.
 */
function charOfEachByte(bytes: Uint8Array): string {
  try {
    const text = utf8.decode(bytes);
    if (text.length === bytes.length) return text;
  } catch {
    // Not UTF-8, or cut in the middle of a character: parseText reports it where it matters.
  }
  let text = '';
  for (let start = 0; start < bytes.length; start += callBytes)
    text += String.fromCharCode(...bytes.subarray(start, start + callBytes));
  return text;
}

function wrong(offset: number, why: string, cause?: unknown): SealpinError {
  return new SealpinError('invalid_json', `the body is not valid at byte ${offset}: ${why}`, { cause });
}
