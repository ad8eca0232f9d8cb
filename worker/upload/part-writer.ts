/**
 * The engine of every upload, in one request or many: leaves of 1 MiB go out in parts. A part is
 * one import at the pinning service, which ends with the node above its leaves. The root above the
 * parts is made at the end, from the digests of the leaves alone.
 */
import * as ipfs from '../../shared/ipfs/index.ts';
import { concat } from '../../shared/streams/concat.ts';
import type { BlockImport, Intake } from '../backends/contract.ts';
import type { LeafAnnouncer } from './leaf-announcer.ts';

/** A part whose blocks are on their way to the service, and not pinned yet. */
export type Part = {
  /** CID of the node above the leaves; of the leaf itself, if there is only one. */
  cid: string;
  /** The number of its first leaf in the file. */
  firstLeaf: number;
  /** SHA-256 of each leaf, 32 bytes each, in order. */
  digests: Uint8Array;
  /** Bytes of its leaves: a multiple of 1 MiB, unless it holds the last leaf of the file. */
  bytes: number;
};

/**
 * A part that was sent. `held` resolves once the service holds its blocks; it may fail before
 * anybody waits for it. `name`: of its objects in a store, from then on.
 */
export type SentPart = { part: Part; held: Promise<void>; name?: (() => string) | undefined };

export type PartWriterOptions = {
  service: Intake;
  /** Ends the request to the service. */
  signal: AbortSignal;
  /** The number of the first leaf: how many were sent before, perhaps in another request. */
  firstLeaf: number;
  /** Set if another request can continue after the last part. */
  isContinued?: boolean;
  /**
   * Before the first byte of a leaf leaves the Worker, the leaf is announced; it waits for that,
   * and so do those after it. A durable write may take as long as all else that is done for a leaf,
   * so leaves wait for `flush` and are announced together.
   */
  announcer?: LeafAnnouncer | undefined;
  /**
   * Number of leaves that are expected in all. Fewer are announced together towards the end, so
   * that few are left to be sent then.
   */
  expected?: number | undefined;
  /** Bytes of leaves that come for certain; undefined where that is not known. */
  bytes?: number | undefined;
  /** The clock, in ms. */
  now(): number;
};

type OpenPart = { blocks: BlockImport; firstLeaf: number; digests: Uint8Array[]; bytes: number; openedAt: number };

/**
 * Writes the leaves of one file, or of one request's share of it, one call at a time; each leaf is
 * hashed once. After a call that throws, only `abort` may follow.
 */
export class PartWriter {
  readonly #options: PartWriterOptions;
  #next: number;
  /** Bytes that still come for certain, and when the last leaf came, in ms. */
  #left: number;
  #lastAt: number;
  #open: OpenPart | undefined;
  #sent: Promise<void> = Promise.resolve();
  #announced = this.#sent;
  #unannounced = 0;
  #failure: { cause: unknown } | undefined;

  constructor(options: PartWriterOptions) {
    this.#options = options;
    this.#next = options.firstLeaf;
    this.#left = options.bytes ?? 0;
    this.#lastAt = options.now();
  }

  /**
   * Sends a leaf after those before it; `sent` resolves once the network has taken it. It is 1 MiB
   * of memory until then, which the caller must limit. All but the last one of the file have 1 MiB.
   * The bytes are used up.
   */
  async add(leaf: Uint8Array): Promise<{ sent: Promise<void> }> {
    const { service, signal, firstLeaf, announcer, expected = Number.POSITIVE_INFINITY, now } = this.#options;
    signal.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure.cause;
    const bytes = leaf.length;
    const openedAt = now();
    const digest = await ipfs.sha256(leaf);
    const planned = this.#plan(openedAt);
    const firstOfPart = this.#next;
    this.#open ??= {
      blocks: service.importBlocks(signal, planned),
      firstLeaf: firstOfPart,
      digests: [],
      bytes: 0,
      openedAt,
    };
    this.#lastAt = openedAt;
    this.#left = Math.max(0, this.#left - bytes);
    const { blocks } = this.#open;
    const ready = Promise.all([this.#sent, announcer?.add(this.#next, digest)]);
    const sent = ready.then(() => blocks.write(ipfs.cidOf('raw', digest), leaf));
    // Where it fails, the next step does.
    sent.catch((cause: unknown) => (this.#failure ??= { cause }));
    this.#sent = sent;
    this.#open.digests.push(digest);
    this.#open.bytes += bytes;
    this.#next += 1;
    this.#unannounced += 1;
    if (this.#unannounced >= firstLeaf + expected - this.#next) this.flush();
    return { sent };
  }

  /**
   * Has the leaves announced that wait for more of them: the caller is about to wait for something
   * else, as a slow client.
   */
  flush(): void {
    this.#options.announcer?.flush();
    this.#announced = this.#sent.catch(() => undefined);
    this.#unannounced = 0;
  }

  /** Resolves once the leaves that were announced are sent, or have failed. */
  async announcedSent(): Promise<void> {
    await this.#announced;
  }

  /**
   * Tells whether the open part is full or its time is up: the caller then calls `close`, before it
   * adds another leaf.
   */
  isDue(): boolean {
    const dueAt = this.dueAt();
    if (this.#open === undefined || dueAt === undefined) return false;
    return this.#isFull(this.#open) || this.#options.now() >= dueAt;
  }

  /** Tells whether nothing is open that lacks bytes which were announced. */
  canClose(): boolean {
    return this.#open?.blocks.bytes === undefined || this.#isFull(this.#open);
  }

  /**
   * Returns the time at which the open part is due at the latest, in ms; undefined if none is open
   * that can be ended.
   */
  dueAt(): number | undefined {
    if (this.#open === undefined || !this.canClose()) return undefined;
    const { openedAt, digests } = this.#open;
    return openedAt + (this.#options.isContinued === true ? ipfs.continuedPartMs(digests.length) : ipfs.partMs);
  }

  /**
   * Ends the open part, whose leaves may still be on their way; undefined where none is open. The
   * next leaf opens another one, and is sent while the service still writes this one.
   */
  async close(): Promise<SentPart | undefined> {
    if (this.#open === undefined) return undefined;
    this.flush();
    const { blocks, firstLeaf, bytes } = this.#open;
    const digests = concat(...this.#open.digests);
    const leaves = this.#sent;
    this.#open = undefined;
    const nodes: [ipfs.Cid, Uint8Array][] = [];
    const root = await ipfs.treeOf(digests, bytes, { onNode: (cid, block) => void nodes.push([cid, block]) });
    const held = leaves.then(async () => {
      for (const node of nodes) await blocks.write(...node);
      await blocks.finish();
    });
    held.catch(() => undefined);
    return { part: { cid: root.text, firstLeaf, digests, bytes }, held, name: blocks.name };
  }

  /** Ends the import that is open. */
  abort(reason: unknown): void {
    this.#options.announcer?.abort(reason);
    this.#open?.blocks.abort(reason);
    this.#open = undefined;
  }

  #isFull({ blocks, firstLeaf, digests, bytes }: OpenPart): boolean {
    return blocks.bytes === undefined ? digests.length >= this.#most(firstLeaf) : bytes >= blocks.bytes;
  }

  /** The most leaves of a part. */
  #most(firstLeaf: number): number {
    return Math.min(ipfs.partLeaves(firstLeaf), this.#options.service.partLeaves ?? ipfs.mostPartLeaves);
  }

  /** Bytes of the part that a leaf begins: what comes within its time at the pace of that leaf. */
  #plan(openedAt: number): number {
    const leaves = Math.floor(ipfs.partMs / Math.max(1, openedAt - this.#lastAt));
    return Math.min(this.#left, Math.max(1, Math.min(leaves, this.#most(this.#next))) * ipfs.leafBytes);
  }
}
