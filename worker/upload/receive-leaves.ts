/** The bytes of a request that continues an upload: into leaves, into parts, and recorded every few seconds. */
import { SealpinError } from '../../shared/errors.ts';
import { sha256 } from '../../shared/ipfs/index.ts';
import { leafMemory } from '../leaf-memory.ts';
import type { ArrivingBody } from './body.ts';
import type { LeafAnnouncer } from './leaf-announcer.ts';
import type { LeafSource, LeafState } from './leaf-source.ts';
import type { PartWriter, SentPart } from './part-writer.ts';
import { quickMs, settlesBefore } from './send-parts.ts';
import type { Permit, Semaphore } from './semaphore.ts';

/** Time after which bytes that have arrived are recorded, in ms. */
const saveMs = 5000;
/** The most bytes that are asked of a client which was slow: it has their memory for as long as it sends nothing. */
const slowBytes = 64 * 1024;

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
  /** Announcer of the writer, for the last leaf, which is stored before it is sent. */
  announcer?: LeafAnnouncer | undefined;
  /**
   * Records how far the upload has come, with the part that holds what is new.
   * @param take says how far, at the last moment: bytes that arrive while the part is pinned, and fill no leaf, are recorded with it
   * @param isLast whether every byte has arrived
   */
  save(part: SentPart | undefined, take: () => LeafState, isLast: boolean): Promise<void>;
  permits: Semaphore;
  /** The clock, in ms. */
  now(): number;
};

/**
 * State that is being recorded: `state` is that after so many `leaves`. Once it `isTaken`, later bytes take another
 * call.
 */
type Save = { state: LeafState; leaves: number; isTaken: boolean };

/** Bytes that have arrived; none at the end, or where the body is `broken`. */
type Read = { bytes: Uint8Array<ArrayBuffer>; broken?: Error };

/**
 * Receives bytes until the body ends, or the file. What has arrived is recorded even if the body breaks.
 * @returns how many bytes of the file have arrived
 * @throws what the body throws, once that is recorded; what the writer and `save` throw
 */
export async function receiveLeaves(o: ReceiveOptions): Promise<number> {
  const { body, source, writer, length, maxBytes, announcer, save, permits, now } = o;
  const limit = length ?? maxBytes;
  let { offset, leaves } = o;
  let savedOffset = offset;
  let unsavedSince = Number.POSITIVE_INFINITY;
  let isQuick = false;
  let saving: Promise<void> = Promise.resolve();
  let current: Save | undefined;
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);

  const dueAt = (): number =>
    writer.canClose() ? Math.min(unsavedSince + saveMs, writer.dueAt() ?? Number.POSITIVE_INFINITY) : Infinity;

  /**
   * Takes a permit. Leaves that are not announced keep theirs. Where none is free, they are announced once all before them are sent: sooner,
   * each permit that comes free would bring one more leaf, announced alone.
   */
  async function nextPermit(): Promise<Permit> {
    if (permits.isFree()) return await permits.acquire();
    let isWaiting = true;
    const permit = permits.acquire().finally(() => (isWaiting = false));
    await Promise.race([permit, writer.announcedSent()]);
    if (isWaiting) writer.flush();
    return await permit;
  }

  /** Makes leaves and sends them, under a permit that is released once they are sent. Meanwhile the next ones are made, under another one. */
  async function send(permit: Permit, make: () => Promise<Uint8Array[]>): Promise<void> {
    let last: Promise<void> = Promise.resolve();
    try {
      for (const leaf of await make()) {
        ({ sent: last } = await writer.add(leaf));
        leaves += 1;
      }
    } finally {
      void last.catch(() => undefined).finally(() => permit.release());
    }
  }

  /** Records what has arrived. The part is pinned while the next bytes arrive, so that there are never more than two. */
  async function saveSoon(): Promise<void> {
    const part = await writer.close();
    // A request of whole MiB ends a little after a leaf in encrypted mode: its last bytes come when the part is already closed.
    const running = current?.isTaken === false && current.leaves === leaves ? current : undefined;
    if (running === undefined) await saving;
    if (part === undefined && offset === savedOffset) return;
    savedOffset = offset;
    unsavedSince = Number.POSITIVE_INFINITY;
    const state = source.state();
    if (running !== undefined) {
      running.state = state;
      return;
    }
    const own: Save = { state, leaves, isTaken: false };
    current = own;
    saving = save(part, () => take(own), false);
    // It may fail while the upload waits for bytes, which then nobody wants.
    saving.catch((error: unknown) => failed.reject(error));
  }

  function take(own: Save): LeafState {
    own.isTaken = true;
    return own.state;
  }

  /** Asks for the next bytes, which fill one leaf at most, so that no part gets more than it may. A body that breaks gives none. */
  function ask(): Promise<Read> {
    const most = Math.min(source.room(), limit - offset);
    return body.read(isQuick ? most : Math.min(most, slowBytes)).then(
      (bytes) => ({ bytes }),
      (broken: Error) => ({ bytes: new Uint8Array(0), broken }),
    );
  }

  /** Waits for bytes, under a permit that is released while the client is slow. What is due to be recorded does not wait for them. */
  async function arrival(): Promise<Read & { permit: Permit }> {
    const permit = await nextPermit();
    const reading = ask();
    isQuick = await settlesBefore(reading, quickMs);
    if (isQuick) return { ...(await reading), permit };
    writer.flush();
    permit.release();
    while (Number.isFinite(dueAt()) && !(await settlesBefore(reading, dueAt() - now()))) await saveSoon();
    const got = await Promise.race([reading, failed.promise]);
    return { ...got, permit: await permits.acquire() };
  }

  async function announceTail(tail: Uint8Array): Promise<void> {
    const announced = announcer?.add(leaves, await sha256(tail));
    announcer?.flush();
    await announced;
  }

  async function saveLast(): Promise<void> {
    await send(await nextPermit(), () => source.finish());
    const state = source.state();
    const part = await writer.close();
    if (state.tail.length > 0) await announceTail(state.tail);
    await saving;
    await save(part, () => state, true);
  }

  try {
    let broken: Error | undefined;
    while (offset < limit) {
      const { bytes, permit, ...got } = await arrival();
      ({ broken } = got);
      const { length: count } = bytes;
      if (count === 0) {
        permit.release();
        leafMemory.giveBack(bytes);
        break;
      }
      await send(permit, () => source.write(bytes));
      if (offset === savedOffset) unsavedSince = now();
      offset += count;
      // All bytes are recorded together with the end of the file: who has sent them all does not come back.
      if (offset !== length && (writer.isDue() || now() >= dueAt())) await saveSoon();
    }
    if (offset === length) await saveLast();
    else {
      const isWhole = writer.canClose();
      if (isWhole) await saveSoon();
      // What was announced to a store, and has not come, is not stored, nor is what came before it.
      else writer.abort(broken);
      await saving;
      if (broken !== undefined) throw broken;
      if (!isWhole) throw new SealpinError('body_incomplete');
    }
    return offset;
  } catch (error) {
    writer.abort(error);
    await Promise.allSettled([saving, body.cancel(error)]);
    throw error;
  }
}
