/** Source of the leaves that are stored, made of a client's bytes: as they are, or encrypted. */
import { sniff, sniffBytes, type PayloadSealer, type PayloadState } from '../../shared/crypto/index.ts';
import { leafBytes } from '../../shared/ipfs/index.ts';
import { Pieces } from '../../shared/streams/pieces.ts';
import type { ContentKind } from '../../shared/api.ts';
import { leafMemory } from '../leaf-memory.ts';

/** State of an upload. `beginning`: in plain mode, the kind of its content. */
export type LeafState = PayloadState & { beginning: ContentKind };

/** Makes leaves of bytes. After an error it is of no use. */
export interface LeafSource {
  /**
   * Takes bytes, which are used up: the array may be empty afterwards.
   * @returns the leaves that are full now
   */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array[]>;
  /**
   * Takes the end.
   * @returns the leaves that are full now; the tail is the last leaf, unless it is empty
   */
  finish(): Promise<Uint8Array[]>;
  /**
   * Returns the bytes that fill the leaf: of the next one, they begin little or nothing. So what is
   * recorded at the end of a part, and sent to the account's object, is small.
   */
  room(): number;
  state(): LeafState;
}

/** Leaves of the bytes themselves. @param isFirst whether the tail is the beginning of the file */
export function plainLeaves({ offset, tail, beginning: known }: LeafState, isFirst: boolean): LeafSource {
  const pieces = new Pieces(leafBytes, leafMemory);
  let taken = offset;
  let beginning = known;
  let isInFirst = isFirst;

  function copied(bytes: Uint8Array): Uint8Array[] {
    const room = pieces.append(bytes.length);
    room.set(bytes, 0);
    return room.full();
  }

  function add(bytes: Uint8Array): Uint8Array[] {
    // The bytes of a fast client are a leaf as they are.
    const isLeaf = bytes.length === leafBytes && pieces.rest().length === 0;
    const full = isLeaf ? [bytes] : copied(bytes);
    if (isInFirst) beginning = recognize(full[0] ?? pieces.rest());
    isInFirst &&= full.length === 0;
    return full;
  }

  add(tail);
  return {
    async write(bytes) {
      taken += bytes.length;
      const full = add(bytes);
      if (full[0] !== bytes) leafMemory.giveBack(bytes);
      return full;
    },
    finish: async () => [],
    room: () => leafBytes - pieces.rest().length,
    state: () => ({ offset: taken, rest: new Uint8Array(0), tail: pieces.rest().slice(), beginning }),
  };
}

export function encryptedLeaves(sealer: PayloadSealer): LeafSource {
  return {
    async write(bytes) {
      const full = await sealer.write(bytes);
      leafMemory.giveBack(bytes);
      return full;
    },
    finish: () => sealer.finish(),
    room: () => sealer.room(),
    state: () => ({ ...sealer.state(), beginning: 'other' }),
  };
}

/** Recognizes a plain file by its first bytes, which determines what a deletion can destroy. */
export function recognize(bytes: Uint8Array): ContentKind {
  const found = sniff(bytes.subarray(0, sniffBytes));
  if (found === undefined) return 'other';
  return found === 'detached' ? 'payload' : 'container';
}
