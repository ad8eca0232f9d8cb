/**
 * Memory of leaves that is used again. A fresh MiB is mapped page by page, which takes as long as
 * to read or to seal what goes into it; and with many uploads at once an isolate has no room for
 * what waits to be collected.
 */
import { leafBytes } from '../shared/ipfs/index.ts';
import type { Memory } from '../shared/streams/buffer-pool.ts';

/** Leaves whose memory waits: what one upload has in work. */
const maxSpare = 2;

const spare: ArrayBuffer[] = [];

/**
 * The memory of leaves of this isolate, for all of its uploads: who takes an array passes on no
 * more of it than he has filled.
 */
export const leafMemory = {
  take: (bytes: number): Uint8Array<ArrayBuffer> =>
    new Uint8Array((bytes === leafBytes ? spare.pop() : undefined) ?? new ArrayBuffer(bytes)),

  /**
   * Keeps all of the buffer where it is that of a leaf, and frees it otherwise. Any other array of
   * it is empty then.
   */
  giveBack({ buffer }: Uint8Array): void {
    if ((buffer as ArrayBuffer).detached) return;
    const isKept = buffer.byteLength === leafBytes && spare.length < maxSpare;
    const memory = (buffer as ArrayBuffer).transfer(isKept ? leafBytes : 0);
    if (isKept) spare.push(memory);
  },
} satisfies Memory;
