/**
 * The header grammar of age v1 (C2SP age.md, "Encrypted file format"), which `sealpin/v1` shares: a version line, stanzas, and a
 * line with the MAC.
 */
import { SealpinError } from '../errors.ts';
import { decodeBase64, encodeBase64, fromUtf8, streamOf, utf8 } from './bytes.ts';
import { concat } from '../streams/concat.ts';
import { ByteSource } from '../streams/byte-source.ts';
import type { Stanza } from './formats/format-row.ts';

/** The longest header that is read. */
export const maxHeaderBytes = 1024 * 1024;
/** The most stanzas that a header may have. */
const maxStanzas = 1024;
/** Width of a full line of a stanza's body (C2SP age.md). */
const columns = 64;
const macBytes = 32;

/** The last line after what the MAC is over: a space, 43 characters and a line feed. */
const macLineBytes = 45;

/** Returns the size of a header. */
export function headerBytes(header: Header): number {
  return header.macInput.length + macLineBytes;
}

/** A header: its stanzas, its MAC and the bytes that the MAC is over. */
export type Header = { stanzas: readonly Stanza[]; mac: Uint8Array; macInput: Uint8Array };

function invalid(detail: string): SealpinError {
  return new SealpinError('header_invalid', detail);
}

/**
 * Encodes the part of a header that the MAC is over: everything up to and including `---`, without the space after it.
 * @throws SealpinError `invalid_request` for more than 1,024 stanzas or 1 MiB
 */
export function macInput(version: string, stanzas: readonly Stanza[]): Uint8Array {
  if (stanzas.length > maxStanzas)
    throw new SealpinError('invalid_request', `A container takes at most ${maxStanzas} recipients`);
  const bytes = utf8(`${version}\n${stanzas.map(encodeStanza).join('')}---`);
  if (bytes.length > maxHeaderBytes - macLineBytes)
    throw new SealpinError('invalid_request', 'The recipients need a header larger than 1 MiB');
  return bytes;
}

function encodeStanza({ args, body }: Stanza): string {
  const text = encodeBase64(body);
  let lines = `-> ${args.join(' ')}\n`;
  // A body that fills its last line is followed by an empty one.
  for (let offset = 0; offset <= text.length; offset += columns) lines += `${text.slice(offset, offset + columns)}\n`;
  return lines;
}

/** Encodes a whole header. @param input of the MAC, from `macInput` */
export function encodeHeader(input: Uint8Array, mac: Uint8Array): Uint8Array {
  return concat(input, utf8(` ${encodeBase64(mac)}\n`));
}

/**
 * Reads a header, strictly; throws `header_invalid`.
 * @param source begins with the version line, which the caller has recognized
 * @param version the line, without its line feed
 */
export async function readHeader(source: ByteSource, version: string): Promise<Header> {
  const raw: Uint8Array[] = [];
  let left = maxHeaderBytes;
  const line = async (): Promise<string> => {
    const bytes = await source.line(left - 1, 'The header is larger than 1 MiB');
    if (bytes === undefined) throw invalid('The header ends early');
    left -= bytes.length + 1;
    raw.push(bytes, newline);
    return fromUtf8(bytes);
  };
  if ((await line()) !== version) throw invalid('The header has no version line');
  const stanzas: Stanza[] = [];
  for (;;) {
    const text = await line();
    if (text.startsWith('---')) {
      if (stanzas.length === 0) throw invalid('The header has no recipient');
      const mac = text.startsWith('--- ') ? decodeBase64(text.slice(4)) : undefined;
      if (mac?.length !== macBytes) throw invalid('The last line of the header is malformed');
      raw.splice(-2, 2, utf8('---'));
      return { stanzas, mac, macInput: concat(...raw) };
    }
    if (stanzas.length === maxStanzas) throw invalid(`The header has more than ${maxStanzas} recipients`);
    if (!/^->(?: [!-~]+)+$/.test(text)) throw invalid('A line of the header is malformed');
    stanzas.push({ args: text.slice(3).split(' '), body: await readBody(line) });
  }
}

/** Reads a header that has nothing after it; throws `header_invalid`. */
export async function readWholeHeader(bytes: Uint8Array, version: string): Promise<Header> {
  const source = new ByteSource(streamOf(bytes));
  const header = await readHeader(source, version);
  await source.fill(1);
  if (source.length > 0) throw invalid('The header has something after its end');
  return header;
}

async function readBody(line: () => Promise<string>): Promise<Uint8Array> {
  let text = '';
  for (;;) {
    const next = await line();
    if (next.length > columns) throw invalid('A line of the header is too long');
    text += next;
    if (next.length < columns) break;
  }
  const body = decodeBase64(text);
  if (body === undefined) throw invalid('The header has base64 that is not canonical');
  return body;
}

const newline = utf8('\n');
