/**
 * The header grammar of age v1 (C2SP age.md, "Encrypted file format"), which `sealpin/v1` shares: a
 * version line, stanzas, and a line with the MAC.
 */
import { SealpinError } from '../errors.ts';
import { decodeBase64, encodeBase64, fromUtf8, utf8 } from './bytes.ts';
import { concat } from '../streams/concat.ts';
import type { ByteSource } from '../streams/byte-source.ts';
import type { Stanza } from './formats/format-row.ts';

/** The longest header that is read. */
export const maxHeaderBytes = 1024 * 1024;
/** The most stanzas that a header may have. */
const maxStanzas = 1024;
/** Width of a full line of a stanza's body (C2SP age.md). */
const headerColumns = 64;
const macBytes = 32;

/** The last line after what the MAC is over: a space, 43 characters and a line feed. */
const macLineBytes = 45;

/** Returns the size of a header. */
export function headerBytes(header: Header): number {
  return header.macInput.length + macLineBytes;
}

/** A header: its stanzas, its MAC and the bytes that the MAC is over. */
export type Header = { stanzas: readonly Stanza[]; mac: Uint8Array; macInput: Uint8Array };

function invalidHeader(detail: string, hint?: string): SealpinError {
  return new SealpinError('header_invalid', detail, { hint });
}

/**
 * Encodes the part of a header that the MAC is over: everything up to and including `---`, without
 * the space after it.
 * @throws SealpinError `invalid_request` for more than 1,024 stanzas or 1 MiB
 */
export function macInput(version: string, stanzas: readonly Stanza[]): Uint8Array {
  if (stanzas.length > maxStanzas)
    throw new SealpinError('invalid_request', `a container takes at most ${maxStanzas} recipients`);
  const bytes = utf8(`${version}\n${stanzas.map(encodeStanza).join('')}---`);
  if (bytes.length > maxHeaderBytes - macLineBytes)
    throw new SealpinError('invalid_request', 'the recipients need a header larger than 1 MiB');
  return bytes;
}

function encodeStanza({ args, body }: Stanza): string {
  const text = encodeBase64(body);
  let lines = `-> ${args.join(' ')}\n`;
  // A body that fills its last line is followed by an empty one.
  for (let offset = 0; offset <= text.length; offset += headerColumns)
    lines += `${text.slice(offset, offset + headerColumns)}\n`;
  return lines;
}

/** Encodes a whole header. @param input of the MAC, from `macInput` */
export function encodeHeader(input: Uint8Array, mac: Uint8Array): Uint8Array {
  return concat(input, utf8(` ${encodeBase64(mac)}\n`));
}

/** Asks for a line of at most so many bytes, and gets it without line feed; undefined: none. */
type Asking<T> = Generator<number, T, Uint8Array | undefined>;

/** Parses a header from lines, strictly; throws `header_invalid`. */
function* parse(version: string): Asking<Header> {
  const raw: Uint8Array[] = [];
  let left = maxHeaderBytes;
  function* line(): Asking<string> {
    const bytes = yield left - 1;
    if (bytes === undefined) throw invalidHeader('the header ends early', 'the file is cut off: get it again');
    left -= bytes.length + 1;
    raw.push(bytes, newline);
    return fromUtf8(bytes);
  }
  if ((yield* line()) !== version) throw invalidHeader('the header has no version line');
  const stanzas: Stanza[] = [];
  for (;;) {
    const text = yield* line();
    if (text.startsWith('---')) {
      if (stanzas.length === 0) throw invalidHeader('the header has no recipient');
      const mac = text.startsWith('--- ') ? decodeBase64(text.slice(4)) : undefined;
      if (mac?.length !== macBytes) throw invalidHeader('the last line of the header is malformed');
      raw.splice(-2, 2, utf8('---'));
      return { stanzas, mac, macInput: concat(...raw) };
    }
    if (stanzas.length === maxStanzas) throw invalidHeader(`the header has more than ${maxStanzas} recipients`);
    if (!/^->(?: [!-~]+)+$/.test(text)) throw invalidHeader('a line of the header is malformed');
    stanzas.push({ args: text.slice(3).split(' '), body: yield* parseBody(line) });
  }
}

/**
 * Reads a header, strictly; throws `header_invalid`.
 * @param source begins with the version line, which the caller has recognized
 * @param version the line, without its line feed
 */
export async function readHeader(source: ByteSource, version: string): Promise<Header> {
  const parser = parse(version);
  let step = parser.next();
  while (step.done !== true) step = parser.next(await source.line(step.value, tooLong));
  return step.value;
}

/**
 * Reads a header that has nothing after it, without a stream, which would take longer than the
 * rest; throws `header_invalid`.
 */
export function readWholeHeader(bytes: Uint8Array, version: string): Header {
  const parser = parse(version);
  let position = 0;
  function line(limitBytes: number): Uint8Array | undefined {
    const end = bytes.indexOf(lineFeed, position);
    if ((end < 0 ? bytes.length : end) - position > limitBytes) throw invalidHeader(tooLong);
    if (end < 0) return undefined;
    const found = bytes.subarray(position, end);
    position = end + 1;
    return found;
  }
  let step = parser.next();
  while (step.done !== true) step = parser.next(line(step.value));
  if (position < bytes.length) throw invalidHeader('the header has something after its end');
  return step.value;
}

function* parseBody(line: () => Asking<string>): Asking<Uint8Array> {
  let text = '';
  for (;;) {
    const next = yield* line();
    if (next.length > headerColumns) throw invalidHeader('a line of the header is too long');
    text += next;
    if (next.length < headerColumns) break;
  }
  const body = decodeBase64(text);
  if (body === undefined) throw invalidHeader('the header has base64 that is not canonical');
  return body;
}

const lineFeed = 0x0a;
const newline = Uint8Array.of(lineFeed);
const tooLong = 'the header is larger than 1 MiB';
