/**
 * The engine of every upload, in one request or many: leaves of 1 MiB go out in parts. A part is one import at the pinning service, which
 * ends with the node above its leaves. The root above the parts is made at the end, from the digests of the leaves alone.
 */
import { cidOf, leafBytes, sha256, treeOf, type Cid } from '../../shared/ipfs/index.ts';
import { concat } from '../../shared/streams/concat.ts';
import type { BlockImport, Intake } from '../backends/contract.ts';
import type { LeafAnnouncer } from './leaf-announcer.ts';

/** Leaves of the first part of a file. */
const leastPartLeaves = 16;
/** The most leaves of a part: some proxies take no body of more than 100 MB. More than 1,024 would need more than one node. */
const mostPartLeaves = 64;
/** Time for which a part may stay open, in ms: an import must not last as long as a slow client takes. */
export const partMs = 5000;
/** The same for a part that has as many leaves as the first one: a request that ends without notice loses those of its part. */
const largePartMs = 1000;

/**
 * Returns the largest number of leaves in a part. Each part is rows, calls and a pin, so that large files get large
 * ones.
 * @param leaves of the file before the part
 */
export function partLeaves(leaves: number): number {
  return Math.min(leaves + leastPartLeaves, mostPartLeaves);
}

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
 * A part that was sent. `held` resolves once the service holds its blocks; it may fail before anybody waits for it. `name`: of its objects
 * in a store, from then on.
 */
export type SentPart = { part: Part; held: Promise<void>; name?: (() => string) | undefined };

export type PartWriterOptions = {
  service: Intake;
  /** Ends the request to the service. */
  signal: AbortSignal;
  /** The number of the first leaf in the file: how many were sent before, in this request or an earlier one. */
  firstLeaf: number;
  /** Set if another request can continue after the last part. */
  isContinued?: boolean;
  /**
   * Before the first byte of a leaf leaves the Worker, the leaf is announced; it waits for that, and so do those after it. A durable
   * write may take as long as all else that is done for a leaf, so leaves wait for `flush` and are announced together.
   */
  announcer?: LeafAnnouncer | undefined;
  /**
   * Number of leaves that are expected in all. Fewer are announced together towards the end, so that few are left to be
   * sent then.
   */
  expected?: number | undefined;
  /** Bytes of leaves that come for certain; undefined where that is not known. */
  bytes?: number | undefined;
  /** The clock, in ms. */
  now(): number;
};

/** Writes the leaves of a file, one call at a time. After a call that throws, only `abort` may follow. */
export interface PartWriter {
  /**
   * Sends a leaf after those before it; `sent` resolves once the network has taken it. It is 1 MiB of memory until
   * then, which the caller must limit. All but the last one of the file have 1 MiB. The bytes are used up.
   */
  add(leaf: Uint8Array): Promise<{ sent: Promise<void> }>;
  /** Has the leaves announced that wait for more of them: the caller is about to wait for something else, as a slow client. */
  flush(): void;
  /** Resolves once the leaves that were announced are sent, or have failed. */
  announcedSent(): Promise<void>;
  /**
   * Tells whether the open part is full or its time is up: the caller then calls `close`, before it adds another leaf.
   */
  isDue(): boolean;
  /** Returns the time at which the open part is due at the latest, in ms; undefined if none is open that can be ended. */
  dueAt(): number | undefined;
  /** Tells whether nothing is open that lacks bytes which were announced. */
  canClose(): boolean;
  /**
   * Ends the open part, whose leaves may still be on their way; undefined where none is open. The next leaf opens another one, and is
   * sent while the service still writes this one.
   */
  close(): Promise<SentPart | undefined>;
  /** Ends the import that is open. */
  abort(reason: unknown): void;
}

type OpenPart = { blocks: BlockImport; firstLeaf: number; digests: Uint8Array[]; bytes: number; openedAt: number };

/** A writer of parts for one file, or for one request's share of it. Each leaf is hashed once. */
export function partWriter({
  service,
  signal,
  firstLeaf,
  isContinued = false,
  announcer,
  expected = Number.POSITIVE_INFINITY,
  bytes: announcedBytes = 0,
  now,
}: PartWriterOptions): PartWriter {
  let next = firstLeaf;
  let left = announcedBytes;
  let lastAt = now();
  let open: OpenPart | undefined;
  let sent: Promise<void> = Promise.resolve();
  let announced = sent;
  let unannounced = 0;
  let failure: { cause: unknown } | undefined;

  const most = (first: number): number => Math.min(partLeaves(first), service.partLeaves ?? mostPartLeaves);
  const isFull = ({ blocks, firstLeaf: first, digests, bytes }: OpenPart): boolean =>
    blocks.bytes === undefined ? digests.length >= most(first) : bytes >= blocks.bytes;
  const canClose = (): boolean => open?.blocks.bytes === undefined || isFull(open);

  /** Bytes of the part that a leaf begins, as many as come within its time at the pace of that leaf. */
  function plan(openedAt: number): number {
    const leaves = Math.floor(partMs / Math.max(1, openedAt - lastAt));
    return Math.min(left, Math.max(1, Math.min(leaves, most(next))) * leafBytes);
  }

  const dueAt = ({ openedAt, digests }: OpenPart): number =>
    openedAt + (isContinued && digests.length >= leastPartLeaves ? largePartMs : partMs);

  function flush(): void {
    announcer?.flush();
    announced = sent.catch(() => undefined);
    unannounced = 0;
  }

  return {
    async add(leaf) {
      signal.throwIfAborted();
      if (failure !== undefined) throw failure.cause;
      const bytes = leaf.length;
      const openedAt = now();
      const digest = await sha256(leaf);
      const planned = plan(openedAt);
      open ??= { blocks: service.importBlocks(signal, planned), firstLeaf: next, digests: [], bytes: 0, openedAt };
      lastAt = openedAt;
      left = Math.max(0, left - bytes);
      const { blocks } = open;
      const ready = Promise.all([sent, announcer?.add(next, digest)]);
      sent = ready.then(() => blocks.write(cidOf('raw', digest), leaf));
      // Where it fails, the next step does.
      sent.catch((cause: unknown) => (failure ??= { cause }));
      open.digests.push(digest);
      open.bytes += bytes;
      next += 1;
      unannounced += 1;
      if (unannounced >= firstLeaf + expected - next) flush();
      return { sent };
    },

    flush,
    announcedSent: () => announced,
    isDue: () => open !== undefined && canClose() && (isFull(open) || now() >= dueAt(open)),
    dueAt: () => (open !== undefined && canClose() ? dueAt(open) : undefined),
    canClose,

    async close() {
      if (open === undefined) return undefined;
      flush();
      const { blocks, firstLeaf: first, bytes } = open;
      const digests = concat(...open.digests);
      const leaves = sent;
      open = undefined;
      const nodes: [Cid, Uint8Array][] = [];
      const root = await treeOf(digests, bytes, { onNode: (cid, block) => void nodes.push([cid, block]) });
      const held = leaves.then(async () => {
        for (const node of nodes) await blocks.write(...node);
        await blocks.finish();
      });
      held.catch(() => undefined);
      return { part: { cid: root.text, firstLeaf: first, digests, bytes }, held, name: blocks.name };
    },

    abort(reason) {
      announcer?.abort(reason);
      open?.blocks.abort(reason);
      open = undefined;
    },
  };
}
