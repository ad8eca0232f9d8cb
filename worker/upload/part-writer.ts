/**
 * The engine of every upload, in one request or many: leaves of 1 MiB go out in parts. A part is at most 16 leaves, in one request up to
 * 64, or 5 s of arrival; it is one import at the pinning service, which ends with the node above its leaves. The root above the parts is made
 * at the end, from the digests of the leaves alone.
 */
import { cidOf, digestBytes, sha256, treeOf, type Cid } from '../../shared/ipfs/index.ts';
import { concat } from '../../shared/streams/concat.ts';
import type { BlockImport, PinningService } from '../pinning/contract.ts';
import type { LeafAnnouncer } from './leaf-announcer.ts';

/** Leaves of a part, or of the first one of an upload in one request. More than 1,024 would need more than one node. */
export const partLeaves = 16;
/** The most leaves of a part: some proxies take no body of more than 100 MB. */
const mostPartLeaves = 64;

/**
 * How many leaves the next part has after one with so many, in an upload in one request. Each part is rows, calls and a pin; they keep
 * nothing that a request which breaks could go on with, so that large files need few.
 */
export function nextPartLeaves(leaves: number): number {
  return Math.min(2 * leaves, mostPartLeaves);
}

/** How long a part may stay open, in ms: an import must not last as long as a slow client takes. */
export const partMs = 5000;

/** A part whose blocks are on their way to the service, and not pinned yet. */
export type Part = {
  /** Of the node above the leaves; of the leaf itself, where there is one only. */
  cid: string;
  /** The number of its first leaf in the file. */
  firstLeaf: number;
  /** SHA-256 of each leaf, 32 bytes each, in order. */
  digests: Uint8Array;
  /** Bytes of its leaves: a multiple of 1 MiB, unless it holds the last leaf of the file. */
  bytes: number;
};

/** A part that was sent. `held` resolves once the service holds its blocks; it may fail before anybody waits for it. */
export type SentPart = { part: Part; held: Promise<void> };

export type PartWriterOptions = {
  service: PinningService;
  /** Ends the request to the service. */
  signal: AbortSignal;
  /** The number of the first leaf in the file: how many were sent before, in this request or an earlier one. */
  firstLeaf: number;
  /** How many leaves the next part has after one with so many; unless given, all have 16. */
  grow?(leaves: number): number;
  /**
   * Before the first byte of a leaf leaves the Worker, the leaf is announced; it waits for that, and so do those after it. A durable
   * write may take as long as all else that is done for a leaf, so leaves are announced together: 8, 4, 2, 1 and 1 of 16, so that
   * few are left to be sent when it ends.
   */
  announcer?: LeafAnnouncer | undefined;
  /** The clock, in ms. */
  now(): number;
};

/** Writes the leaves of a file, one call at a time. After a call that throws, only `abort` may follow. */
export interface PartWriter {
  /**
   * Sends a leaf after those before it; `sent` resolves once the network has taken it. It is 1 MiB of memory until then, which the
   * caller has to limit. All but the last one of the file have 1 MiB. The bytes are used up.
   */
  add(leaf: Uint8Array): Promise<{ sent: Promise<void> }>;
  /** Has the leaves announced that wait for more of them: the caller is about to wait for something else, as a slow client. */
  flush(): void;
  /** Whether the open part is full or its time is up: the caller then calls `close`, before it adds another leaf. */
  isDue(): boolean;
  /** When the open part is due at the latest, in ms; undefined where none is open. */
  dueAt(): number | undefined;
  /**
   * Ends the open part, whose leaves may still be on their way; undefined where none is open. The next leaf opens another one, and is
   * sent while the service still writes this one.
   */
  close(): Promise<SentPart | undefined>;
  /** Ends the import that is open. */
  abort(reason: unknown): void;
}

type OpenPart = { blocks: BlockImport; firstLeaf: number; digests: Uint8Array[]; bytes: number; dueAt: number };

/** A writer of parts for one file, or for one request's share of it. Each leaf is hashed once. */
export function partWriter({
  service,
  signal,
  firstLeaf,
  grow = (leaves) => leaves,
  announcer,
  now,
}: PartWriterOptions): PartWriter {
  let next = firstLeaf;
  let most = partLeaves;
  let open: OpenPart | undefined;
  let sent: Promise<void> = Promise.resolve();
  let unannounced = 0;
  let failure: { cause: unknown } | undefined;

  const isFull = (): boolean => open !== undefined && open.digests.length >= most;

  function flush(): void {
    announcer?.flush();
    unannounced = 0;
  }

  return {
    async add(leaf) {
      signal.throwIfAborted();
      if (failure !== undefined) throw failure.cause;
      const bytes = leaf.length;
      const dueAt = now() + partMs;
      const digest = await sha256(leaf);
      open ??= { blocks: service.importBlocks(signal), firstLeaf: next, digests: [], bytes: 0, dueAt };
      const { blocks } = open;
      const ready = Promise.all([sent, announcer?.add(next, digest)]);
      sent = ready.then(() => blocks.write(cidOf('raw', digest), leaf));
      // Where it fails, the next step does.
      sent.catch((cause: unknown) => (failure ??= { cause }));
      open.digests.push(digest);
      open.bytes += bytes;
      next += 1;
      unannounced += 1;
      if (unannounced >= most - open.digests.length) flush();
      return { sent };
    },

    flush,
    isDue: () => isFull() || (open !== undefined && now() >= open.dueAt),
    dueAt: () => open?.dueAt,

    async close() {
      if (open === undefined) return undefined;
      flush();
      const { blocks, firstLeaf, bytes } = open;
      const digests = concat(...open.digests);
      const leaves = sent;
      open = undefined;
      most = grow(most);
      const nodes: [Cid, Uint8Array][] = [];
      const root = await treeOf(digests, bytes, { onNode: (cid, block) => void nodes.push([cid, block]) });
      const held = leaves.then(async () => {
        for (const node of nodes) await blocks.write(...node);
        await blocks.finish();
      });
      held.catch(() => undefined);
      return { part: { cid: root.text, firstLeaf, digests, bytes }, held };
    },

    abort(reason) {
      announcer?.abort(reason);
      open?.blocks.abort(reason);
      open = undefined;
    },
  };
}

/**
 * Imports what is above the parts of a file: its interior nodes, the root last. The leaves are there already, but for the last one
 * where it is given.
 * @param digests SHA-256 of each leaf of the file, 32 bytes each, in order
 * @param bytes of the file
 * @param lastLeaf is used up
 * @returns the CID of the file
 */
export async function importRoot(
  service: PinningService,
  {
    digests,
    bytes,
    lastLeaf,
    signal,
  }: { digests: Uint8Array; bytes: number; lastLeaf?: Uint8Array | undefined; signal: AbortSignal },
): Promise<string> {
  const blocks = service.importBlocks(signal);
  try {
    if (lastLeaf !== undefined) await blocks.write(cidOf('raw', digests.slice(-digestBytes)), lastLeaf);
    const root = await treeOf(digests, bytes, { onNode: (cid, block) => blocks.write(cid, block) });
    await blocks.finish();
    return root.text;
  } catch (error) {
    blocks.abort(error);
    throw error;
  }
}
