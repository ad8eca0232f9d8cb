/** The kinds of entries in a tar archive: the parser takes each unknown one for a file. */
import { blockBytes, padded } from './tar-header.ts';

const flagAt = 156;
const sizeAt = 124;
const sizeBytes = 12;

/**
 * Flags of files ("7" is a contiguous one), links, devices, directories and pipes (POSIX.1-2024,
 * pax).
 */
const known = '0\u{0}7123456';
/** Flags of entries without content, whatever their header says. */
const empty = '123456';
/** Flags of what describes the next entry: "x" may have its length. */
const describing = 'xgLK';
/** Of the length of a record, with its space. */
const maxDigits = 20;
/** Longer records are refused by the parser. */
const maxRecordsBytes = 8 * 1024 * 1024;

/** Watches an archive pass, and notes the flag of each entry. Damage is left to the parser. */
export class TypeFlags {
  readonly #seen: string[] = [];
  /** Bytes that are collected: a header, or the records before one. */
  #block = Buffer.alloc(blockBytes);
  #filled = 0;
  #recordsBytes: number | undefined;
  #passingBytes = 0;
  /** The length of the next entry, from its records. */
  #longBytes: number | undefined;

  /** Takes the next bytes of the archive, before the parser has them. */
  see(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const left = this.#passingBytes > 0 ? this.#passingBytes : this.#block.length - this.#filled;
      const bytes = Math.min(left, chunk.length - at);
      if (this.#passingBytes > 0) this.#passingBytes -= bytes;
      else {
        this.#block.set(chunk.subarray(at, at + bytes), this.#filled);
        this.#filled += bytes;
        if (this.#filled === this.#block.length) this.#collected();
      }
      at += bytes;
    }
  }

  /** Returns the flag of the next entry that the parser has given; undefined for a known kind. */
  nextUnknown(): string | undefined {
    const flag = this.#seen.shift() ?? '';
    return flag !== '' && known.includes(flag) ? undefined : flag;
  }

  #collected(): void {
    const block = this.#block;
    const records = this.#recordsBytes;
    this.#recordsBytes = undefined;
    this.#filled = 0;
    if (records === undefined) return this.#header(block);
    this.#longBytes = lengthIn(block.subarray(0, records)) ?? this.#longBytes;
    this.#block = Buffer.alloc(blockBytes);
  }

  #header(block: Buffer): void {
    // The end, which only zeros follow.
    if (block.every((byte) => byte === 0)) return void (this.#passingBytes = Infinity);
    const flag = block.toString('latin1', flagAt, flagAt + 1);
    const bytes = numberIn(block.subarray(sizeAt, sizeAt + sizeBytes));
    if (flag === 'x' && bytes > 0 && bytes <= maxRecordsBytes) {
      this.#recordsBytes = bytes;
      this.#block = Buffer.alloc(padded(bytes));
      return;
    }
    if (describing.includes(flag)) return void (this.#passingBytes = padded(bytes));
    this.#passingBytes = empty.includes(flag) ? 0 : padded(this.#longBytes ?? bytes);
    this.#longBytes = undefined;
    this.#seen.push(flag);
  }
}

/** A number of a header: octal digits, or, after a set bit, one of base 256 as GNU tar has it. */
function numberIn(field: Buffer): number {
  const [first = 0, ...rest] = field;
  if ((first & 0x80) !== 0) return rest.reduce((value, byte) => value * 256 + byte, first & 0x7f);
  return Number.parseInt(field.toString('latin1').trim(), 8) || 0;
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
