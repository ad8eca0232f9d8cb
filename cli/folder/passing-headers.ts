/**
 * Headers of a tar archive on their way to the parser, which takes an unknown kind of entry for a
 * file, and refuses numbers that GNU tar and Python write.
 */
import { blockBytes, padded } from './tar-header.ts';

const flagAt = 156;
const checksum = { at: 148, bytes: 8 };
const size = { at: 124, bytes: 12 };
const time = { at: 136, bytes: 12 };
/** Numbers that an archive is read without: owner, group and time. */
const dispensable = [{ at: 108, bytes: 8 }, { at: 116, bytes: 8 }, time];

/** Flags of files ("7": contiguous), links, devices, directories, pipes (POSIX.1-2024, pax). */
const known = '0\u{0}7123456';
/** Flags of entries without content, whatever their header says. */
const empty = '123456';
/** Flags of what describes the next entry: "x" may have its length. */
const describing = 'xgLK';
/** Of the length of a record, with its space. */
const maxDigits = 20;
/** Longer records are refused by the parser. */
const maxRecordsBytes = 8 * 1024 * 1024;

/** What the parser does not tell of an entry. */
type Untold = {
  /** The flag of an unknown kind. */
  readonly unknown: string | undefined;
  /** A time before 1970, in seconds. */
  readonly seconds: number | undefined;
};

/** Takes an archive as it passes, and notes what its headers say. Damage is left to the parser. */
export class PassingHeaders {
  readonly #seen: Untold[] = [];
  /** The start of a header that waits for the rest. */
  #held = Buffer.alloc(0);
  #passingBytes = 0;
  /** The records that pass, and how many bytes of them count. */
  #records: { readonly parts: Buffer[]; readonly bytes: number } | undefined;
  /** The length of the next entry, from its records. */
  #longBytes: number | undefined;

  /** Takes the next bytes of the archive. @returns what the parser gets now; it may be nothing */
  pass(chunk: Uint8Array): Uint8Array {
    let bytes =
      this.#held.length > 0
        ? Buffer.concat([this.#held, chunk])
        : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    let at = 0;
    while (at < bytes.length) {
      if (this.#passingBytes === 0) {
        if (bytes.length - at < blockBytes) break;
        const end = at + blockBytes;
        this.#header(bytes.subarray(at, end));
        for (const field of dispensable) {
          if (!isUnread(bytes.subarray(at, end), field)) continue;
          // The chunk may be another's, too.
          if (bytes.buffer === chunk.buffer) bytes = Buffer.from(bytes);
          clear(bytes.subarray(at, end), field);
        }
        at = end;
        continue;
      }
      const length = Math.min(this.#passingBytes, bytes.length - at);
      this.#records?.parts.push(Buffer.from(bytes.subarray(at, at + length)));
      this.#passingBytes -= length;
      at += length;
      if (this.#passingBytes === 0) this.#closeRecords();
    }
    this.#held = Buffer.from(bytes.subarray(at));
    return bytes.subarray(0, at);
  }

  /** Returns what was noted of the next entry that the parser has given. */
  next(): Untold {
    return this.#seen.shift() ?? { unknown: '', seconds: undefined };
  }

  #closeRecords(): void {
    if (this.#records === undefined) return;
    const { parts, bytes } = this.#records;
    this.#longBytes = lengthIn(Buffer.concat(parts).subarray(0, bytes)) ?? this.#longBytes;
    this.#records = undefined;
  }

  #header(block: Buffer): void {
    // The end, which only zeros follow.
    if (block.every((byte) => byte === 0)) return void (this.#passingBytes = Infinity);
    const flag = block.toString('latin1', flagAt, flagAt + 1);
    const bytes = Math.max(0, numberIn(block, size));
    const seconds = numberIn(block, time);
    if (describing.includes(flag)) {
      if (flag === 'x' && bytes > 0 && bytes <= maxRecordsBytes) this.#records = { parts: [], bytes };
      this.#passingBytes = padded(bytes);
      return;
    }
    this.#passingBytes = empty.includes(flag) ? 0 : padded(this.#longBytes ?? bytes);
    this.#longBytes = undefined;
    const unknown = flag !== '' && known.includes(flag) ? undefined : flag;
    this.#seen.push({ unknown, seconds: seconds < 0 ? seconds : undefined });
  }
}

type Field = { readonly at: number; readonly bytes: number };

/**
 * A number of a header: octal digits, or, after a set bit, one of base 256 as GNU tar has it, with
 * a sign in the next bit.
 */
function numberIn(block: Buffer, { at, bytes }: Field): number {
  const field = block.subarray(at, at + bytes);
  const [first = 0] = field;
  if ((first & 0x80) === 0) return Number.parseInt(field.toString('latin1').trim(), 8) || 0;
  return field.subarray(1).reduce((value, byte) => value * 256 + byte, (first & 0x3f) - (first & 0x40));
}

/** Tells whether the parser refuses a number. */
function isUnread(block: Buffer, field: Field): boolean {
  const value = numberIn(block, field);
  return value < 0 || !Number.isSafeInteger(value);
}

/** Makes a field zero. A wrong checksum stays wrong. */
function clear(block: Buffer, { at, bytes }: Field): void {
  const field = block.subarray(at, at + bytes);
  const sum = numberIn(block, checksum) - field.reduce((total, byte) => total + byte, 0);
  field.fill(0);
  block.write(`${Math.max(0, sum).toString(8).padStart(6, '0')}\0 `, checksum.at, 'latin1');
}

/** The length of the next entry in the records before it, as the parser reads them. */
function lengthIn(records: Buffer): number | undefined {
  let found: number | undefined;
  for (let at = 0; at < records.length;) {
    const { 0: start = '', 1: digits = '' } = /^(\d+) /.exec(records.toString('latin1', at, at + maxDigits)) ?? [];
    const length = Number(digits);
    if (length === 0) break;
    const [, size] = /^size=(\d+)$/.exec(records.toString('latin1', at + start.length, at + length - 1)) ?? [];
    if (size !== undefined) found = Number(size);
    at += length;
  }
  return found;
}
