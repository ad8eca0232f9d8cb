/**
 * The standard streams of a process, as far as the command line uses them. A test hands in its own.
 */
import type { Readable, Writable } from 'node:stream';

/** A stream to read, which may be a terminal. */
export type InputStream = Readable & { readonly isTTY?: boolean };

/** A stream to write, which may be a terminal. `columns`: its width, if it knows. */
export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/**
 * The width that is assumed for a pipe, and for a terminal that does not know its own or says 0.
 */
const defaultColumns = 80;

/** Returns the number of characters that fit into a line. */
export function columnsOf(stream: OutputStream): number {
  return stream.columns || defaultColumns;
}
