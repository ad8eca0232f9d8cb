/** Streams made of others. Who cancels one, or a failure on the way, cancels its source. */

type Chunk = Uint8Array;

/** Callbacks of which a stream is made. */
type Source = {
  /** Gives the next chunk; undefined at the end. */
  next(): Promise<Chunk | undefined>;
  /** Called with the reason of a cancel or the error of `next`: then its own does not matter. */
  cancel(reason: unknown): unknown;
  /**
   * Number of chunks that are asked for before they are wanted; 0 when undefined. Each may be a MiB
   * more for each upload of a Worker.
   */
  ahead?: number;
};

/** Makes a stream whose chunks are asked for one by one. */
export function pulled({ next, cancel, ahead = 0 }: Source): ReadableStream<Chunk> {
  let isCancelled = false;
  return new ReadableStream<Chunk>(
    {
      async pull(controller) {
        try {
          const chunk = await next();
          if (isCancelled) return;
          if (chunk === undefined) controller.close();
          else controller.enqueue(chunk);
        } catch (error) {
          if (!isCancelled) (async () => cancel(error))().catch(() => undefined);
          throw error;
        }
      },
      async cancel(reason) {
        isCancelled = true;
        await cancel(reason);
      },
    },
    { highWaterMark: ahead },
  );
}

/** Callbacks for a stream on its way. */
type Observer = {
  /** Called with each chunk before it goes on. */
  onChunk?(chunk: Chunk): void | Promise<void>;
  /** Called before the end goes on, which it can still make a failure. */
  onEnd?(): void | Promise<void>;
  /** Makes the error to fail with from that of the source, or of another callback. */
  onFail?(error: unknown): unknown;
  onCancel?(reason: unknown): void;
};

/** Passes a stream on, and looks at what passes. */
export function observed(stream: ReadableStream<Chunk>, observer: Observer): ReadableStream<Chunk> {
  const reader = stream.getReader();
  return pulled({
    async next() {
      try {
        const { value } = await reader.read();
        await (value === undefined ? observer.onEnd?.() : observer.onChunk?.(value));
        return value;
      } catch (error) {
        throw observer.onFail === undefined ? error : observer.onFail(error);
      }
    },
    cancel(reason) {
      observer.onCancel?.(reason);
      return reader.cancel(reason);
    },
  });
}

/** A stream of which the start was read. */
type Peeked = {
  /** The chunks of the start. They leave the list when `stream` gives them. */
  readonly start: Chunk[];
  readonly startBytes: number;
  /** The start is all that there is. */
  readonly isAll: boolean;
  /** The whole stream, its start included. */
  readonly stream: ReadableStream<Chunk>;
};

/**
 * Reads the start of a stream, to the end of the chunk with byte number `bytes`.
 * @throws what the stream throws there
 */
export async function peeked(stream: ReadableStream<Chunk>, bytes = 1): Promise<Peeked> {
  const reader = stream.getReader();
  const start: Chunk[] = [];
  let startBytes = 0;
  let isAll = false;
  while (!isAll && startBytes < bytes) {
    const { value } = await reader.read();
    if (value === undefined) isAll = true;
    else start.push(value);
    startBytes += value?.length ?? 0;
  }
  const whole = pulled({
    next: async () => start.shift() ?? (await reader.read()).value,
    cancel: (reason) => reader.cancel(reason),
  });
  return { start, startBytes, isAll, stream: whole };
}
