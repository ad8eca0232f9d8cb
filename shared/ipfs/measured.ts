/** A stream that passes on what it is given and knows its CID at the end. */
import { cidBuilder, type Measure } from './builder.ts';
import { byteReader } from './bytes.ts';
import { leafBytes } from './cid.ts';

/**
 * Passes bytes on while computing their CID. They come out in pieces of 1 MiB, one a leaf; a byte stream is read straight
 * into them, any other with one copy. The digest of a piece runs while the piece is on its way.
 * @returns `stream`, which fails as the source fails and cancels it; `result`, which resolves when the source has ended and
 *   every byte has been handed over, and rejects with the error or with the reason of the cancel
 */
export function measured(stream: ReadableStream<Uint8Array>): { stream: ReadableStream<Uint8Array>; result: Promise<Measure> } {
  const reader = byteReader(stream);
  const builder = cidBuilder();
  const { promise: result, resolve, reject } = Promise.withResolvers<Measure>();
  // Who reads the stream sees every error there; the same error here, unread, must not count as unhandled.
  result.catch(() => undefined);
  return {
    stream: new ReadableStream<Uint8Array>({
      async pull(controller) {
        try {
          const block = await reader.read(leafBytes);
          if (block.length > 0) {
            await builder.write(block);
            controller.enqueue(block);
          }
          if (block.length < leafBytes) {
            resolve(await builder.finish());
            controller.close();
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
    }),
    result,
  };
}
