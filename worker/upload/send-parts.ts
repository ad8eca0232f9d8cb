/** Sending of a request's pieces in parts, each of which is kept while the next one arrives. */
import type { ContentKind } from '../../shared/api.ts';
import { settlesWithin, withStop } from '../../shared/streams/timing.ts';
import type { Intake } from '../backends/contract.ts';
import type { Part, SentPart } from './part-writer.ts';
import type { Semaphore } from './semaphore.ts';

export type SendOptions = {
  service: Intake;
  /** Ends the upload. */
  signal: AbortSignal;
  /** Makes a part stay, once the service holds it: it has a row from before it is pinned. */
  keep(sent: SentPart, signal: AbortSignal): Promise<void>;
  /** Bounds the pieces that all uploads may have in work at once. */
  permits: Semaphore;
  /** The clock, in ms. */
  now(): number;
};

/** File that a service holds, not pinned yet. `beginning`: where the body does not show it. */
export type SentFile = { cid: string; bytes: number; beginning?: ContentKind };

export type PieceSource<T> = {
  /** The next piece; undefined at the end. One call at a time. */
  next(): Promise<T | undefined>;
  cancel(reason: unknown): Promise<void>;
};

/** Writes pieces into parts, as `PartWriter`. */
export type PieceWriter<T> = {
  add(piece: T): Promise<{ sent: Promise<void> }>;
  isDue(): boolean;
  dueAt(): number | undefined;
  /** Ends the open part. @param isLast whether nothing follows */
  close(isLast: boolean): Promise<SentPart | undefined>;
  abort(reason: unknown): void;
};

/**
 * Time for which a permit may wait for the bytes of its piece, in ms: what a fast client takes for
 * 1 MiB, at 20 MiB/s.
 */
export const quickMs = 50;

/**
 * Sends pieces in parts. All parts but the last one are kept; that is held by the service, and not
 * pinned.
 * @param open opens the pieces and their writer; the signal ends the requests of the writer
 * @param finish what remains to be done with all parts, under the same signal
 * @throws what the pieces, the service, `keep` and `finish` throw, whichever comes first; the
 * reason of the signal
 */
export async function sendParts<T, R>(
  options: SendOptions,
  open: (signal: AbortSignal) => { pieces: PieceSource<T>; writer: PieceWriter<T> },
  finish: (parts: readonly Part[], signal: AbortSignal) => Promise<R>,
): Promise<R> {
  const { signal, stop } = withStop(options.signal);
  const { pieces, writer } = open(signal);
  const sender = new Sender({ ...options, signal, pieces, writer, stop });
  // A cancelled read looks like the end, so the signal is checked after each.
  const cancelPieces = (): void => void pieces.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', cancelPieces, { once: true });
  try {
    return await finish(await sender.send(), signal);
  } catch (error) {
    stop(error);
    writer.abort(signal.reason);
    await sender.keeping.catch(() => undefined);
    throw signal.reason;
  } finally {
    signal.removeEventListener('abort', cancelPieces);
  }
}

/** `stop` aborts the signal. */
type SenderOptions<T> = SendOptions & { pieces: PieceSource<T>; writer: PieceWriter<T>; stop(error: unknown): void };

class Sender<T> {
  readonly #o: SenderOptions<T>;
  readonly #parts: Part[] = [];
  keeping: Promise<void> = Promise.resolve();

  constructor(options: SenderOptions<T>) {
    this.#o = options;
  }

  async send(): Promise<readonly Part[]> {
    while (await this.#pass());
    const last = await this.#o.writer.close(true);
    if (last !== undefined) this.#parts.push(last.part);
    await Promise.all([this.keeping, last?.held]);
    return this.#parts;
  }

  /** Ends the open part, which is kept while the next one is sent: there are two at most. */
  async #closePart(): Promise<void> {
    const { writer, keep, signal, stop } = this.#o;
    const sent = await writer.close(false);
    if (sent === undefined) return;
    this.#parts.push(sent.part);
    await this.keeping;
    this.keeping = keep(sent, signal);
    // It may fail while the upload waits for bytes, which then nobody wants.
    this.keeping.catch(stop);
  }

  /** Waits for a piece. A part that is due while the client sends nothing does not wait for it. */
  async #arrival(pending: Promise<unknown>): Promise<void> {
    const dueAt = this.#o.writer.dueAt();
    if (dueAt !== undefined && !(await settlesWithin(pending, dueAt - this.#o.now()))) await this.#closePart();
    await pending;
  }

  /** Reads a piece and sends it, under a permit. @returns whether there was one */
  async #pass(): Promise<boolean> {
    const { permits, signal } = this.#o;
    let permit = await permits.acquire();
    try {
      const pending = this.#o.pieces.next();
      pending.catch(() => undefined);
      if (!(await settlesWithin(pending, quickMs))) {
        permit.release();
        await this.#arrival(pending);
        permit = await permits.acquire();
      }
      const piece = await pending;
      signal.throwIfAborted();
      if (piece === undefined) return false;
      // A full part stays open until it is known that more follows: the only part of a file needs
      // no pin of its own.
      if (this.#o.writer.isDue()) await this.#closePart();
      const { sent } = await this.#o.writer.add(piece);
      await sent;
      return true;
    } finally {
      permit.release();
    }
  }
}
