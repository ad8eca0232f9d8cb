/** A multipart body with one file, whose closing boundary waits for leave. */
import { SealpinError } from '../../shared/errors.ts';

export type UploadOptions = {
  /** The exact length of the file, where it is known: the request then has a Content-Length. */
  bytes?: number | undefined;
  /** Called when the file has ended; the closing boundary goes out after it. */
  beforeLast(): Promise<void>;
  /** Ends the upload: nothing goes out after it, least of all the closing boundary. */
  signal: AbortSignal;
  /** Awaits a step of the transfer, as opposed to one of the file. */
  handOver(step: Promise<void>): Promise<void>;
};

/** `sent` resolves when the closing boundary has been handed over; it rejects as the file, `beforeLast` or the transfer fails. */
export type Upload = { contentType: string; body: ReadableStream<Uint8Array>; sent: Promise<void> };

/**
 * Streams a file as multipart/form-data (RFC 7578). When it fails, the body is left open: an errored stream can reach the
 * other side as a clean end, so the caller must abort the request by its signal. The pieces of the file are used up.
 */
export function upload(
  file: ReadableStream<Uint8Array>,
  { bytes, beforeLast, signal, handOver }: UploadOptions,
): Upload {
  const boundary = `sealpin-${crypto.randomUUID()}`;
  const encoder = new TextEncoder();
  const head = encoder.encode(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="sealpin"\r\nContent-Type: application/octet-stream\r\n\r\n`,
  );
  const tail = encoder.encode(`\r\n--${boundary}--\r\n`);
  const { readable, writable } = pipe(bytes === undefined ? undefined : head.length + bytes + tail.length);
  const writer = writable.getWriter();
  const reader = file.getReader();
  // The file is not wanted any more, whatever it says to that. A cancelled read looks like its end: so the signal is asked after each.
  const leave = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', leave, { once: true });

  async function pump(): Promise<void> {
    await handOver(writer.write(head));
    let count = 0;
    for (;;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (done) break;
      count += value.length;
      if (bytes !== undefined && count > bytes) break;
      await handOver(writer.write(value));
      // It is nobody's any more: with many uploads at once an isolate has no room for what waits to be collected.
      if (isFixed && value.buffer.byteLength === value.length) (value.buffer as ArrayBuffer).transfer(0);
    }
    if (bytes !== undefined && count !== bytes)
      throw new SealpinError('body_incomplete', `${bytes} bytes were announced, and others came`);
    await beforeLast();
    signal.throwIfAborted();
    signal.removeEventListener('abort', leave);
    await handOver(writer.write(tail));
    await handOver(writer.close());
  }

  return { contentType: `multipart/form-data; boundary=${boundary}`, body: readable, sent: pump() };
}

type Pipe = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> };

/** Only workerd has streams of a fixed length, which make a Content-Length. In them a write that has resolved is done with its bytes. */
const isFixed = 'FixedLengthStream' in globalThis;

/** Elsewhere, and without a length, it is chunked. */
function pipe(bytes: number | undefined): Pipe {
  if (!isFixed) return new TransformStream<Uint8Array, Uint8Array>();
  return bytes === undefined ? new IdentityTransformStream() : new FixedLengthStream(bytes);
}
