/**
 * Reads `{"filename": …, "data": …}` while it arrives. `data` is never held whole: its base64 is
 * decoded piece by piece. Members may come in any order, with any white space and escapes that JSON
 * (RFC 8259) allows. A duplicate or unknown member and a value that is not a string are refused, so
 * nesting needs no bound.
 */
import { SealpinError } from '../../shared/errors.ts';
import { base64Decoder } from './base64.ts';

/**
 * The longest name of a member, or `filename`, in characters as written: 255 bytes fit, each
 * written `\u00XX`.
 */
const maxTextChars = 4096;

const isSpace = new Set([' ', '\t', '\n', '\r']);

/** State of a reader between strings, and inside each kind of string. */
type Between = 'start' | 'first' | 'name' | 'colon' | 'value' | 'next' | 'end';
type Inside = 'in name' | 'in filename' | 'in data';
type ParserState = Between | Inside;

/** The characters between strings, each with the next state; `value` depends on the member. */
const transitions: Record<Exclude<Between, 'value'>, { next: Record<string, ParserState>; expected: string }> = {
  start: { next: { '{': 'first' }, expected: '{ was expected' },
  first: { next: { '"': 'in name', '}': 'end' }, expected: '" was expected' },
  name: { next: { '"': 'in name' }, expected: '" was expected' },
  colon: { next: { ':': 'value' }, expected: ': was expected' },
  next: { next: { ',': 'name', '}': 'end' }, expected: ', or } was expected' },
  end: { next: {}, expected: 'nothing may follow the object' },
};

/** A part of a string: the index after it, and whether its closing quote came. */
type Taken = { next: number; closed: boolean };

/**
 * A reader of one body. It throws `invalid_json`, naming the offset in bytes, and `invalid_base64`,
 * naming the character of `data`.
 */
export class JsonUploadReader {
  readonly #seen = new Set<string>();
  readonly #text = new TextString();
  readonly #data = new DataString();
  #state: ParserState = 'start';
  /** Bytes of the body before the current piece. */
  #offset = 0;
  /** The member whose value comes next. */
  #member = '';
  #filename: string | undefined;

  /** Takes the next bytes of the body. @returns the bytes of `data` in them, decoded, in order */
  write(chunk: Uint8Array): Uint8Array[] {
    const piece = charOfEachByte(chunk);
    const decoded: Uint8Array[] = [];
    let index = 0;
    while (index < piece.length) index = this.#step(piece, index, decoded);
    this.#offset += piece.length;
    return decoded;
  }

  /** Checks that the body is complete. @returns the other member, if it came */
  finish(): { filename: string | undefined } {
    if (this.#state !== 'end') throw invalidJson(this.#offset, 'the text ends before the object does');
    if (!this.#seen.has('data')) throw new SealpinError('invalid_json', 'the member data is missing');
    return { filename: this.#filename };
  }

  /**
   * Reads one character between strings, or as much of a string as the piece has.
   * @returns the index after it
   */
  #step(piece: string, index: number, decoded: Uint8Array[]): number {
    const at = this.#offset + index;
    if (this.#state === 'in data') {
      const { next, closed } = this.#data.take(piece, index, this.#offset, decoded);
      if (closed) this.#state = 'next';
      return next;
    }
    if (this.#state === 'in name' || this.#state === 'in filename') {
      const { next, closed } = this.#text.take(piece, index, this.#offset);
      if (closed) this.#endText(this.#state, this.#text.parse(at), at);
      return next;
    }
    const char = piece.charAt(index);
    if (!isSpace.has(char)) this.#state = this.#between(this.#state, char, at);
    return index + 1;
  }

  #between(state: Between, char: string, at: number): ParserState {
    if (state === 'value') {
      if (char !== '"') throw invalidJson(at, `${this.#member} is not a string`);
      return this.#member === 'data' ? 'in data' : 'in filename';
    }
    const { next, expected } = transitions[state];
    const following = next[char];
    if (following === undefined) throw invalidJson(at, expected);
    return following;
  }

  #endText(state: 'in name' | 'in filename', text: string, at: number): void {
    if (state === 'in filename') {
      this.#filename = text;
      this.#state = 'next';
      return;
    }
    if (text !== 'filename' && text !== 'data') throw invalidJson(at, 'only filename and data are members here');
    if (this.#seen.has(text)) throw invalidJson(at, `${text} comes twice`);
    this.#seen.add(text);
    this.#member = text;
    this.#state = 'colon';
  }
}

/** A short string, which is collected as it is written and parsed when it is closed. */
class TextString {
  #written = '';
  #isEscaped = false;

  take(piece: string, from: number, offset: number): Taken {
    for (let index = from; index < piece.length; index += 1) {
      const char = piece.charAt(index);
      // The character after a backslash never closes the string.
      if (this.#isEscaped) this.#isEscaped = false;
      else if (char === '\\') this.#isEscaped = true;
      else if (char === '"') return { next: index + 1, closed: true };
      this.#written += char;
      if (this.#written.length > maxTextChars) throw invalidJson(offset + index, 'a name or filename is too long');
    }
    return { next: piece.length, closed: false };
  }

  /** Parses what was collected, and starts over. @param at the offset that an error names */
  parse(at: number): string {
    const bytes = Uint8Array.from(this.#written, (char) => char.charCodeAt(0));
    this.#written = '';
    try {
      return JSON.parse(`"${utf8.decode(bytes)}"`) as string;
    } catch (cause) {
      throw invalidJson(at, 'this string is not valid JSON in UTF-8', cause);
    }
  }
}

/** The string of base64, of which only an escape that crosses pieces is kept. */
class DataString {
  readonly #base64 = base64Decoder();
  /** The characters of an escape that is not complete. */
  #escape = '';

  take(piece: string, from: number, offset: number, decoded: Uint8Array[]): Taken {
    const quote = piece.indexOf('"', from);
    const end = quote === -1 ? piece.length : quote;
    const slash = this.#escape === '' ? piece.indexOf('\\', from) : from;
    const isPlain = slash === -1 || slash >= end;
    const taken = isPlain
      ? { text: piece.slice(from, end), next: quote === -1 ? end : end + 1, closed: quote !== -1 }
      : this.#unescape(piece, from, offset);
    const bytes = this.#base64.write(taken.text);
    if (bytes.length > 0) decoded.push(bytes);
    if (taken.closed) this.#base64.finish();
    return taken;
  }

  #unescape(piece: string, from: number, offset: number): Taken & { text: string } {
    const parts: string[] = [];
    let index = from;
    while (index < piece.length) {
      const char = piece.charAt(index);
      if (this.#escape !== '' || char === '\\') {
        this.#escape += char;
        index += 1;
        if (isComplete(this.#escape)) {
          parts.push(unescape(this.#escape, offset + index - this.#escape.length));
          this.#escape = '';
        }
      } else if (char === '"') {
        return { text: parts.join(''), next: index + 1, closed: true };
      } else {
        let end = index + 1;
        while (end < piece.length && piece[end] !== '\\' && piece[end] !== '"') end += 1;
        parts.push(piece.slice(index, end));
        index = end;
      }
    }
    return { text: parts.join(''), next: index, closed: false };
  }
}

/** Tells whether an escape has all of its characters: two, or six of `\uXXXX`. */
function isComplete(escape: string): boolean {
  return escape.length === 6 || (escape.length === 2 && escape !== '\\u');
}

function unescape(escape: string, at: number): string {
  try {
    return JSON.parse(`"${escape}"`) as string;
  } catch (cause) {
    throw invalidJson(at, 'this escape is not one of JSON’s', cause);
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Bytes that become arguments of one call: far fewer than any engine takes. */
const callBytes = 8192;

/**
 * One character a byte, so that offsets stay true and the native searches run at full speed; UTF-8
 * is decoded only in text strings. ASCII, which base64 is, takes the native decoder. For the rest
 * there is none: by the Encoding standard the label `latin1` means windows-1252, which maps 0x80 to
 * 0x9f elsewhere.
 */
function charOfEachByte(bytes: Uint8Array): string {
  try {
    const text = utf8.decode(bytes);
    if (text.length === bytes.length) return text;
  } catch {
    // Not UTF-8, or cut in the middle of a character: TextString reports it where it matters.
  }
  let text = '';
  for (let start = 0; start < bytes.length; start += callBytes)
    text += String.fromCharCode(...bytes.subarray(start, start + callBytes));
  return text;
}

function invalidJson(offset: number, why: string, cause?: unknown): SealpinError {
  return new SealpinError('invalid_json', `the body is not valid at byte ${offset}: ${why}`, { cause });
}
