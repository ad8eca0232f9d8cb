/** Bytes for the tests, and streams that tell what became of them. */

/** Bytes that repeat at no offset that a format has. */
export function pattern(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let index = 0; index < length; index += 1) bytes[index] = index * 31 + (index >> 8) * 7;
  return bytes;
}

export type Watched = { stream: ReadableStream<Uint8Array>; cancelled: unknown[] };

/**
 * A stream of chunks that keeps the reasons it was cancelled with.
 * @param o.stalls never gives more after the chunks, nor ends
 */
export function watched(chunks: readonly Uint8Array[], { stalls = false }: { stalls?: boolean } = {}): Watched {
  const rest = [...chunks];
  const cancelled: unknown[] = [];
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = rest.shift();
        if (chunk !== undefined) controller.enqueue(chunk);
        else if (!stalls) controller.close();
        return chunk === undefined && stalls ? new Promise<void>(() => undefined) : undefined;
      },
      cancel: (reason) => void cancelled.push(reason),
    },
    { highWaterMark: 0 },
  );
  return { stream, cancelled };
}

/** Returns what a promise rejects with; undefined when it does not. */
export async function thrownBy(work: () => unknown): Promise<unknown> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return error;
  }
}
