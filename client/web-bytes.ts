/** Bytes as the web platform has them: what the functions of the SDK take, and what they give. */
import { streamOf, utf8 } from '../shared/crypto/bytes.ts';
import { SealpinError } from '../shared/errors.ts';
import { pulled } from '../shared/streams/pulled.ts';
import { chunksOf, readAll } from '../shared/streams/read-all.ts';
import { interruptible } from '../shared/streams/timing.ts';

/**
 * Bytes to read. A string is UTF-8; a stream and the body of a response are consumed. Nothing that
 * is given is changed.
 */
export type Source = Uint8Array | ArrayBuffer | string | Blob | Response | ReadableStream<Uint8Array>;

/** A source that can be read more than once. */
export type StoredSource = Exclude<Source, Response | ReadableStream<Uint8Array>>;

/**
 * Bytes that are read once, in one of these ways. Anyone who does not want all of them cancels
 * `stream`, which ends the request behind it.
 */
export type Content = {
  readonly stream: ReadableStream<Uint8Array>;
  /** Length of the stream, where that is known before its end. */
  readonly size?: number | undefined;
  /** Reads all of it into memory. */
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  /** Reads all of it as UTF-8. */
  text(): Promise<string>;
  /** Reads all of it into a Blob. @param type its media type */
  blob(type?: string): Promise<Blob>;
};

/** Makes the ways of reading a stream. */
export function contentOf(stream: ReadableStream<Uint8Array>, size: number | undefined): Content {
  const bytes = () => readAll(stream, Infinity, () => new RangeError('unreachable'));
  return {
    stream,
    size,
    bytes,
    text: async () => new TextDecoder().decode(await bytes()),
    async blob(type = '') {
      const chunks: BlobPart[] = [];
      for await (const chunk of chunksOf(stream)) chunks.push(chunk as Uint8Array<ArrayBuffer>);
      return new Blob(chunks, { type });
    },
  };
}

/** Tells whether a source is consumed by reading it. */
export function isReadOnce(source: Source): source is Response | ReadableStream<Uint8Array> {
  return source instanceof Response || source instanceof ReadableStream;
}

/**
 * A source that can be read more than once, as a Blob.
 * @throws TypeError for anything else, of which a Blob would have the name of its kind
 */
export function blobOf(source: StoredSource): Blob {
  if (source instanceof Blob) return source;
  if (typeof source !== 'string' && !(source instanceof Uint8Array) && !(source instanceof ArrayBuffer))
    throw new TypeError('the source must be a Uint8Array, an ArrayBuffer, a string or a Blob');
  return new Blob([source as BlobPart]);
}

/**
 * Opens a source for reading.
 * @returns its bytes, and how many there are, where that is known: the length that a response
 * announces may be that of a compressed body
 * @throws SealpinError `service_answer` for a response that is a refusal; TypeError for anything
 * but a source
 */
export function openSource(source: Source): { stream: ReadableStream<Uint8Array>; size: number | undefined } {
  if (typeof source === 'string') return openSource(utf8(source));
  if (source instanceof Uint8Array) return { stream: streamOf(source), size: source.length };
  if (source instanceof ArrayBuffer) return openSource(new Uint8Array(source));
  if (source instanceof Blob) return { stream: source.stream(), size: source.size };
  if (source instanceof ReadableStream) return { stream: source, size: undefined };
  if (!(source instanceof Response))
    throw new TypeError(
      'the source must be a Uint8Array, an ArrayBuffer, a string, a Blob, a Response or a ReadableStream',
    );
  if (source.ok) return { stream: source.body ?? streamOf(new Uint8Array()), size: undefined };
  source.body?.cancel().catch(() => undefined);
  throw new SealpinError('service_answer', `the response has status ${source.status}, and not the bytes of a file`);
}

/**
 * Runs what reads sources. Where it fails, streams that nothing has begun to read are cancelled: a
 * file may be open behind them. Who reads one cancels it.
 */
export async function usingSources<T>(sources: readonly unknown[], use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    for (const source of sources) {
      const stream = source instanceof Response ? source.body : source;
      if (stream instanceof ReadableStream && !stream.locked) stream.cancel(error).catch(() => undefined);
    }
    throw error;
  }
}

/**
 * A stream that also ends, with the signal's reason, when the signal is aborted; its source is
 * cancelled then.
 */
export function abortable(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  if (signal === undefined) return stream;
  const reader = stream.getReader();
  const { wait, interrupt } = interruptible();
  const stop = (): void => {
    interrupt(signal.reason);
    reader.cancel(signal.reason).catch(() => undefined);
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  const forget = (): void => signal.removeEventListener('abort', stop);
  return pulled({
    async next() {
      const { value } = await wait(reader.read());
      if (value === undefined) forget();
      return value;
    },
    cancel(reason) {
      forget();
      return reader.cancel(reason);
    },
  });
}

/** The bytes of valid base64. */
export function bytesOfBase64(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
