/** A multipart body with one file, whose end is sent by a separate call. */
import { SealpinError } from '../../shared/errors.ts';

export type MultipartOptions = {
  /** The exact length of the file in bytes, where it is known: the request then has a Content-Length. */
  bytes?: number | undefined;
  /** Ends the upload: nothing is sent after it, least of all the closing boundary. */
  signal: AbortSignal;
  /** Awaits a step of the transfer, as opposed to one of the file. */
  forward(step: Promise<void>): Promise<void>;
};

export type Multipart = {
  contentType: string;
  body: ReadableStream<Uint8Array>;
  /** Resolves when the whole file has been forwarded; rejects when the file or the transfer fails. */
  sent: Promise<void>;
  /** Sends the closing boundary, to be called after `sent`; resolves when it has been forwarded. */
  finish(): Promise<void>;
};

/**
 * Streams a file as multipart/form-data (RFC 7578), beginning at once. When it fails, the body is left open: an errored stream
 * can reach the other side as a clean end, so the caller must abort the request by its signal. The pieces of the file are used up.
 */
export function multipart(file: ReadableStream<Uint8Array>, { bytes, signal, forward }: MultipartOptions): Multipart {
  const boundary = `sealpin-${crypto.randomUUID()}`;
  const encoder = new TextEncoder();
  const head = encoder.encode(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="sealpin"\r\nContent-Type: application/octet-stream\r\n\r\n`,
  );
  const tail = encoder.encode(`\r\n--${boundary}--\r\n`);
  const { readable, writable } = pipe(bytes === undefined ? undefined : head.length + bytes + tail.length);
  const writer = writable.getWriter();
  const reader = file.getReader();
  // A cancelled read looks like the end of the file, so the signal is checked after each.
  const cancelSource = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', cancelSource, { once: true });

  async function send(): Promise<void> {
    await forward(writer.write(head));
    let count = 0;
    for (;;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (done) break;
      count += value.length;
      if (bytes !== undefined && count > bytes) break;
      await forward(writer.write(value));
      // Nothing uses it any more: with many uploads at once an isolate has no room for what waits to be collected.
      if (isFixed && value.buffer.byteLength === value.length) (value.buffer as ArrayBuffer).transfer(0);
    }
    if (bytes !== undefined && count !== bytes)
      throw new SealpinError('body_incomplete', `${bytes} bytes were announced, and others came`);
  }

  async function finish(): Promise<void> {
    signal.throwIfAborted();
    signal.removeEventListener('abort', cancelSource);
    await forward(writer.write(tail));
    await forward(writer.close());
  }

  return { contentType: `multipart/form-data; boundary=${boundary}`, body: readable, sent: send(), finish };
}

type Pipe = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> };

/**
 * Only workerd has streams of a fixed length, which make a Content-Length. In them a write that has resolved is done
 * with its bytes.
 */
const isFixed = 'FixedLengthStream' in globalThis;

/** Elsewhere, and without a length, the request is chunked. */
function pipe(bytes: number | undefined): Pipe {
  if (!isFixed) return new TransformStream<Uint8Array, Uint8Array>();
  return bytes === undefined ? new IdentityTransformStream() : new FixedLengthStream(bytes);
}
