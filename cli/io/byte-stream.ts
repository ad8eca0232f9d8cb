/** Bytes whose memory is ours to give back. */

/**
 * Gives the memory of bytes back at once, if they have a buffer to themselves: they are empty after it. Only for bytes that
 * nobody else holds. V8 counts buffers and collects all of its heap for each few dozen MiB of them: of the CPU time of a large file,
 * collecting took half.
 */
export function release(bytes: Uint8Array): void {
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length) buffer.transfer(0);
}

/**
 * A byte stream out of pieces: who asks for so many bytes gets them in one go, however small the pieces are.
 *
 * @param o.next the next piece; undefined at the end. What it throws ends the stream, after all that came before
 * @param o.used told of each piece when all of it was copied
 */
export function bytesFrom({
  next,
  used: done,
  cancel,
}: {
  next(): Promise<Uint8Array | undefined>;
  used?(piece: Uint8Array): void;
  cancel(reason: unknown): void | Promise<void>;
}): ReadableStream<Uint8Array> {
  let piece: Uint8Array | undefined = new Uint8Array(0);
  let used = 0;
  let failure: { error: unknown } | undefined;

  /** What is left of a piece, which is at least a byte; undefined at the end. */
  async function rest(): Promise<Uint8Array | undefined> {
    while (piece !== undefined && used === piece.length) {
      done?.(piece);
      piece = await next();
      used = 0;
    }
    return piece?.subarray(used);
  }

  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      if (failure !== undefined) throw failure.error;
      const request = controller.byobRequest;
      const view = request?.view as Uint8Array | undefined;
      let filled = 0;
      try {
        for (let bytes = await rest(); bytes !== undefined; bytes = await rest()) {
          const part = bytes.subarray(0, (view?.length ?? bytes.length) - filled);
          used += part.length;
          filled += part.length;
          if (view === undefined) return controller.enqueue(new Uint8Array(part));
          view.set(part, filled - part.length);
          if (filled === view.length) break;
        }
      } catch (error) {
        if (filled === 0) throw error;
        failure = { error };
      }
      if (filled === 0) controller.close();
      request?.respond(filled);
    },
    cancel,
  });
}
