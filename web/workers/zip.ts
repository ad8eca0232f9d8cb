/**
 * ZIP archives (APPNOTE 6.3.10), stored: one pass, a length that is known before it, and ZIP64
 * where a number needs it. The central directory comes after the last byte of the last file, so
 * that what broke off is no archive.
 */

import { foldedName, maxNameBytes } from '../../shared/filename.ts';
import { concat } from '../../shared/streams/concat.ts';

/** A file of an archive. `name` with `/` between folders; `read` gives exactly `size` bytes. */
export type ZipEntry = {
  readonly name: string;
  readonly size: number;
  readonly modified?: Date | undefined;
  read(): AsyncIterable<Uint8Array>;
};

type About = Omit<ZipEntry, 'read'>;

/** From here on a number takes 8 bytes elsewhere (section 4.4.1.4). */
const max32 = 0xffff_ffff;
const max16 = 0xffff;
/** Sizes follow the bytes (bit 3), and names are UTF-8 (bit 11). */
const flags = 0x0808;

/** A little-endian record of numbers: each with its width in bytes. */
function packed(...fields: readonly (readonly [2 | 4 | 8, number])[]): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [width]) => sum + width, 0)));
  let at = 0;
  for (const [width, value] of fields) {
    if (width === 2) view.setUint16(at, value, true);
    else if (width === 4) view.setUint32(at, value, true);
    else view.setBigUint64(at, BigInt(value), true);
    at += width;
  }
  return new Uint8Array(view.buffer);
}

/** Fields of a local header and of one in the central directory that are the same. */
function commonFields(entry: About, is64: boolean) {
  const date = entry.modified ?? new Date();
  const year = Math.min(Math.max(date.getFullYear(), 1980), 2107);
  return [
    [2, is64 ? 45 : 20],
    [2, flags],
    [2, 0],
    [2, (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1)],
    [2, ((year - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate()],
  ] as const;
}

/** The header before a file. One of a large file says so, because its sizes then take 8 bytes. */
function localHeader(entry: About, name: Uint8Array): Uint8Array<ArrayBuffer> {
  const is64 = entry.size >= max32;
  const size = is64 ? max32 : 0;
  // The sizes are those behind the file; these places say how wide they are.
  const extra = is64 ? extraOf([0, 0]) : none;
  const header = packed(
    [4, 0x0403_4b50],
    ...commonFields(entry, is64),
    [4, 0],
    [4, size],
    [4, size],
    [2, name.length],
    [2, extra.length],
  );
  return concat(header, name, extra);
}

const none = new Uint8Array();

/** The extra field of ZIP64 (section 4.5.3): the numbers that have no room in the header. */
function extraOf(numbers: readonly number[]): Uint8Array<ArrayBuffer> {
  if (numbers.length === 0) return none;
  return packed([2, 1], [2, 8 * numbers.length], ...numbers.map((each) => [8, each] as const));
}

function descriptor(crc: number, size: number): Uint8Array<ArrayBuffer> {
  const width = size >= max32 ? 8 : 4;
  return packed([4, 0x0807_4b50], [4, crc], [width, size], [width, size]);
}

/** An entry of the central directory. @param offset of its local header */
function centralHeader(entry: About, name: Uint8Array, offset: number, crc: number): Uint8Array<ArrayBuffer> {
  const extra = extraOf([
    ...(entry.size >= max32 ? [entry.size, entry.size] : []),
    ...(offset >= max32 ? [offset] : []),
  ]);
  const size = Math.min(entry.size, max32);
  const header = packed(
    [4, 0x0201_4b50],
    [2, 0x031e], // made on Unix, so that the attributes are a file's mode
    ...commonFields(entry, extra.length > 0),
    [4, crc],
    [4, size],
    [4, size],
    [2, name.length],
    [2, extra.length],
    [2, 0],
    [2, 0],
    [2, 0],
    [4, 0o100644 * 0x1_0000],
    [4, Math.min(offset, max32)],
  );
  return concat(header, name, extra);
}

/** The end of an archive: how many entries, and where their directory is. */
function endRecords(count: number, offset: number, bytes: number): Uint8Array<ArrayBuffer> {
  const is64 = count >= max16 || offset >= max32 || bytes >= max32;
  const records64 = [
    [4, 0x0606_4b50], [8, 44], [2, 0x031e], [2, 45], [4, 0], [4, 0], [8, count], [8, count], [8, bytes], [8, offset],
    [4, 0x0706_4b50], [4, 0], [8, offset + bytes], [4, 1],
  ] as const; // prettier-ignore
  const shownCount = Math.min(count, max16);
  return packed(
    ...(is64 ? records64 : []),
    [4, 0x0605_4b50],
    [2, 0],
    [2, 0],
    [2, shownCount],
    [2, shownCount],
    [4, Math.min(bytes, max32)],
    [4, Math.min(offset, max32)],
    [2, 0],
  );
}

/** Bytes of an archive of these files. */
export function zipBytes(entries: readonly About[]): number {
  let offset = 0;
  let directory = 0;
  for (const entry of entries) {
    const name = new TextEncoder().encode(entry.name);
    directory += centralHeader(entry, name, offset, 0).length;
    offset += localHeader(entry, name).length + entry.size + descriptor(0, entry.size).length;
  }
  return offset + directory + endRecords(entries.length, offset, directory).length;
}

/**
 * An archive, piece by piece. What an entry reads is handed on as it is.
 * @throws what reading throws, TypeError for an entry that has another size
 */
export async function* zipped(entries: readonly ZipEntry[]): AsyncGenerator<Uint8Array> {
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const entry of entries) {
    const name = new TextEncoder().encode(entry.name);
    const header = localHeader(entry, name);
    yield header;
    let size = 0;
    let crc = 0;
    for await (const chunk of entry.read()) {
      crc = crc32(chunk, crc);
      size += chunk.length;
      yield chunk;
    }
    if (size !== entry.size) throw new TypeError('a file has another size than announced');
    directory.push(centralHeader(entry, name, offset, crc));
    const after = descriptor(crc, size);
    yield after;
    offset += header.length + size + after.length;
  }
  yield* directory;
  const bytes = directory.reduce((sum, { length }) => sum + length, 0);
  yield endRecords(entries.length, offset, bytes);
}

/** CRC-32 (ISO/IEC 13239, reversed) of a byte and 0 to 3 zeros, so that 4 bytes take one step. */
const crcTables = new Int32Array(4 * 256);
for (let at = 0; at < crcTables.length; at += 1) {
  let crc = at < 256 ? at : (crcTables[at - 256] as number);
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb8_8320 : crc >>> 1;
  crcTables[at] = crc;
}

/** CRC-32 of bytes after others. */
function crc32({ buffer, byteOffset, byteLength }: Uint8Array, before: number): number {
  const view = new DataView(buffer, byteOffset, byteLength);
  const table = (step: number, byte: number): number => crcTables[step * 256 + (byte & 0xff)] as number;
  let crc = ~before;
  let at = 0;
  for (; at + 4 <= byteLength; at += 4) {
    crc ^= view.getUint32(at, true);
    crc = table(3, crc) ^ table(2, crc >>> 8) ^ table(1, crc >>> 16) ^ table(0, crc >>> 24);
  }
  for (; at < byteLength; at += 1) crc = (crc >>> 8) ^ table(0, crc ^ view.getUint8(at));
  return ~crc >>> 0;
}

/** Names that Windows gives to devices, with any extension. */
const devices = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

/**
 * Names for a folder on any system: without what Windows refuses, none too long, and none twice,
 * also for systems that do not tell cases or spellings of a letter apart.
 */
export function safeNames(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    const parts = name
      .split('/')
      .map((each) => each.replace(/[<>:"|?*\\]/g, '_').replace(/^\.{1,2}$|[. ]$/, '_'))
      .map((each) => fitted(devices.test(each) || each === '' ? `_${each}` : each));
    const last = parts.pop() ?? '';
    const named = (mark?: string): string => [...parts, fitted(last, mark)].join('/');
    let free = named();
    for (let count = 2; taken.has(foldedName(free)); count += 1) free = named(` (${count})`);
    taken.add(foldedName(free));
    return free;
  });
}

/** A name with a mark before its extension. What makes it too long for a disk goes before that. */
function fitted(name: string, mark = ''): string {
  const [, stem = name, extension = ''] = /^(.+)(\.[^.]{0,16})$/.exec(name) ?? [];
  const kept = Array.from(stem);
  const whole = (): string => kept.join('') + mark + extension;
  while (new TextEncoder().encode(whole()).length > maxNameBytes) kept.pop();
  return whole().replace(/[. ]$/, '_');
}
