import { SealpinError } from '../errors.ts';
import { at } from './at.ts';
import type { Memory } from './buffer-pool.ts';
import { pulled } from './pulled.ts';
import { acquireReader, type AcquiredReader } from './reader.ts';

/** Size of one read from a byte stream: few enough calls, little enough memory. */
const readBytes = 1024 * 1024;
/** Size of a read when only a few bytes are wanted, as for a header. */
const smallReadBytes = 64 * 1024;
const lineFeed = 0x0a;
/** Takes the place of a piece that was taken, so that its memory can be freed. */
const empty = new Uint8Array(0);

/**
 * A stream of bytes that is taken in the sizes that the reader wants, however the stream divides
 * them. Bytes are copied only where a taken range spans several pieces of the stream.
 */
export class ByteSource {
  readonly #from: AcquiredReader;
  readonly #pool: Memory | undefined;
  /** Pieces of the pool whose bytes were all taken. */
  #taken: Uint8Array[] = [];
  #pieces: Uint8Array[] = [];
  #first = 0;
  /** A buffer of our own whose bytes were all taken. */
  #spent: ArrayBuffer | undefined;
  /** A buffer that nobody looks at any more. */
  #spare: ArrayBuffer | undefined;
  /** A small buffer whose few bytes were copied out of it. */
  #smallSpare: ArrayBuffer | undefined;
  /** Bytes at hand. */
  length = 0;
  /** Marks the end of the stream: what is at hand is all that is left. */
  ended = false;

  /** @param pool gets the stream's pieces, once they may be reused */
  constructor(stream: ReadableStream<Uint8Array>, pool?: Memory) {
    this.#from = acquireReader(stream);
    this.#pool = pool;
  }

  /** Reads until `bytes` are at hand or the stream has ended. */
  async fill(bytes: number): Promise<void> {
    while (this.length < bytes && !this.ended) await this.#read(bytes - this.length);
  }

  async #read(wanted: number): Promise<void> {
    const { done, value } = await (this.#from.byob
      ? this.#from.reader.read(this.#buffer(wanted), {
          // In workerd each call is a crossing. Node (24.21) fails, and loses bytes, when a stream
          // was closed with fewer than `min` left.
          min: 'readAtLeast' in this.#from.reader ? Math.min(wanted, readBytes) : 1,
        })
      : this.#from.reader.read());
    // A byte stream that ends short of `min` gives its last bytes together with `done`.
    if (value !== undefined && value.length > 0) {
      if (!(value instanceof Uint8Array)) throw new TypeError('the stream must give Uint8Array');
      // A byte stream that gives a byte at a time must not keep a whole buffer for each.
      const isSparse = this.#from.byob && value.length < smallReadBytes / 16;
      if (isSparse && value.buffer.byteLength === smallReadBytes) this.#smallSpare = value.buffer as ArrayBuffer;
      this.#pieces.push(isSparse ? value.slice() : value);
      this.length += value.length;
    }
    if (done) this.ended = true;
  }

  #buffer(wanted: number): Uint8Array {
    if (wanted <= smallReadBytes) {
      const buffer = this.#smallSpare ?? new ArrayBuffer(smallReadBytes);
      this.#smallSpare = undefined;
      return new Uint8Array(buffer);
    }
    const spare = this.#spare ?? new ArrayBuffer(readBytes);
    this.#spare = undefined;
    return new Uint8Array(spare, 0, Math.min(wanted, readBytes));
  }

  /**
   * Allows the memory of everything that was taken to be reused: the caller no longer looks at it.
   */
  recycle(): void {
    this.#spare ??= this.#spent;
    this.#spent = undefined;
    for (const piece of this.#taken) this.#pool?.giveBack(piece);
    this.#taken = [];
  }

  /** Takes the next `bytes` as one array; throws `RangeError` when fewer are at hand. */
  take(bytes: number): Uint8Array {
    const piece = this.peek(bytes);
    this.#skip(bytes);
    return piece;
  }

  /** Returns the next `bytes` that are at hand (fewer at the end), without taking them. */
  peek(bytes: number): Uint8Array {
    const wanted = Math.min(bytes, this.length);
    const piece = this.#pieces[this.#first];
    if (piece === undefined) return new Uint8Array(0);
    if (piece.length >= wanted) return piece.subarray(0, wanted);
    const whole = new Uint8Array(wanted);
    for (let index = this.#first, offset = 0; offset < wanted; index += 1) {
      const part = at(this.#pieces, index).subarray(0, wanted - offset);
      whole.set(part, offset);
      offset += part.length;
    }
    return whole;
  }

  #skip(bytes: number): void {
    if (bytes > this.length) throw new RangeError('more bytes are taken than are at hand');
    this.length -= bytes;
    let left = bytes;
    while (left > 0) {
      const piece = at(this.#pieces, this.#first);
      if (piece.length > left) {
        this.#pieces[this.#first] = piece.subarray(left);
        return;
      }
      left -= piece.length;
      if (this.#from.byob && piece.buffer.byteLength === readBytes) this.#spent = piece.buffer as ArrayBuffer;
      else if (this.#pool !== undefined) this.#taken.push(piece);
      // Its memory is freed at once; its place in the list, with others, below.
      this.#pieces[this.#first] = empty;
      this.#first += 1;
    }
    if (this.#first === this.#pieces.length) {
      this.#pieces = [];
      this.#first = 0;
    } else if (this.#first >= 1024) {
      this.#pieces.splice(0, this.#first);
      this.#first = 0;
    }
  }

  /**
   * Takes the next line, without its line feed; undefined when the stream ends before one.
   * @param limitBytes its greatest length; a longer one throws `header_invalid` without reading on
   * @param tooLong the detail of that error
   */
  async line(limitBytes: number, tooLong: string): Promise<Uint8Array | undefined> {
    for (let index = this.#first, before = 0; ; index += 1) {
      while (index === this.#pieces.length && !this.ended) await this.#read(1);
      const piece = this.#pieces[index];
      if (piece === undefined) return undefined;
      const end = piece.indexOf(lineFeed);
      if ((end < 0 ? before + piece.length : before + end) > limitBytes)
        throw new SealpinError('header_invalid', tooLong);
      if (end >= 0) return this.take(before + end + 1).subarray(0, -1);
      before += piece.length;
    }
  }

  /** Returns a stream of everything that is left. @param before goes out first */
  rest(before?: Uint8Array): ReadableStream<Uint8Array> {
    let start = before;
    return pulled({
      next: async () => {
        const first = start;
        start = undefined;
        if (first !== undefined) return first;
        await this.fill(1);
        return this.length === 0 ? undefined : this.take(at(this.#pieces, this.#first).length);
      },
      cancel: (reason) => this.cancel(reason),
      ahead: 1,
    });
  }

  /** Cancels the stream. */
  async cancel(reason: unknown): Promise<void> {
    await this.#from.reader.cancel(reason);
  }
}
