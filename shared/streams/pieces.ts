import { at } from './at.ts';

/** A range of bytes, reserved at the end of `Pieces`, that is written out of order. */
export type Room = {
  /** Returns the memory for `length` bytes at `offset`; undefined where they fall into more than one piece. */
  target(offset: number, length: number): Uint8Array | undefined;
  /** Copies bytes to an offset, across pieces if necessary. */
  set(bytes: Uint8Array, offset: number): void;
  /** Hands out the pieces that are full. */
  full(): Uint8Array[];
};

/** Bytes that are written into pieces of one size, each of which is handed out once it is full. */
export class Pieces {
  readonly #pieceBytes: number;
  #first: Uint8Array;
  #filled = 0;

  /** @param pieceBytes a whole number of at least 1; `TypeError` for anything else */
  constructor(pieceBytes: number) {
    if (!Number.isSafeInteger(pieceBytes) || pieceBytes < 1)
      throw new TypeError('pieceBytes must be a whole number of at least 1');
    this.#pieceBytes = pieceBytes;
    this.#first = new Uint8Array(pieceBytes);
  }

  /** Reserves room for so many more bytes. The room before it must be written by then. */
  append(bytes: number): Room {
    const pieceBytes = this.#pieceBytes;
    const from = this.#filled;
    const end = from + bytes;
    const pieces = [this.#first];
    while (pieces.length * pieceBytes < end) pieces.push(new Uint8Array(pieceBytes));
    return {
      target(offset, length) {
        const start = (from + offset) % pieceBytes;
        if (start + length > pieceBytes) return undefined;
        return at(pieces, Math.floor((from + offset) / pieceBytes)).subarray(start, start + length);
      },
      set(part, offset) {
        for (let done = 0; done < part.length;) {
          const start = (from + offset + done) % pieceBytes;
          const index = Math.floor((from + offset + done) / pieceBytes);
          const fitting = part.subarray(done, done + pieceBytes - start);
          at(pieces, index).set(fitting, start);
          done += fitting.length;
        }
      },
      full: () => {
        const full = pieces.splice(0, Math.floor(end / pieceBytes));
        this.#first = pieces[0] ?? new Uint8Array(pieceBytes);
        this.#filled = end - full.length * pieceBytes;
        return full;
      },
    };
  }

  /** Returns what is left at the end. */
  rest(): Uint8Array {
    return this.#first.subarray(0, this.#filled);
  }
}
