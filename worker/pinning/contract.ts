/** A recursive pin: none, ours, somebody else's with its name, or `unknown`: there is one, at a service that keeps no names. */
export type Held = { pin: 'absent' | 'ours' | 'unknown' } | { pin: 'foreign'; name: string };

/**
 * What Sealpin asks of a service that holds bytes on IPFS. An adapter is not trusted: the core counts the bytes, computes the
 * CID itself, compares, and verifies every block that it reads back. `id` stands in stored rows, so it is never reused; a
 * service that names its files by a handle instead of the CID keeps handle and CID together behind this contract.
 *
 * Every method may throw, besides the reason of an aborted signal: `pinning_unavailable` (not reached, or told to wait:
 * `retryAfterSeconds`), `pinning_timeout`, `pinning_failed` (an answer that is not what the contract promises), `misconfigured`
 * (the address or the credentials are wrong), `disk_full`.
 *
 * A service has a pin name of its own. A pin under another name is somebody else's: neither it nor its name is changed.
 */
export interface PinningService {
  /** The name from the configuration, kept in rows. */
  readonly id: string;

  /**
   * Streams `body` to the service and pins it as `unixfs-v1-2025`. The body's pieces are used up: they may be empty after it.
   * When the body has ended it awaits `beforeLast()`, and only then sends the last bytes without which the service keeps
   * nothing. A throw from the body or from `beforeLast` aborts the request and is thrown on; nothing is pinned then.
   * Where the CID is pinned under another name already, that name is overwritten: `share` has to follow.
   * @param o.bytes the exact length of the body where it is known; a body of another length is `body_incomplete`
   * @returns the CID that the service computed, in the service's own words where it is none of ours
   */
  put(
    body: ReadableStream<Uint8Array>,
    o: { signal: AbortSignal; bytes?: number; beforeLast(): Promise<void> },
  ): Promise<{ cid: string }>;

  /** Whose recursive pin of the CID the service holds, if any. */
  stat(cid: string, signal: AbortSignal): Promise<Held>;

  /**
   * Keeps a CID besides a pin of somebody else's, after `put`: by a pin of our own that does not depend on that one, where the
   * service can do so. Gives the other pin its name back.
   */
  share(cid: string, name: string, signal: AbortSignal): Promise<void>;

  /** Undoes `share`; can be repeated. `foreign`: the pin of somebody else is still there. */
  unshare(cid: string, name: string | undefined, signal: AbortSignal): Promise<'absent' | 'foreign'>;

  /** Removes the pin; `absent` when there was none, so that it can be repeated; `foreign` when it is not ours: then it stays. */
  unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'>;

  /** One block, at most 2 MiB, not verified; `pinning_lost` when the service does not have it. */
  block(cid: string, signal: AbortSignal): Promise<Uint8Array>;

  /** `length` bytes of the file from byte `offset`, not verified. The signal also ends the stream. */
  read(cid: string, offset: number, length: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;

  /** Whether the service answers and takes our credentials. */
  ping(signal: AbortSignal): Promise<{ version: string }>;
}

export { pinningServices } from './services.ts';
