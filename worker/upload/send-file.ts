/** A file in one request: read in leaves, sent in parts, each of which is kept while the next one arrives. */
import { leafBytes } from '../../shared/ipfs/index.ts';
import { concat } from '../../shared/streams/concat.ts';
import { byteReader } from '../../shared/streams/reader.ts';
import type { PinningService } from '../pinning/contract.ts';
import { importRoot, partWriter, type Part, type SentPart } from './part-writer.ts';
import type { Turns } from './turns.ts';

export type SendOptions = {
  service: PinningService;
  /** Ends the upload. */
  signal: AbortSignal;
  /** Makes a part stay, once the service holds it: it has a row from before it is pinned. */
  keep(sent: SentPart, signal: AbortSignal): Promise<void>;
  /** How many leaves all uploads may have in work at once. */
  turns: Turns;
  /** The clock, in ms. */
  now(): number;
};

/** How long a turn may wait for the bytes of its leaf, in ms: what a fast client takes for 1 MiB, at 20 MiB/s. */
export const quickMs = 50;

/** What a service holds and has not pinned yet: the CID of the file and its length in bytes. */
export type SentFile = { cid: string; bytes: number };

/**
 * Sends a file to a service. Its root is not pinned afterwards; all parts but the last one are kept, where there are several.
 * @param file is cancelled where the upload fails
 * @throws what the file, the service and `keep` throw, whichever comes first; the reason of the signal
 */
export async function sendFile(
  file: ReadableStream<Uint8Array>,
  { service, keep, turns, now, signal: outer }: SendOptions,
): Promise<SentFile> {
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);
  const reader = byteReader(file);
  const writer = partWriter({ service, signal, firstLeaf: 0, now });
  const parts: Part[] = [];
  let keeping: Promise<void> = Promise.resolve();
  // A cancelled read looks like the end of the file, so the signal is checked after each.
  const cancelFile = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', cancelFile, { once: true });

  /** Ends the open part. It is kept while the next one is sent, so that there are never more than two. */
  async function closePart(): Promise<void> {
    const sent = await writer.close();
    if (sent === undefined) return;
    parts.push(sent.part);
    await keeping;
    keeping = keep(sent, signal);
    // It may fail while the upload waits for bytes, which then nobody wants.
    keeping.catch((error: unknown) => stop.abort(error));
  }

  /** Waits for the bytes of a leaf. A part that is due while the client sends nothing does not wait for it. */
  async function arrival(pending: Promise<Uint8Array>): Promise<void> {
    const dueAt = writer.dueAt();
    if (dueAt !== undefined && !(await settlesBefore(pending, dueAt - now()))) await closePart();
    await pending;
  }

  /** Reads a leaf and sends it, in a turn. @returns whether more may follow */
  async function passLeaf(isFirst: boolean): Promise<boolean> {
    let turn = await turns.take();
    try {
      const pending = reader.read(leafBytes);
      pending.catch(() => undefined);
      if (!(await settlesBefore(pending, quickMs))) {
        turn.end();
        await arrival(pending);
        turn = await turns.take();
      }
      const leaf = await pending;
      signal.throwIfAborted();
      const { length } = leaf;
      if (length === 0 && !isFirst) return false;
      // A full part stays open until it is known that more follows: the only part of a file needs no pin of its own.
      if (writer.isDue()) await closePart();
      const { sent } = await writer.add(leaf);
      await sent;
      return length === leafBytes;
    } finally {
      turn.end();
    }
  }

  try {
    for (let isFirst = true; await passLeaf(isFirst);) isFirst = false;
    const last = await writer.close();
    if (last !== undefined) parts.push(last.part);
    await Promise.all([keeping, last?.held]);
    const digests = concat(...parts.map((part) => part.digests));
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
    const [only, ...others] = parts;
    if (only !== undefined && others.length === 0) return { cid: only.cid, bytes };
    return { cid: await importRoot(service, { digests, bytes, signal }), bytes };
  } catch (error) {
    stop.abort(error);
    writer.abort(signal.reason);
    await keeping.catch(() => undefined);
    throw signal.reason;
  } finally {
    signal.removeEventListener('abort', cancelFile);
  }
}

/** Whether a promise settles within so many milliseconds. */
export async function settlesBefore(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | null = null;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.max(0, ms));
  });
  const settled = promise.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}
