/** Sealing a payload in several goes: the chunks of `sealChunks`, from plaintext that is pushed. */
import type { Memory } from '../../streams/buffer-pool.ts';
import { concat } from '../../streams/concat.ts';
import { Pieces } from '../../streams/pieces.ts';
import { fullChunksIn, tagBytes, type Chunks } from './chunking.ts';
import { sealBatch } from './seal-chunks.ts';

/** Progress of a payload. */
export type PayloadState = {
  /** Bytes of plaintext that were taken, `rest` included. */
  offset: number;
  /** Plaintext that was taken and is not sealed yet: less than a chunk. */
  rest: Uint8Array;
  /** The unfinished piece: less than a whole one. */
  tail: Uint8Array;
};

/**
 * Seals chunks from a position on. One call at a time; after an error nothing more may be asked of
 * it.
 * @param o.memory where that of the pieces comes from
 */
export function chunkSealer(chunks: Chunks, o: PayloadState & { pieceBytes: number; memory?: Memory | undefined }) {
  let { offset } = o;
  let rest = o.rest.slice();
  let index = (offset - rest.length) / chunks.chunkBytes;
  if (!Number.isSafeInteger(index) || index < 0) throw new RangeError('offset and rest do not fit together');
  if (o.tail.length >= o.pieceBytes) throw new RangeError('the tail is a whole piece');
  const pieces = new Pieces(o.pieceBytes, o.memory);
  const before = pieces.append(o.tail.length);
  before.set(o.tail, 0);
  before.full();

  async function seal(inputs: Uint8Array[], last: boolean): Promise<Uint8Array[]> {
    const room = pieces.append(inputs.reduce((sum, input) => sum + input.length + tagBytes, 0));
    await sealBatch(chunks, { inputs, first: index, last }, room);
    index += inputs.length;
    return room.full();
  }

  return {
    /** Takes plaintext. @returns the pieces that are full now */
    async write(plaintext: Uint8Array): Promise<Uint8Array[]> {
      const { chunkBytes } = chunks;
      const count = fullChunksIn(chunks, rest.length + plaintext.length, chunkBytes);
      const inputs: Uint8Array[] = [];
      let taken = 0;
      for (let position = 0; position < count; position += 1) {
        const from = taken;
        taken += position === 0 ? chunkBytes - rest.length : chunkBytes;
        const input = plaintext.subarray(from, taken);
        inputs.push(position === 0 && rest.length > 0 ? concat(rest, input) : input);
      }
      rest = count === 0 ? concat(rest, plaintext) : plaintext.slice(taken);
      offset += plaintext.length;
      return count === 0 ? [] : await seal(inputs, false);
    },

    /** Seals the last chunk. @returns the pieces that are full now; what is left is the tail */
    async finish(): Promise<Uint8Array[]> {
      const input = rest;
      rest = new Uint8Array(0);
      return await seal([input], true);
    },

    /** Returns how much plaintext makes the piece full, with less than a chunk for the next one. */
    room(): number {
      const missing = o.pieceBytes - pieces.rest().length;
      return Math.ceil(missing / (chunks.chunkBytes + tagBytes)) * chunks.chunkBytes - rest.length;
    },

    /** Returns the progress of the payload, with arrays of its own. */
    state: (): PayloadState => ({ offset, rest: rest.slice(), tail: pieces.rest().slice() }),
  };
}
