import { at } from './at.ts';
import { freshMemory, type Memory } from './buffer-pool.ts';

/** A range of bytes, reserved at the end of `Pieces`, that is written out of order. */
export type Room = {
  /** Returns the memory for bytes at `offset`; undefined where that is more than one piece. */
  target(offset: number, length: number): Uint8Array | undefined;
  /** Copies bytes to an offset, across pieces if necessary. */
  set(bytes: Uint8Array, offset: number): void;
  /** Hands out the pieces that are full. */
  full(): Uint8Array[];
};

/**
 * Bytes that are written into pieces of one size, each of which is handed out once it is full. The
 * beginning of a piece takes at most twice the memory of its bytes: between two writes it may wait
 * for long, beside many others.
 */
export class Pieces {
  readonly #pieceBytes: number;
  readonly #memory: Memory;
  #first: Uint8Array = new Uint8Array(0);
  #filled = 0;

  /**
   * @param pieceBytes a whole number of at least 1; `TypeError` for anything else
   * @param memory where that of the pieces comes from, which belongs to who gets them
   */
  constructor(pieceBytes: number, memory: Memory = freshMemory) {
    if (!Number.isSafeInteger(pieceBytes) || pieceBytes < 1)
      throw new TypeError('pieceBytes must be a whole number of at least 1');
    this.#pieceBytes = pieceBytes;
    this.#memory = memory;
  }

  /** Reserves room for so many more bytes. The room before it must be written by then. */
  append(bytes: number): Room {
    const pieceBytes = this.#pieceBytes;
    const from = this.#filled;
    const end = from + bytes;
    const pieces = [this.#grown(end)];
    for (let start = pieceBytes; start < end; start += pieceBytes)
      pieces.push(this.#memory.take(Math.min(pieceBytes, end - start)));
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
        this.#first = pieces[0] ?? new Uint8Array(0);
        this.#filled = end - full.length * pieceBytes;
        return full;
      },
    };
  }

  /** The memory of the first piece, which doubles, so that many small writes copy little. */
  #grown(end: number): Uint8Array {
    const before = this.#first;
    if (end <= before.length || before.length === this.#pieceBytes) return before;
    const memory = this.#memory.take(Math.min(Math.max(end, 2 * before.length), this.#pieceBytes));
    memory.set(this.rest());
    if (before.length > 0) this.#memory.giveBack(before);
    return memory;
  }

  /** Returns what is left at the end. */
  rest(): Uint8Array {
    return this.#first.subarray(0, this.#filled);
  }
}
