/** A stream whose length the runtime knows, so that a request with it has that length. */
export function fixedLength(length: number): {
  readable: ReadableStream<Uint8Array>;
  writable: WritableStream<Uint8Array>;
} {
  // Node has none, and sends such a body in chunks.
  return 'FixedLengthStream' in globalThis ? new FixedLengthStream(length) : new TransformStream<Uint8Array>();
}
