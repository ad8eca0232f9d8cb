/** A multipart body with one file, written piece by piece. */
import { leafMemory } from '../../leaf-memory.ts';

export type MultipartWriter = ReturnType<typeof multipartWriter>;

/**
 * A file as multipart/form-data (RFC 7578) of unknown length. A body that fails is left open, not
 * errored: an errored stream can reach the other side as a clean end, so the caller must abort the
 * request by its signal.
 */
export function multipartWriter() {
  const boundary = `sealpin-${crypto.randomUUID()}`;
  const encoder = new TextEncoder();
  const { readable, writable } = pipe();
  const writer = writable.getWriter();
  let head: Uint8Array | undefined = encoder.encode(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; ` +
      `filename="sealpin"\r\nContent-Type: application/octet-stream\r\n\r\n`,
  );

  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: readable,
    /**
     * Writes a piece of the file; resolves when it has been taken. Where the runtime is done with
     * the bytes by then, they are released: the array is empty afterwards.
     */
    async write(piece: Uint8Array<ArrayBuffer>): Promise<void> {
      if (head !== undefined) await writer.write(head);
      head = undefined;
      if (piece.length === 0) return;
      await writer.write(piece);
      if (isIdentity && piece.buffer.byteLength === piece.length) leafMemory.giveBack(piece);
    },
    /** Writes the closing boundary and ends the body. */
    async close(): Promise<void> {
      await writer.write(encoder.encode(`\r\n--${boundary}--\r\n`));
      await writer.close();
    },
  };
}

/**
 * Tells workerd from other runtimes: only its streams pass bytes without a copy, and a write that
 * has resolved is done with its bytes.
 */
const isIdentity = 'IdentityTransformStream' in globalThis;

function pipe(): { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> } {
  return isIdentity ? new IdentityTransformStream() : new TransformStream<Uint8Array, Uint8Array>();
}
