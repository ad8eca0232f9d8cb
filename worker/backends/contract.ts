import type * as v from 'valibot';
import type { SealpinError } from '../../shared/errors.ts';
import type { BlockSource, Cid } from '../../shared/ipfs/index.ts';
import type { ObjectStore } from './objects/store-contract.ts';

/**
 * A recursive pin: none, ours, somebody else's with its name, or `unknown`: there is one, at a
 * service that keeps no names. `lacks`: the service is to hold our pin on more machines than it
 * does, in its own words.
 */
export type Held =
  | { pin: 'absent' | 'unknown'; lacks?: undefined }
  | { pin: 'ours'; lacks?: string }
  | { pin: 'foreign'; name: string; lacks?: undefined };

/** Number of a service's machines that answer, of those that the configuration lists. */
type PeerCount = { answering: number; listed: number };

/**
 * Blocks on their way to a service. Nothing is pinned by an import, and what it wrote may be
 * collected at any time.
 */
export interface BlockImport {
  /**
   * Sends a block, and resolves when the network has taken it; one call at a time. The bytes are
   * used up: the array may be empty afterwards.
   * @param cid the CID that the caller computed; the service computes it again
   */
  write(cid: Cid, bytes: Uint8Array): Promise<void>;

  /**
   * Ends the import, and resolves once the service holds every block under the CID that was sent
   * with it; at once, and without a request, where there was no block.
   */
  finish(): Promise<void>;

  /**
   * Ends the request; `write` and `finish` throw the reason afterwards. Blocks that have arrived
   * stay until they are collected.
   */
  abort(reason: unknown): void;

  /**
   * The bytes of leaves that it takes, no more and no less, where their number is announced to the
   * backend.
   */
  readonly bytes?: number;

  /** Returns the name that stands for what was sent, where that is not a CID; known at the end. */
  name?(): string;
}

/**
 * Service that holds bytes on IPFS, as Sealpin uses it. An adapter is not trusted: the core counts
 * the bytes, computes the CID itself, compares, and verifies every block that it reads back. `id`
 * is part of stored rows, so it is never reused; the adapter of a service that names its files by a
 * handle instead of the CID maps one to the other.
 *
 * Every method may throw, besides the reason of an aborted signal: `pinning_unavailable` (not
 * reached, or asked to wait for `retryAfterSeconds`), `pinning_timeout`, `pinning_failed` (a
 * response that breaks this contract), `misconfigured` (the address or the credentials are wrong),
 * `disk_full`.
 *
 * A service has a pin name of its own. A pin under another name is somebody else's: neither it nor
 * its name is changed.
 */
export interface PinningService {
  /** The name from the configuration, kept in rows. */
  readonly id: string;

  /** Form in which it takes files: `files` for a `HostedService`. */
  readonly takes: 'blocks';

  /**
   * Set if the service hashes every block that it imports, and refuses one whose bytes do not match
   * its CID by `pinning_failed` with the reason `other_bytes`. Otherwise the caller hashes what it
   * has not made itself.
   */
  readonly verifiesImports: boolean;

  /**
   * Set if a pin that is requested after a removal, which `stat` reports as absent, stays whatever
   * becomes of the rest of that removal. Otherwise the caller waits until the removal is confirmed.
   */
  readonly ordersRequests?: boolean;

  /**
   * Opens an import. A service must not hold a lock for as long as a client takes, so the caller
   * ends an import after some seconds, whatever has arrived until then.
   * @param signal ends the request @returns at once; the request goes out with the first block
   */
  importBlocks(signal: AbortSignal): BlockImport;

  /**
   * Pins a DAG that was imported, recursively, under the name of this service; can be repeated. The
   * service does not search the network for missing blocks for longer than its time limit.
   * @param o.bytes of the blocks below the CID, by which the time limit grows
   * @param o.beside the CID is pinned by somebody else: pin it by a pin of our own that does not
   * depend on that one, and leave the other pin and its name as they are Where somebody else pins
   * the same CID at the same moment, ours is made beside that pin, or found missing by a later
   * `stat`.
   * @throws pinning_unavailable with `retryAfterSeconds` when a block is missing: it was collected,
   * and must be sent again
   */
  pin(cid: string, o: { bytes: number; beside: boolean; signal: AbortSignal }): Promise<void>;

  /**
   * Says that what was imported of a CID is held by our pin of it, which is there. Left out by a
   * service to which that makes no difference.
   */
  joinPin?(cid: string, signal: AbortSignal): Promise<void>;

  /** Tells whose recursive pin of the CID the service holds, if any. */
  stat(cid: string, signal: AbortSignal): Promise<Held>;

  /**
   * Asks for the copies that our pin lacks to be made now; left out by a service that holds a pin
   * on one machine.
   * @returns at once
   */
  recover?(cid: string, signal: AbortSignal): Promise<void>;

  /**
   * Removes what `pin` with `beside` made; can be repeated. `foreign`: the pin of somebody else is
   * still there.
   */
  unpinBeside(cid: string, signal: AbortSignal): Promise<'absent' | 'foreign'>;

  /**
   * Removes the pin; `absent` when there was none, so that it can be repeated; `foreign` when it is
   * not ours: then it stays.
   */
  unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'>;

  /** One block, at most 2 MiB, not verified; `pinning_lost` when the service does not have it. */
  block(cid: string, signal: AbortSignal): Promise<Uint8Array>;

  /**
   * A block that the service does not have, from the IPFS network; not verified. Left out by
   * services that cannot search, or not within a time limit. @throws pinning_lost when nobody gives
   * it within that
   */
  search?(cid: string, signal: AbortSignal): Promise<Uint8Array>;

  /**
   * Tells whether a block is damaged wherever the service has it: asked twice, it gives the same
   * wrong bytes, as a disk does, and a line or a proxy hardly ever. Undefined: it has none. Left
   * out with `discard`.
   */
  isDamaged?(cid: string, signal: AbortSignal): Promise<boolean | undefined>;

  /**
   * Removes a block that is damaged, and which nothing pins any more. Left out by a service where
   * an import replaces it: Kubo keeps what it has.
   * @throws pinning_failed when something of somebody else's pins it
   */
  discard?(cid: string, signal: AbortSignal): Promise<void>;

  /**
   * `length` bytes of the file from byte `offset`, not verified. The signal also ends the stream.
   */
  read(cid: string, offset: number, length: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;

  /**
   * Checks that the service responds and accepts our credentials.
   * @returns of several machines also how many answer
   */
  ping(signal: AbortSignal): Promise<{ version: string; peers?: PeerCount }>;
}

/** A backend as an upload calls it: a pinning service, or what makes objects of blocks. */
export type Intake = Pick<PinningService, 'id' | 'verifiesImports' | 'pin' | 'joinPin'> & {
  /**
   * Opens an import.
   * @param bytes of leaves that come for certain, and soon; 0: that is not known
   */
  importBlocks(signal: AbortSignal, bytes?: number): BlockImport;
  /** The most leaves of a part; that of the engine where it is left out. */
  readonly partLeaves?: number;
  /** Removes what was sent, unless it has become a file. */
  abandon?(): Promise<void>;
};

/** A file that a service is to hold. */
export type SourceFile = {
  cid: string;
  sources: readonly BlockSource[];
  /** Called with the id of a source that gave a wrong block. */
  onMismatch(source: string): void;
};

/**
 * A service that gets files as a whole: it fetches them from the network, or is sent one CAR. An
 * upload comes in parts, so it cannot be the first service; and nothing is read from it. Its
 * methods throw as those of a `PinningService`. Our pin of a CID is apart from those of others.
 */
export interface HostedService {
  /** The name from the configuration, kept in rows. */
  readonly id: string;

  readonly takes: 'files';

  /**
   * Has the service hold a file; can be repeated, and is, until it is `held`.
   * @returns `pending` while the service is at work; `requested` where it may not list it yet
   * @throws pinning_failed when it has given up, or cannot have a pin of ours
   */
  hold(file: SourceFile, signal: AbortSignal): Promise<'held' | 'pending' | 'requested'>;

  /** Tells whether it holds our copy of a file. One that it has given up is absent. */
  stat(cid: string, signal: AbortSignal): Promise<'held' | 'pending' | 'absent'>;

  /** Removes our copy; `absent` when there was none, so that it can be repeated. */
  unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent'>;

  /** Checks that the service responds and accepts our credentials. Some have no version. */
  ping(signal: AbortSignal): Promise<{ version?: string }>;
}

/** A place that keeps bytes. */
export type Backend = PinningService | ObjectStore | HostedService;

/** Tells whether a backend is one whose blocks are pinned. */
export function takesBlocks<B extends Backend>(backend: B): backend is B & PinningService {
  return backend.takes === 'blocks';
}

/** Tells whether a backend can be read from, and takes uploads. */
export function isReadable<B extends Backend>(backend: B): backend is B & (PinningService | ObjectStore) {
  return backend.takes !== 'files';
}

/** A backend that is asked for a file. */
export type Readable = Pick<PinningService, 'id' | 'block' | 'read' | 'search'>;

/** A backend as one that is asked for the file of a CID. */
export function readableOf(backend: PinningService | ObjectStore, root: string): Readable {
  return backend.takes === 'blocks' ? backend : backend.source(root);
}

/** Context of an adapter, besides its own options. */
export type AdapterContext = {
  /** The ID of the entry. */
  id: string;
  /** The ID of this service, and the name of its pins: at most 80 bytes of ASCII. */
  serviceId: string;
  pinName: string;
  /** Bindings of the Worker, by name. */
  bindingOf(name: string): unknown;
  /** The value of a secret by its name; undefined where it is not set. */
  secretOf(name: string): string | undefined;
  fetch: typeof fetch;
  /** The error for an entry that cannot be used, which names the entry. */
  misconfigured(what: string): SealpinError;
};

/**
 * Type of service, as operators configure it. `options` parses the fields of an entry besides `id`
 * and `type`; the messages of its issues name the field, and unknown fields are refused.
 */
export type Adapter<S extends v.GenericSchema> = {
  options: S;
  /** Label for operators, which claims nothing but what the adapter was tried against. */
  triedAgainst: string;
  /** Places of the pins of an entry: what a second entry removed there would be gone here. */
  places?(options: v.InferOutput<S>): readonly string[];
  /** @throws misconfigured */
  make(options: v.InferOutput<S>, context: AdapterContext): Backend;
};
