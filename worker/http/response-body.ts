/** Bodies of responses. Their length is announced, so that a body that breaks off cannot look complete. */
import { concat } from '../../shared/streams/concat.ts';
import { errorText, log } from '../log.ts';

/** Headers of every response that carries bytes of a file. */
export const fileHeaders: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-transform, no-store',
  // Keeps proxies from compressing, which would drop the length.
  'Content-Encoding': 'identity',
  'Content-Security-Policy': "sandbox; default-src 'none'",
  'X-Content-Type-Options': 'nosniff',
  Vary: 'Accept',
};

/**
 * A body of exactly `bytes` bytes. In workerd a stream that errors ends a chunked response cleanly; with a length the client
 * sees that something is missing.
 */
export function withContentLength<B extends Uint8Array>(
  body: ReadableStream<Uint8Array> | B,
  bytes: number,
  requestId: string,
): ReadableStream<Uint8Array> | B {
  if (body instanceof Uint8Array) return body;
  const { readable, writable } = new FixedLengthStream(bytes);
  body.pipeTo(writable).catch((error: unknown) => {
    log({ event: 'download.broken', requestId, error: errorText(error) });
  });
  return readable;
}

/**
 * Waits for the first chunk of a stream, so that an error before it can still become a response of its own.
 * @param onCancel runs when the client cancels the stream
 * @returns the whole stream
 * @throws what the stream throws before its first chunk
 */
export async function awaitFirstChunk(
  stream: ReadableStream<Uint8Array>,
  onCancel: (reason: unknown) => void,
): Promise<ReadableStream<Uint8Array>> {
  const reader = stream.getReader();
  let next: ReadableStreamReadResult<Uint8Array> | undefined = await reader.read();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = next ?? (await reader.read());
        next = undefined;
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel(reason) {
        onCancel(reason);
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** One stream of bytes and streams in their order. */
export function concatStreams(parts: readonly (ReadableStream<Uint8Array> | Uint8Array)[]): ReadableStream<Uint8Array> {
  let index = 0;
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          if (reader === undefined) {
            const part = parts[index];
            if (part === undefined) return controller.close();
            index += 1;
            if (part instanceof Uint8Array) return controller.enqueue(part);
            reader = part.getReader();
          }
          const { value, done } = await reader.read();
          if (!done) return controller.enqueue(value);
          reader = undefined;
        }
      },
      async cancel(reason) {
        const rest = parts.slice(index).filter((part) => part instanceof ReadableStream);
        await Promise.all([reader?.cancel(reason), ...rest.map((part) => part.cancel(reason))]);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Encodes bytes as base64 text (RFC 4648 section 4). */
export function base64Of(bytes: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let rest = new Uint8Array(0);
  return bytes.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const all = rest.length === 0 ? chunk : concat(rest, chunk);
        const whole = all.length - (all.length % 3);
        if (whole > 0) controller.enqueue(encoder.encode(all.subarray(0, whole).toBase64()));
        rest = all.slice(whole);
      },
      flush(controller) {
        if (rest.length > 0) controller.enqueue(encoder.encode(rest.toBase64()));
      },
    }),
  );
}

/** Characters of the base64 of `bytes` bytes. */
export function base64Length(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}
