/**
 * Reading a stream of bytes: the one place that decides between a BYOB reader, which fills buffers
 * of the caller, and a default reader, which gives chunks as the source cut them.
 */

import { freshMemory, type Memory } from './buffer-pool.ts';

type ByobRead = Promise<{ done: boolean; value?: Uint8Array | undefined }>;

/**
 * Part of a BYOB reader that is used (Streams standard, ReadableStreamBYOBReader). Each read
 * detaches the buffer and gives it back in `value`, at the end of the stream, too.
 */
interface ByobReader {
  read(view: Uint8Array, options?: { min?: number }): ByobRead;
  /** workerd's: waits for so many bytes, which is one crossing into its streams instead of many. */
  readAtLeast?(minBytes: number, view: Uint8Array): ByobRead;
  cancel(reason?: unknown): Promise<void>;
}

/** A locked stream, by the way that it is read. */
export type AcquiredReader =
  | { readonly byob: true; readonly reader: ByobReader }
  | { readonly byob: false; readonly reader: ReadableStreamDefaultReader<Uint8Array> };

/**
 * Locks a stream for reading: a byte stream with a BYOB reader, any other stream with a default
 * reader.
 * @throws TypeError when the stream is locked
 */
export function acquireReader(stream: ReadableStream<Uint8Array>): AcquiredReader {
  try {
    return { byob: true, reader: stream.getReader({ mode: 'byob' }) as ByobReader };
  } catch (cause) {
    // The platform has no other way to ask whether it is a byte stream (Streams standard,
    // SetUpReadableStreamBYOBReader).
    if (!(cause instanceof TypeError)) throw cause;
    return { byob: false, reader: stream.getReader() };
  }
}

/** A stream that is read by length. */
export interface ByteReader {
  /**
   * The next `length` bytes, in a buffer that holds nothing else; fewer at the end of the stream,
   * none after it. One call at a time.
   */
  read(length: number): Promise<Uint8Array>;
  cancel(reason?: unknown): Promise<void>;
}

/**
 * Locks a stream for reading by length. A byte stream fills our buffers itself; the chunks of any
 * other stream are copied together, unless one is what was asked for.
 * @param memory where that of the buffers comes from; gets that of chunks that were copied
 * @param onBytes called with the number of bytes that have come; in workerd only when all that was
 * asked for is there
 */
export function byteReader(
  stream: ReadableStream<Uint8Array>,
  memory: Memory = freshMemory,
  onBytes?: (bytes: number) => void,
): ByteReader {
  const acquired = acquireReader(stream);
  return acquired.byob
    ? fillingReader(acquired.reader, memory, onBytes)
    : copyingReader(acquired.reader, memory, onBytes);
}

/**
 * Locks a stream for reading it in pieces without a copy: a byte stream fills buffers, the chunks
 * of any other stream stay as they are.
 * @param length bytes of a buffer
 */
export function pieceReader(stream: ReadableStream<Uint8Array>, length: number) {
  const { byob, reader } = acquireReader(stream);
  return {
    /** The next piece, which is never empty; undefined at the end. One call at a time. */
    async next(): Promise<Uint8Array | undefined> {
      if (byob) {
        const piece = await fillingReader(reader, freshMemory).read(length);
        return piece.length === 0 ? undefined : piece;
      }
      for (;;) {
        const { done, value } = await reader.read();
        if (done || value.length > 0) return value;
      }
    },
    cancel: (reason?: unknown): Promise<void> => reader.cancel(reason),
  };
}

function fillingReader(reader: ByobReader, memory: Memory, onBytes?: (bytes: number) => void): ByteReader {
  return {
    async read(length) {
      let buffer = memory.take(length);
      let filled = 0;
      while (filled < length) {
        const view = buffer.subarray(filled);
        const { done, value } = await (reader.readAtLeast?.(view.length, view) ?? reader.read(view));
        if (value) {
          onBytes?.(value.length);
          filled += value.length;
          buffer = new Uint8Array(value.buffer as ArrayBuffer, 0, length);
        }
        if (done) return value ? buffer.subarray(0, filled) : new Uint8Array();
      }
      return buffer;
    },
    cancel: (reason) => reader.cancel(reason),
  };
}

function copyingReader(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  memory: Memory,
  onBytes?: (bytes: number) => void,
): ByteReader {
  let chunk: Uint8Array = new Uint8Array();
  let rest = chunk;
  return {
    async read(length) {
      let buffer: Uint8Array = new Uint8Array();
      let filled = 0;
      while (filled < length) {
        if (rest.length === 0) {
          const { done, value } = await reader.read();
          if (done) return buffer.subarray(0, filled);
          onBytes?.(value.length);
          if (filled === 0 && value.length === length && value.buffer.byteLength === length) return value;
          chunk = rest = value;
        }
        if (filled === 0) buffer = memory.take(length);
        const part = rest.subarray(0, length - filled);
        buffer.set(part, filled);
        filled += part.length;
        rest = rest.subarray(part.length);
        if (rest.length === 0) memory.giveBack(chunk);
      }
      return buffer;
    },
    cancel: (reason) => reader.cancel(reason),
  };
}
