/** The CID of bytes that come in pieces of any size, computed as they pass. */
import { cidBuilder, type measured } from '../../shared/ipfs/index.ts';

export type Hashed = ReturnType<typeof measured>;

/**
 * As `measured`, for a stream whose pieces are big but not of the size of a leaf: they pass as they are. Cutting them to leaves would
 * take another MiB for each MiB, and with many uploads at once an isolate has none to spare.
 */
export function hashed(stream: ReadableStream<Uint8Array>): Hashed {
  const reader = stream.getReader();
  const builder = cidBuilder();
  const { promise: result, resolve, reject } = Promise.withResolvers<Awaited<Hashed['result']>>();
  // Who reads the stream sees every error there; the same error here, unread, must not count as unhandled.
  result.catch(() => undefined);
  return {
    result,
    stream: new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            const { value, done } = await reader.read();
            if (done) {
              resolve(await builder.finish());
              controller.close();
            } else {
              await builder.write(value);
              controller.enqueue(value);
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
      { highWaterMark: 0 },
    ),
  };
}
