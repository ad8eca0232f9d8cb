/** Reading a file by its CID from sources that nobody has to trust. */

/** Where blocks may come from. Nothing that it gives is believed: each block is hashed before a byte of it leaves. */
export interface BlockSource {
  /** Its name in errors. */
  readonly id: string;
  /** One block. */
  block(cid: string, signal: AbortSignal): Promise<Uint8Array>;
  /** Bytes of the file from `offset`, if it can give many leaves in one request. */
  read?(cid: string, offset: number, length: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** A CAR with the blocks of the file that bytes from `start` up to `end` (exclusive) need, if it can. */
  car?(cid: string, start: number, end: number | undefined, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** Caps on what a source may cost. */
export type Limits = {
  /** The largest file; `too_large` beyond it. No cap when left out. */
  fileBytes?: number;
  /** The longest wait for one block, connection included: 60 s when left out. */
  idleMs?: number;
  /** The longest that reading may wait for sources altogether: 24 h when left out. */
  totalMs?: number;
};

export type IpfsFile = {
  /** Bytes of the file. */
  size: number;
  /** Its verified bytes from `start` (0) up to `end` (the size), exclusive. Only the blocks of the range are fetched. */
  read(start?: number, end?: number): ReadableStream<Uint8Array>;
};

/** Opens the file of a CID. */
export async function openFile(cid: string, sources: readonly BlockSource[], o: { signal?: AbortSignal; limits?: Limits } = {}): Promise<IpfsFile> {
  throw new Error(`not here yet: ${cid} ${sources.length} ${typeof o}`);
}
