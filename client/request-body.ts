/** Bodies for `fetch`: bytes that are known in advance, and streams where the engine can send them. */
import { SealpinError } from '../shared/errors.ts';
import { cidBuilder, type SizedCid } from '../shared/ipfs/index.ts';
import { cidOf } from './blobs.ts';
import { blobOf, isReadOnce, openSource, type Source } from './web-bytes.ts';

/** The body of a request. */
export type Body = {
  readonly body: Blob | ReadableStream<Uint8Array>;
  /** The CID of its bytes; undefined where it is known only once they are sent. */
  readonly cid: string | undefined;
  /** The CID of a stream, once its last byte was sent. */
  sent(): SizedCid | undefined;
  /** The error of the source, when that is why the request failed. */
  failure(): unknown;
};

/** A stream of up to this size is read before it is sent, so that its CID goes with it. */
const bufferedBytes = 32 * 1024 * 1024;

/**
 * Prepares a body. What can be read again is, for its CID, and short streams are buffered; longer ones are sent while they are read.
 * @param o.cid whether the CID is wanted
 * @throws SealpinError `too_large` for a long stream where the engine sends none; what the source fails with, the signal's reason
 */
export async function bodyOf(source: Source, o: { cid: boolean; signal: AbortSignal | undefined }): Promise<Body> {
  if (!isReadOnce(source)) {
    const blob = blobOf(source);
    const cid = o.cid ? await cidOf(blob, o.signal === undefined ? {} : { signal: o.signal }) : undefined;
    return { body: blob, cid, sent: () => undefined, failure: () => undefined };
  }
  const reader = openSource(source).stream.getReader();
  const stop = () => void reader.cancel(o.signal?.reason).catch(() => undefined);
  o.signal?.addEventListener('abort', stop, { once: true });
  const builder = cidBuilder();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  let failure: unknown;
  let sent: SizedCid | undefined;
  async function next(): Promise<Uint8Array | undefined> {
    try {
      const { done, value } = await reader.read();
      o.signal?.throwIfAborted();
      if (done) {
        sent = await builder.finish();
        o.signal?.removeEventListener('abort', stop);
      } else await builder.write(value);
      return value;
    } catch (error) {
      failure = error;
      throw error;
    }
  }
  while (bytes <= bufferedBytes) {
    const chunk = await next();
    if (chunk === undefined)
      return { body: new Blob(chunks), cid: sent?.cid, sent: () => sent, failure: () => undefined };
    chunks.push(chunk as Uint8Array<ArrayBuffer>);
    bytes += chunk.length;
  }
  if (!sendsStreams()) {
    stop();
    throw new SealpinError(
      'too_large',
      `this browser sends no streams of more than ${bufferedBytes / 1024 / 1024} MiB`,
      {
        hint: 'give a Blob: put takes it as it is, and upload sends it in parts',
      },
    );
  }
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = chunks.shift() ?? (await next());
        if (chunk === undefined) controller.close();
        else controller.enqueue(chunk);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return { body, cid: undefined, sent: () => sent, failure: () => failure };
}

/**
 * Detects whether `fetch` sends a stream. Where it does not, it sends the text `[object ReadableStream]` instead: an
 * engine that reads `duplex` and takes the body for no text sends streams.
 */
export function sendsStreams(RequestClass: typeof Request = Request): boolean {
  let isAsked = false;
  try {
    const request = new RequestClass('https://sealpin.invalid/', {
      method: 'POST',
      body: new ReadableStream(),
      get duplex() {
        isAsked = true;
        return 'half';
      },
    } as RequestInit);
    // workerd, Deno and Bun send streams, and have no `duplex`; every browser calls itself Mozilla.
    const isKnown = isAsked || !navigator.userAgent.startsWith('Mozilla/');
    return isKnown && !request.headers.has('Content-Type');
  } catch {
    // Some versions of WebKit refuse such a body here, others in `fetch`, which have no `duplex`.
    return false;
  }
}
