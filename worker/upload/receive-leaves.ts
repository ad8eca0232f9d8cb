/** The bytes of a request that goes on with an upload: into leaves, into parts, and recorded every few seconds. */
import { sha256 } from '../../shared/ipfs/index.ts';
import type { ArrivingBody } from './body.ts';
import type { LeafSource, LeafState } from './leaf-source.ts';
import type { PartWriter, SentPart } from './part-writer.ts';
import { quickMs, settlesBefore } from './send-file.ts';
import type { Turns } from './turns.ts';

/**
 * Bytes of one read: 1 MiB less two chunks of a payload, so that with what encryption adds, and the rest of a chunk from before, a
 * read ends one leaf at most, and no part gets more leaves than it may.
 */
const readBytes = 1024 * 1024 - 2 * 16_384;
/** How long bytes may have arrived before they are recorded, in ms. */
const saveMs = 5000;

export type ReceiveOptions = {
  body: ArrivingBody;
  source: LeafSource;
  writer: PartWriter;
  /** Bytes of the file that arrived before, and leaves that are stored. */
  offset: number;
  leaves: number;
  /** Bytes of the file where they are known, and the most that it may have. */
  length: number | null;
  maxBytes: number;
  /** Called before a leaf is sent or stored as the last one, as the writer does for the others. */
  beforeLeaf?: ((index: number, digest: Uint8Array) => Promise<void>) | undefined;
  /** Records how far the upload has come, with the part that holds what is new. @param isLast whether every byte has arrived */
  save(part: SentPart | undefined, state: LeafState, isLast: boolean): Promise<void>;
  turns: Turns;
  /** The clock, in ms. */
  now(): number;
};

/** Bytes that have arrived; none at the end, or where the body is `broken`. */
type Read = { bytes: Uint8Array<ArrayBuffer>; broken?: Error };

/**
 * Receives bytes until the body ends, or the file. What has arrived is recorded even if the body breaks.
 * @returns how many bytes of the file have arrived
 * @throws what the body throws, once that is recorded; what the writer and `save` throw
 */
export async function receiveLeaves(o: ReceiveOptions): Promise<number> {
  const { body, source, writer, length, maxBytes, beforeLeaf, save, turns, now } = o;
  const limit = length ?? maxBytes;
  let { offset, leaves } = o;
  let savedOffset = offset;
  let unsavedSince = Number.POSITIVE_INFINITY;
  let saving: Promise<void> = Promise.resolve();
  /** The memory of a read whose bytes are in leaves. */
  let spare: ArrayBuffer | undefined;
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);

  const dueAt = (): number => Math.min(unsavedSince + saveMs, writer.dueAt() ?? Number.POSITIVE_INFINITY);

  /** Makes leaves and sends them, in a turn that ends once they are sent. Meanwhile the next ones are made, in another turn. */
  async function send(make: () => Promise<Uint8Array[]>): Promise<void> {
    const turn = await turns.take();
    let last: Promise<void> = Promise.resolve();
    try {
      for (const leaf of await make()) {
        ({ sent: last } = await writer.add(leaf));
        leaves += 1;
      }
    } finally {
      void last.catch(() => undefined).finally(() => turn.end());
    }
  }

  /** Records what has arrived. The part is pinned while the next bytes arrive, so that there are never more than two. */
  async function saveSoon(): Promise<void> {
    const part = await writer.close();
    await saving;
    if (part === undefined && offset === savedOffset) return;
    savedOffset = offset;
    unsavedSince = Number.POSITIVE_INFINITY;
    saving = save(part, source.state(), false);
    // It may fail while the upload waits for bytes, which then nobody wants.
    saving.catch((error: unknown) => failed.reject(error));
  }

  /** Asks for bytes behind `taken` that are not counted yet. A body that breaks gives none. */
  function ask(taken: number): Promise<Read> {
    const memory = spare ?? new ArrayBuffer(readBytes);
    spare = undefined;
    return body.read(new Uint8Array(memory, 0, Math.min(readBytes, limit - offset - taken))).then(
      (bytes) => ({ bytes }),
      (broken: Error) => ({ bytes: new Uint8Array(0), broken }),
    );
  }

  /** Waits for bytes. What is due to be recorded does not wait for them. */
  async function arrival(reading: Promise<Read>): Promise<Read> {
    // A client that is slow needs no second buffer.
    if (!(await settlesBefore(reading, quickMs))) spare = undefined;
    while (Number.isFinite(dueAt()) && !(await settlesBefore(reading, dueAt() - now()))) await saveSoon();
    return await Promise.race([reading, failed.promise]);
  }

  async function saveLast(): Promise<void> {
    await send(() => source.finish());
    const state = source.state();
    const part = await writer.close();
    if (state.tail.length > 0) await beforeLeaf?.(leaves, await sha256(state.tail));
    await saving;
    await save(part, state, true);
  }

  try {
    let broken: Error | undefined;
    for (let reading = offset < limit ? ask(0) : undefined; reading !== undefined && offset < limit;) {
      const got = await arrival(reading);
      ({ broken } = got);
      const { length: count } = got.bytes;
      if (count === 0) break;
      // The next bytes arrive while these are sent.
      if (offset + count < limit) reading = ask(count);
      await send(() => source.write(got.bytes));
      if (got.bytes.buffer.byteLength === readBytes) spare = got.bytes.buffer;
      if (offset === savedOffset) unsavedSince = now();
      offset += count;
      // All bytes are recorded together with the end of the file: who has sent them all does not come back.
      if (offset !== length && (writer.isDue() || now() >= dueAt())) await saveSoon();
    }
    if (offset === length) await saveLast();
    else {
      await saveSoon();
      await saving;
      if (broken !== undefined) throw broken;
    }
    return offset;
  } catch (error) {
    writer.abort(error);
    await Promise.allSettled([saving, body.cancel(error)]);
    throw error;
  }
}
