import type * as v from 'valibot';
import type { SealpinError } from '../../shared/errors.ts';

/**
 * A recursive pin: none, ours, somebody else's with its name, or `unknown`: there is one, at a service that keeps no
 * names.
 */
export type Held = { pin: 'absent' | 'ours' | 'unknown' } | { pin: 'foreign'; name: string };

/** An upload that waits for its last bytes. One that is neither committed nor aborted keeps its request open. */
export interface PendingPut {
  /** Rejects as soon as the service ends the upload; never resolves. The caller need not handle it. */
  readonly refusal: Promise<never>;

  /**
   * Sends the last bytes, and pins the body as `unixfs-v1-2025`.
   * @returns the CID that the service computed, as the service writes it where it is of another kind than ours
   */
  commit(): Promise<{ cid: string }>;

  /** Ends the request, so that nothing is pinned; `commit` throws the reason afterwards. */
  abort(reason: unknown): void;
}

/**
 * What Sealpin asks of a service that holds bytes on IPFS. An adapter is not trusted: the core counts the bytes, computes the
 * CID itself, compares, and verifies every block that it reads back. `id` is part of stored rows, so it is never reused; the
 * adapter of a service that names its files by a handle instead of the CID maps one to the other.
 *
 * Every method may throw, besides the reason of an aborted signal: `pinning_unavailable` (not reached, or asked to wait for
 * `retryAfterSeconds`), `pinning_timeout`, `pinning_failed` (a response that breaks this contract), `misconfigured` (the address
 * or the credentials are wrong), `disk_full`.
 *
 * A service has a pin name of its own. A pin under another name is somebody else's: neither it nor its name is changed.
 */
export interface PinningService {
  /** The name from the configuration, kept in rows. */
  readonly id: string;

  /**
   * Streams `body` to the service, in the first of two phases: the bytes without which the service keeps nothing wait for
   * `commit`. The body's pieces are used up: they may be empty after it. Where the service, the body or the signal ends the
   * upload, the request is aborted, the body is cancelled, and nothing is pinned.
   * Where the CID is pinned under another name already, `commit` overwrites that name: `share` has to follow.
   * @param o.signal ends the upload in both phases @param o.bytes the exact length of the body where it is known
   * @returns the upload, once everything but its last bytes has been sent
   * @throws body_incomplete for a body of another length than announced; what the body throws
   */
  put(body: ReadableStream<Uint8Array>, o: { signal: AbortSignal; bytes?: number }): Promise<PendingPut>;

  /** Whose recursive pin of the CID the service holds, if any. */
  stat(cid: string, signal: AbortSignal): Promise<Held>;

  /**
   * Keeps a CID besides a pin of somebody else's, after `put`: by a pin of our own that does not depend on that one, where the
   * service can do so. Gives the other pin its name back.
   */
  share(cid: string, name: string, signal: AbortSignal): Promise<void>;

  /** Undoes `share`; can be repeated. `foreign`: the pin of somebody else is still there. */
  unshare(cid: string, name: string | undefined, signal: AbortSignal): Promise<'absent' | 'foreign'>;

  /**
   * Removes the pin; `absent` when there was none, so that it can be repeated; `foreign` when it is not ours: then it
   * stays.
   */
  unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'>;

  /** One block, at most 2 MiB, not verified; `pinning_lost` when the service does not have it. */
  block(cid: string, signal: AbortSignal): Promise<Uint8Array>;

  /** `length` bytes of the file from byte `offset`, not verified. The signal also ends the stream. */
  read(cid: string, offset: number, length: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;

  /** Checks that the service responds and accepts our credentials. */
  ping(signal: AbortSignal): Promise<{ version: string }>;
}

/** What an adapter is given besides its own options. */
export type AdapterContext = {
  /** The ID of the entry. */
  id: string;
  /** The name of this service's pins: at most 80 bytes of ASCII. */
  pinName: string;
  /** The value of a secret by its name; undefined where it is not set. */
  secretOf(name: string): string | undefined;
  fetch: typeof fetch;
  /** The error for an entry that cannot be used, which names the entry. */
  misconfigured(what: string): SealpinError;
};

/**
 * How services of a type are configured. `options` parses the fields of an entry besides `id` and `type`; the messages of its
 * issues name the field, and unknown fields are refused.
 */
export type Adapter<S extends v.GenericSchema> = {
  options: S;
  /** @throws misconfigured */
  make(options: v.InferOutput<S>, context: AdapterContext): PinningService;
};
