/**
 * Bodies of responses. Their length is announced, so that a body that breaks off cannot look
 * complete.
 */
import { concat } from '../../shared/streams/concat.ts';
import { observed, peeked, pulled } from '../../shared/streams/pulled.ts';
import { orLog } from '../log.ts';

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
 * A body of exactly `bytes` bytes. In workerd a stream that errors ends a chunked response cleanly;
 * with a length the client sees that something is missing.
 */
export function withContentLength<B extends Uint8Array>(
  body: ReadableStream<Uint8Array> | B,
  bytes: number,
  requestId: string,
): ReadableStream<Uint8Array> | B {
  if (body instanceof Uint8Array) return body;
  const { readable, writable } = new FixedLengthStream(bytes);
  void orLog({ event: 'download.broken', requestId }, () => body.pipeTo(writable));
  return readable;
}

/**
 * Waits for the first chunk of a stream, so that an error before it can still become a response of
 * its own.
 * @param onCancel runs when the client cancels the stream, or when it fails
 * @returns the whole stream
 * @throws what the stream throws before its first chunk
 */
export async function awaitFirstChunk(stream: ReadableStream<Uint8Array>, onCancel: (reason: unknown) => void) {
  return (await peeked(observed(stream, { onCancel }))).stream;
}

/** One stream of bytes and streams in their order. */
export function concatStreams(parts: readonly (ReadableStream<Uint8Array> | Uint8Array)[]): ReadableStream<Uint8Array> {
  const rest = [...parts];
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  return pulled({
    async next() {
      for (;;) {
        const value = (await reader?.read())?.value;
        if (value !== undefined) return value;
        reader = undefined;
        const part = rest.shift();
        if (part === undefined || part instanceof Uint8Array) return part;
        reader = part.getReader();
      }
    },
    async cancel(reason) {
      const streams = rest.filter((part) => part instanceof ReadableStream);
      await Promise.all([reader?.cancel(reason), ...streams.map((part) => part.cancel(reason))]);
    },
  });
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
