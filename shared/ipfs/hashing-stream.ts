/** A stream that passes on what it is given and knows its CID at the end. */
import { cidBuilder, type Measure } from './builder.ts';
import { pieceReader } from '../streams/reader.ts';
import { leafBytes } from './cid.ts';

/** A stream that is measured: `result` resolves when its source has ended and every byte has been handed over. */
export type Measured = { stream: ReadableStream<Uint8Array>; result: Promise<Measure> };

/**
 * Passes bytes on while computing their CID, without a copy where the stream allows it. A byte stream is read in pieces of 1 MiB, one
 * a leaf; what any other gives passes as it is, and pieces of whole leaves cost least. The digest of a piece runs while it is on its way.
 * @returns `stream`, which fails as the source fails and cancels it, and `result`, which rejects with the error or with the reason of the cancel
 */
export function measured(stream: ReadableStream<Uint8Array>): Measured {
  const reader = pieceReader(stream, leafBytes);
  const builder = cidBuilder();
  const { promise: result, resolve, reject } = Promise.withResolvers<Measure>();
  // Who reads the stream sees every error there; the same error here, unread, must not count as unhandled.
  result.catch(() => undefined);
  return {
    result,
    stream: new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            const piece = await reader.next();
            if (piece === undefined) {
              resolve(await builder.finish());
              controller.close();
            } else {
              await builder.write(piece);
              controller.enqueue(piece);
            }
          } catch (cause) {
            reject(cause);
            throw cause;
          }
        },
        async cancel(reason) {
          reject(reason ?? new DOMException('The stream was cancelled', 'AbortError'));
          await reader.cancel(reason);
        },
      },
      // A piece that waits here is a MiB more for each upload of a Worker.
      { highWaterMark: 0 },
    ),
  };
}
