/** The contract of an object store. */
import type { BlockSource } from '../../../shared/ipfs/index.ts';
import type { Listing, ObjectBody, Warning } from './bucket.ts';
import type { ObjectIndex, StoredObjects } from './object-index.ts';

/**
 * An object store, as Sealpin uses it. It cannot be a `PinningService`: that one knows blocks by
 * their CIDs, and keeps what is pinned, while here the caller says where bytes are kept before it
 * knows their CID, and removes them itself. Its methods throw as those of a `Bucket`. Nobody but
 * the `Pin` objects changes an index, or removes anything.
 */
export interface ObjectStore {
  /** The name from the configuration, kept in rows. */
  readonly id: string;
  readonly takes: 'objects';
  /** Kind, address, bucket and prefix. The same ones belong to an `id` for ever. */
  readonly place: string;

  /** Stores an object with bytes of a file. */
  put(id: string, n: number, body: ObjectBody, signal: AbortSignal): Promise<void>;
  /** Writes the index of a file. @param replace one that is there @returns whether it is written */
  putIndex(cid: string, file: StoredObjects, replace: boolean, signal: AbortSignal): Promise<boolean>;
  /**
   * The verified index of a file.
   * @param isCertain whether it is read twice: which objects it names, its CID does not verify
   * @throws pinning_lost where there is none, content_mismatch where it is of something else,
   * pinning_unavailable where it reads otherwise the second time
   */
  index(cid: string, signal: AbortSignal, isCertain?: boolean): Promise<ObjectIndex>;
  /** Tells whether all objects that an index names are there, by their lengths. */
  isComplete(file: Pick<StoredObjects, 'id' | 'objects'>, signal: AbortSignal): Promise<boolean>;
  /**
   * Asks for the index of a CID, and for the objects that it names, whose `<id>` it returns.
   * @returns `absent` where there is none that can be used, or an object is missing or too short
   */
  stat(cid: string, signal: AbortSignal): Promise<{ pin: 'absent' } | { pin: 'ours'; object: string }>;
  /** Removes the index of a CID. @returns whether a listing has shown that nothing is left */
  removeIndex(cid: string, signal: AbortSignal): Promise<boolean>;
  /**
   * Removes objects of an upload: those with these numbers, or all.
   * @returns whether nothing is left of these
   */
  removeData(id: string, signal: AbortSignal, ns?: readonly number[]): Promise<boolean>;
  /**
   * Lists a page of the objects whose keys begin so, behind `after`; keys here have no prefix of
   * the backend.
   */
  list(start: `data/${string}` | 'cid/', after: string | undefined, signal: AbortSignal): Promise<Listing>;
  /**
   * Tells whether the prefix belongs to this service; it does from now on where it belonged to
   * nobody.
   */
  ownsPrefix(signal: AbortSignal): Promise<boolean>;
  /** The file of a CID as a source. */
  source(root: string): BlockSource & Required<Pick<BlockSource, 'read'>>;
  /**
   * Checks that the bucket responds and accepts our credentials.
   * @returns also what of its rules the operator must change
   */
  ping(signal: AbortSignal): Promise<{ version?: string } & Partial<Warning>>;
}
