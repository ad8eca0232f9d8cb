/** A stream that passes its bytes on and knows their CID at the end. */
import { pieceReader } from '../streams/reader.ts';
import { cidBuilder, type SizedCid } from './builder.ts';
import { leafBytes } from './profile.ts';
import { pulled } from '../streams/pulled.ts';

/**
 * Computes the CID of bytes on their way, without a copy where the source allows it. A byte stream
 * is read in pieces of 1 MiB, one per leaf; the chunks of any other stream pass unchanged, and
 * chunks of whole leaves cost least.
 * @returns `stream`, which fails as the source fails and cancels it, and `result`, which resolves
 * once every byte of it has been read, and rejects with the error or with the reason of the cancel
 */
export function hashingStream(source: ReadableStream<Uint8Array>): {
  stream: ReadableStream<Uint8Array>;
  result: Promise<SizedCid>;
} {
  const reader = pieceReader(source, leafBytes);
  const builder = cidBuilder();
  const { promise: result, resolve, reject } = Promise.withResolvers<SizedCid>();
  // A reader of the stream sees every error there; the same error in an unused result must not
  // count as unhandled.
  result.catch(() => undefined);
  const stream = pulled({
    async next() {
      const piece = await reader.next();
      if (piece === undefined) resolve(await builder.finish());
      else await builder.write(piece);
      return piece;
    },
    cancel(reason) {
      reject(reason ?? new DOMException('The stream was cancelled', 'AbortError'));
      return reader.cancel(reason);
    },
  });
  return { stream, result };
}
