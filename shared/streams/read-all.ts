import { concat } from './concat.ts';

/**
 * Reads a stream to its end and returns its bytes as one array.
 * @param stream a web stream, any other source of chunks, or null (the body of a response without
 * one), which has no bytes
 * @param limitBytes the most bytes that are held; the stream is cancelled as soon as it gives more
 * @param tooLarge makes the error that is thrown then
 */
export async function readAll(
  stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | null,
  limitBytes: number,
  tooLarge: () => Error,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream === null ? [] : chunksOf(stream)) {
    length += chunk.length;
    if (length > limitBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return concat(...chunks);
}

/**
 * The chunks of a stream, which is cancelled when its reader stops early. Not every browser can
 * iterate a ReadableStream itself.
 */
export async function* chunksOf(
  stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  if (!('getReader' in stream)) {
    yield* stream;
    return;
  }
  const reader = stream.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    // After the end this does nothing. Otherwise the caller already has an error, and one of the
    // cancel does not matter.
    reader.cancel().catch(() => undefined);
  }
}
