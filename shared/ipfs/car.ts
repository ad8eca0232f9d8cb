/** CARv1 files: writing one, and reading the file in one that nobody has to trust. */
import type { BlockSource, Limits } from './file.ts';

export type CarOptions = {
  /** `block`: the root alone; `entity` and `all`: the file. */
  scope?: 'block' | 'entity' | 'all';
  /** The bytes that are wanted, as the trustless gateway's `entity-bytes`: inclusive, negative counts from the end. */
  entityBytes?: { from: number; to?: number };
  signal?: AbortSignal;
  limits?: Limits;
};

/** A CAR of the file, root first and depth first, blocks as often as they occur (`dups=y`). Every block in it is verified. */
export function carOf(cid: string, sources: readonly BlockSource[], o: CarOptions = {}): ReadableStream<Uint8Array> {
  throw new Error(`not here yet: ${cid} ${sources.length} ${typeof o}`);
}

/** The verified bytes of a file from a CAR that begins with its root and goes depth first; an incomplete CAR is an error. */
export function fileFromCar(cid: string, car: ReadableStream<Uint8Array>, o: { signal?: AbortSignal; limits?: Limits } = {}): ReadableStream<Uint8Array> {
  throw new Error(`not here yet: ${cid} ${typeof car} ${typeof o}`);
}
