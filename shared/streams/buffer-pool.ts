/** Bytes of a buffer: a MiB, and the tags or the CAR section around it. */
const bufferBytes = 1024 * 1024 + 64 * 1024;
/** Smaller pieces are not worth it, and would each keep a whole buffer. */
const smallestBytes = bufferBytes / 4;
/** Buffers that wait: as many as a file that is read, opened and written has in work. */
const maxSpare = 4;

/** Source of memory, to which it returns once nobody looks at it any more. */
export interface Memory {
  /** An array of so many bytes, with whatever was in it before. */
  take(bytes: number): Uint8Array;
  /** Takes back the memory of a piece, in its last use; ignores a piece from elsewhere. */
  giveBack(piece: Uint8Array): void;
}

/** Memory that is new, and left to the garbage collector. */
export const freshMemory: Memory = { take: (bytes) => new Uint8Array(bytes), giveBack: () => undefined };

/**
 * Memory of large pieces that is used again, for who can tell when nobody looks at a piece any
 * more. A fresh MiB is mapped page by page, which takes longer than to fill it.
 */
export class BufferPool implements Memory {
  readonly #spare: ArrayBuffer[] = [];

  take(bytes: number): Uint8Array<ArrayBuffer> {
    if (bytes < smallestBytes || bytes > bufferBytes) return new Uint8Array(bytes);
    return new Uint8Array(this.#spare.pop() ?? new ArrayBuffer(bufferBytes), 0, bytes);
  }

  giveBack({ buffer }: Uint8Array): void {
    if (buffer.byteLength !== bufferBytes || this.#spare.length === maxSpare) return;
    if (!this.#spare.includes(buffer as ArrayBuffer)) this.#spare.push(buffer as ArrayBuffer);
  }
}
