/** Reading a stream in pieces of a wanted length, with as few copies as the stream allows. */

type ByobRead = Promise<{ done: boolean; value?: Uint8Array | undefined }>;

/** The part of a BYOB reader that is used. `readAtLeast` is workerd's: one crossing into its streams instead of many. */
type ByobReader = {
  read(view: Uint8Array): ByobRead;
  readAtLeast?(minBytes: number, view: Uint8Array): ByobRead;
  cancel(reason?: unknown): Promise<void>;
};

export interface ByteReader {
  /**
   * The next `length` bytes, in a buffer of their own that holds nothing else; fewer at the end of the stream, none after it.
   * Asks once at a time.
   */
  read(length: number): Promise<Uint8Array>;
  /** Gives the stream up. */
  cancel(reason?: unknown): Promise<void>;
}

/** Locks a stream for reading by length. A byte stream fills our buffers itself; of any other, chunks are copied together. */
export function byteReader(stream: ReadableStream<Uint8Array>): ByteReader {
  const byob = byobReader(stream);
  return byob ? fillingReader(byob) : copyingReader(stream.getReader());
}

export interface PieceReader {
  /** The next piece, which has bytes; undefined at the end. Asks once at a time. */
  next(): Promise<Uint8Array | undefined>;
  cancel(reason?: unknown): Promise<void>;
}

/** Locks a stream for reading it in pieces: a byte stream fills buffers of `length`; what any other gives comes as it is. */
export function pieceReader(stream: ReadableStream<Uint8Array>, length: number): PieceReader {
  const byob = byobReader(stream);
  if (byob) {
    const { read, cancel } = fillingReader(byob);
    return { next: async () => ofAny(await read(length)), cancel };
  }
  const reader = stream.getReader();
  return {
    async next() {
      for (;;) {
        const { done, value } = await reader.read();
        if (done || value.length > 0) return value;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  };
}

function ofAny(bytes: Uint8Array): Uint8Array | undefined {
  return bytes.length === 0 ? undefined : bytes;
}

function byobReader(stream: ReadableStream<Uint8Array>): ByobReader | undefined {
  try {
    return stream.getReader({ mode: 'byob' }) as ByobReader;
  } catch (cause) {
    // Not a byte stream (Streams standard, SetUpReadableStreamBYOBReader). A locked stream fails again below.
    if (cause instanceof TypeError) return undefined;
    throw cause;
  }
}

function fillingReader(reader: ByobReader): ByteReader {
  return {
    async read(length) {
      let buffer = new Uint8Array(length);
      let filled = 0;
      while (filled < length) {
        const view = buffer.subarray(filled);
        const { done, value } = await (reader.readAtLeast?.(view.length, view) ?? reader.read(view));
        // Each read detaches the buffer and gives it back under a new name, also at the end.
        if (value) {
          filled += value.length;
          buffer = new Uint8Array(value.buffer as ArrayBuffer);
        }
        if (done) return value ? buffer.subarray(0, filled) : new Uint8Array();
      }
      return buffer;
    },
    cancel: (reason) => reader.cancel(reason),
  };
}

function copyingReader(reader: ReadableStreamDefaultReader<Uint8Array>): ByteReader {
  let rest: Uint8Array = new Uint8Array();
  return {
    async read(length) {
      const buffer = new Uint8Array(length);
      let filled = 0;
      while (filled < length) {
        if (rest.length === 0) {
          const { done, value } = await reader.read();
          if (done) return buffer.subarray(0, filled);
          rest = value;
        }
        const part = rest.subarray(0, length - filled);
        buffer.set(part, filled);
        filled += part.length;
        rest = rest.subarray(part.length);
      }
      return buffer;
    },
    cancel: (reason) => reader.cancel(reason),
  };
}
