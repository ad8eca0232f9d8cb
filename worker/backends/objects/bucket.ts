/** The requests that a bucket takes, whichever API it speaks. Keys are whole, with the prefix. */

/** The bytes of an object on their way: held in memory, or a stream whose length is known. */
export type ObjectBody = Uint8Array<ArrayBuffer> | { stream: ReadableStream<Uint8Array>; length: number };

/** An object as a listing has it. `storedAt`: when it was stored, in ms. */
export type ListedObject = { key: string; bytes: number; storedAt: number };

/**
 * A page of a listing, in the order of the keys. `now`: the store's clock, in ms. `isLast`: nothing
 * follows.
 */
export type Listing = { objects: ListedObject[]; isLast: boolean; now: number };

/** Rules that will take files away, and what the operator must do about it. */
export type Warning = { warning: string; hint: string };

/**
 * A bucket. Its methods throw `pinning_unavailable`, `pinning_timeout`, `pinning_failed`,
 * `misconfigured` or `disk_full`, besides the reason of an aborted signal. What is held is sent
 * again where the bucket asks for that; a stream never is, and `get` neither: who reads asks again.
 */
export interface Bucket {
  /** Its kind, address and name, by which a backend is recognized. */
  readonly place: string;

  /**
   * Stores an object.
   * @param onlyNew leaves one that is there as it is
   * @returns whether it is stored now
   */
  put(key: string, body: ObjectBody, onlyNew: boolean, signal: AbortSignal): Promise<boolean>;

  /** Bytes of an object, or all of it, asked for once; undefined where there is none. */
  get(
    key: string,
    range: { offset: number; length: number } | undefined,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array> | undefined>;

  /** Returns the bytes of an object, counted by the store; undefined where there is none. */
  size(key: string, signal: AbortSignal): Promise<number | undefined>;

  /** Lists a page of the objects whose keys begin with a prefix, and come after `after`. */
  list(prefix: string, after: string | undefined, signal: AbortSignal): Promise<Listing>;

  /**
   * Tells the operator what of the bucket's own rules will take files below a prefix away. Left out
   * where no request can ask for them.
   */
  warning?(prefix: string, signal: AbortSignal): Promise<Warning | undefined>;

  /**
   * Removes what begins with a prefix, as much as some requests can, with all versions.
   * @returns whether a listing has shown that nothing is left
   */
  removeAll(prefix: string, signal: AbortSignal): Promise<boolean>;
}
