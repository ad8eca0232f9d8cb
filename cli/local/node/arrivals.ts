/** Bodies of requests in large pieces. */
import type { Readable } from 'node:stream';
import { release } from '../../io/byte-stream.ts';

/** Bytes of a piece: few enough pieces, and they fit into the processor's cache. */
const arrivalPieceBytes = 256 * 1024;
/** Time that bytes wait for others, in ms: what a slow client sends is seen soon. */
const arrivalMs = 10;
/**
 * Memory that no body uses at the moment, so that a small one does not cost as much as a large one,
 * and how much of it is kept.
 */
const spare: Buffer[] = [];
const maxSpareBuffers = 4;

/**
 * Joins what arrives. workerd sends bodies in pieces of 8 KiB, and Node's own iterator makes
 * several promises for each of them, which cost more than its hash. The pieces of the stream are
 * consumed.
 * @param stream is left paused, not destroyed, when the reader stops before its end
 * @returns pieces, each valid until the next one is asked for: they share their memory
 * @throws what the stream fails with, after the bytes before it
 */
export async function* arrivals(stream: Readable): AsyncGenerator<Buffer> {
  const buffer = spare.pop() ?? Buffer.allocUnsafeSlow(arrivalPieceBytes);
  let filled = 0;
  /** Bytes that did not fit. */
  let rest: Buffer | undefined;
  let end: { error?: unknown } | undefined;
  let wake = (): void => undefined;
  let timer: NodeJS.Timeout | undefined;

  function fill(piece: Buffer): void {
    const taken = piece.copy(buffer, filled);
    filled += taken;
    rest = taken < piece.length ? piece.subarray(taken) : undefined;
    if (rest === undefined) release(piece);
    if (filled === buffer.length) wake();
    else timer ??= setTimeout(() => wake(), arrivalMs);
  }
  const arrive = (piece: Buffer): void => {
    fill(piece);
    // Nothing arrives while it is paused, so that one piece at most does not fit.
    if (filled === buffer.length) stream.pause();
  };
  const stop = (how: { error?: unknown }): void => {
    end ??= how;
    wake();
  };
  const onEnd = (): void => stop({});
  const onError = (error: unknown): void => stop({ error });
  const onClose = (): void => stop({ error: new Error('the connection was closed before the end of the body') });
  if (stream.destroyed) throw stream.errored ?? new Error('the connection was closed before the body was read');
  stream.on('data', arrive).once('end', onEnd).once('error', onError).once('close', onClose);
  try {
    for (;;) {
      if (filled < buffer.length && end === undefined) {
        stream.resume();
        await new Promise<void>((resolve) => (wake = resolve));
      }
      clearTimeout(timer);
      timer = undefined;
      if (filled > 0) {
        stream.pause();
        yield buffer.subarray(0, filled);
        filled = 0;
        if (rest !== undefined) fill(rest);
      } else if (end !== undefined) {
        if ('error' in end) throw end.error;
        return;
      }
    }
  } finally {
    clearTimeout(timer);
    if (spare.length < maxSpareBuffers) spare.push(buffer);
    stream.pause();
    stream.off('data', arrive).off('end', onEnd).off('error', onError).off('close', onClose);
  }
}
