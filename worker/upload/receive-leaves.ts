/** The bytes of a request that continues an upload: into leaves and parts, and recorded. */
import { SealpinError } from '../../shared/errors.ts';
import { sha256 } from '../../shared/ipfs/index.ts';
import { interruptible, settlesWithin } from '../../shared/streams/timing.ts';
import { leafMemory } from '../leaf-memory.ts';
import { expectEnd, type ArrivingBody } from './checked-body.ts';
import type { LeafAnnouncer } from './leaf-announcer.ts';
import type { LeafSource, LeafState } from './leaf-source.ts';
import type { PartWriter, SentPart } from './part-writer.ts';
import { quickMs } from './send-parts.ts';
import type { Permit, Semaphore } from './semaphore.ts';

/** Time after which bytes that have arrived are recorded, in ms. */
const saveMs = 5000;
/**
 * The most bytes that are asked of a client which was slow: it has their memory for as long as it
 * sends nothing.
 */
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
   * @param take says how far, at the last moment: bytes that arrive while the part is pinned, and
   * fill no leaf, are recorded with it
   * @param isLast whether every byte has arrived
   */
  save(part: SentPart | undefined, take: () => LeafState, isLast: boolean): Promise<void>;
  permits: Semaphore;
  /** The clock, in ms. */
  now(): number;
};

/**
 * State that is being recorded: `state` is that after so many `leaves`. Once it `isTaken`, later
 * bytes take another call.
 */
type Save = { state: LeafState; leaves: number; isTaken: boolean };

/** Bytes that have arrived; none at the end, or where the body is `broken`. */
type Read = { bytes: Uint8Array<ArrayBuffer>; broken?: Error };

/**
 * Receives bytes until the body ends, or the file. What has arrived is recorded even if the body
 * breaks.
 * @returns how many bytes of the file have arrived
 * @throws what the body throws, once that is recorded; too_large for bytes behind those of the
 * file; what the writer and `save` throw
 */
export async function receiveLeaves(options: ReceiveOptions): Promise<number> {
  return await new Receiver(options).run();
}

class Receiver {
  readonly #options: ReceiveOptions;
  /** Bytes of the file at which the request ends. */
  readonly #limit: number;
  #offset: number;
  #leaves: number;
  #savedOffset: number;
  #unsavedSince = Number.POSITIVE_INFINITY;
  #isQuick = false;
  #saving: Promise<void> = Promise.resolve();
  #current: Save | undefined;
  readonly #reads = interruptible();

  constructor(options: ReceiveOptions) {
    this.#options = options;
    this.#limit = options.length ?? options.maxBytes;
    this.#offset = options.offset;
    this.#savedOffset = options.offset;
    this.#leaves = options.leaves;
  }

  async run(): Promise<number> {
    const { writer, body } = this.#options;
    try {
      const broken = await this.#receive();
      if (this.#offset === this.#limit) await this.#reads.wait(expectEnd(body));
      if (this.#offset === this.#options.length) await this.#saveLast();
      else {
        const isWhole = writer.canClose();
        if (isWhole) await this.#saveSoon();
        // What was announced to a store, and has not come, is not stored, nor is what came before
        // it.
        else writer.abort(broken);
        await this.#saving;
        if (broken !== undefined) throw broken;
        if (!isWhole) throw new SealpinError('body_incomplete');
      }
      return this.#offset;
    } catch (error) {
      writer.abort(error);
      await Promise.allSettled([this.#saving, body.cancel(error)]);
      throw error;
    }
  }

  /** @returns the error of a body that broke */
  async #receive(): Promise<Error | undefined> {
    const { source, writer, length, now } = this.#options;
    while (this.#offset < this.#limit) {
      const { bytes, permit, broken } = await this.#arrival();
      const { length: count } = bytes;
      if (count === 0) {
        permit.release();
        leafMemory.giveBack(bytes);
        return broken;
      }
      await this.#send(permit, () => source.write(bytes));
      if (this.#offset === this.#savedOffset) this.#unsavedSince = now();
      this.#offset += count;
      // All bytes are recorded together with the end of the file: who has sent them all does not
      // come back.
      if (this.#offset !== length && (writer.isDue() || now() >= this.#dueAt())) await this.#saveSoon();
    }
    return undefined;
  }

  #dueAt(): number {
    const { writer } = this.#options;
    if (!writer.canClose()) return Number.POSITIVE_INFINITY;
    return Math.min(this.#unsavedSince + saveMs, writer.dueAt() ?? Number.POSITIVE_INFINITY);
  }

  /**
   * Takes a permit. Leaves that are not announced keep theirs. Where none is free, they are
   * announced once all before them are sent: sooner, each permit that comes free would bring one
   * more leaf, announced alone.
   */
  async #nextPermit(): Promise<Permit> {
    const { permits, writer } = this.#options;
    if (permits.isFree()) return await permits.acquire();
    let isWaiting = true;
    const permit = permits.acquire().finally(() => (isWaiting = false));
    await Promise.race([permit, writer.announcedSent()]);
    if (isWaiting) writer.flush();
    return await permit;
  }

  /**
   * Makes leaves and sends them, under a permit that is released once they are sent. Meanwhile the
   * next ones are made, under another one.
   */
  async #send(permit: Permit, make: () => Promise<Uint8Array[]>): Promise<void> {
    let last: Promise<void> = Promise.resolve();
    try {
      for (const leaf of await make()) {
        ({ sent: last } = await this.#options.writer.add(leaf));
        this.#leaves += 1;
      }
    } finally {
      void last.catch(() => undefined).finally(() => permit.release());
    }
  }

  /**
   * Records what has arrived. The part is pinned while the next bytes arrive, so that there are
   * never more than two.
   */
  async #saveSoon(): Promise<void> {
    const { writer, source, save } = this.#options;
    const part = await writer.close();
    // A request of whole MiB ends a little after a leaf in encrypted mode: its last bytes come when
    // the part is already closed.
    const isOpen = this.#current?.isTaken === false && this.#current.leaves === this.#leaves;
    const running = isOpen ? this.#current : undefined;
    if (running === undefined) await this.#saving;
    if (part === undefined && this.#offset === this.#savedOffset) return;
    this.#savedOffset = this.#offset;
    this.#unsavedSince = Number.POSITIVE_INFINITY;
    const state = source.state();
    if (running !== undefined) {
      running.state = state;
      return;
    }
    const own: Save = { state, leaves: this.#leaves, isTaken: false };
    const take = (): LeafState => {
      own.isTaken = true;
      return own.state;
    };
    this.#current = own;
    this.#saving = save(part, take, false);
    // It may fail while the upload waits for bytes, which then nobody wants.
    this.#saving.catch(this.#reads.interrupt);
  }

  /**
   * Asks for the next bytes, which fill one leaf at most, so that no part gets more than it may. A
   * body that breaks gives none.
   */
  async #ask(): Promise<Read> {
    const { source, body } = this.#options;
    const most = Math.min(source.room(), this.#limit - this.#offset);
    try {
      return { bytes: await body.read(this.#isQuick ? most : Math.min(most, slowBytes)) };
    } catch (broken) {
      return { bytes: new Uint8Array(0), broken: broken as Error };
    }
  }

  /**
   * Waits for bytes, under a permit that is released while the client is slow. What is due to be
   * recorded does not wait for them.
   */
  async #arrival(): Promise<Read & { permit: Permit }> {
    const { writer, permits, now } = this.#options;
    const permit = await this.#nextPermit();
    const reading = this.#ask();
    this.#isQuick = await settlesWithin(reading, quickMs);
    if (this.#isQuick) return { ...(await reading), permit };
    writer.flush();
    permit.release();
    while (Number.isFinite(this.#dueAt()) && !(await settlesWithin(reading, this.#dueAt() - now())))
      await this.#saveSoon();
    const got = await this.#reads.wait(reading);
    return { ...got, permit: await permits.acquire() };
  }

  async #saveLast(): Promise<void> {
    const { source, writer, announcer, save } = this.#options;
    await this.#send(await this.#nextPermit(), () => source.finish());
    const state = source.state();
    const part = await writer.close();
    if (state.tail.length > 0) {
      const announced = announcer?.add(this.#leaves, await sha256(state.tail));
      announcer?.flush();
      await announced;
    }
    await this.#saving;
    await save(part, () => state, true);
  }
}
