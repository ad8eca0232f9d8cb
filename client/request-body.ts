/**
 * Bodies for `fetch`: bytes that are known in advance, and streams where the engine can send them.
 */
import { SealpinError } from '../shared/errors.ts';
import { cidBuilder, type SizedCid } from '../shared/ipfs/index.ts';
import { cancelQuietly } from '../shared/streams/cancel-quietly.ts';
import { observed, peeked, pulled } from '../shared/streams/pulled.ts';
import { cidOf } from './blobs.ts';
import { abortable, blobOf, isReadOnce, openSource, type Source } from './web-bytes.ts';

export type Body = {
  readonly body: Blob | ReadableStream<Uint8Array>;
  /** The CID of its bytes; undefined where it is known only once they are sent. */
  readonly cid: string | undefined;
  /**
   * Ends the sending, and gives the CID of the whole source. The rest of a stream is read for it: a
   * service that knows a repeated request answers before it has read all.
   * @throws what the source fails with
   */
  whole(): Promise<string | undefined>;
  /** Ends the reading of the source. */
  cancel(): void;
  /** The error of the source, when that is why the request failed. */
  failure(): unknown;
};

/** A stream of up to this size is read before it is sent, so that its CID goes with it. */
const bufferedBytes = 32 * 1024 * 1024;

/**
 * Prepares a body. What can be read again is, for its CID, and short streams are buffered; longer
 * ones are sent while they are read.
 * @param options.cid whether the CID is wanted
 * @throws SealpinError `too_large` for a long stream where the engine sends none; what the source
 * fails with, the signal's reason
 */
export async function requestBody(
  source: Source,
  options: { cid: boolean; signal: AbortSignal | undefined },
): Promise<Body> {
  if (!isReadOnce(source)) {
    const blob = blobOf(source);
    const cid = options.cid ? await cidOf(blob, options) : undefined;
    return ofBlob(blob, cid);
  }
  const builder = cidBuilder();
  let failure: unknown;
  let sent: SizedCid | undefined;
  const hashed = observed(abortable(openSource(source).stream, options.signal), {
    onChunk: (chunk) => builder.write(chunk),
    async onEnd() {
      sent = await builder.finish();
    },
    onFail: (error) => (failure = error),
  });
  const { start, isAll, stream } = await peeked(hashed, bufferedBytes + 1);
  if (isAll) return ofBlob(new Blob(start as Uint8Array<ArrayBuffer>[]), sent?.cid);
  if (!sendsStreams()) {
    await cancelQuietly(stream);
    throw new SealpinError(
      'too_large',
      `this browser sends no streams of more than ${bufferedBytes / 1024 / 1024} MiB`,
      { hint: 'give a Blob: put takes it as it is, and upload sends it in parts' },
    );
  }
  const reader = stream.getReader();
  let isOver = false;
  // Who sends it cancels it where the response comes early, and the rest may still be wanted.
  const body = pulled({
    next: async () => (isOver ? undefined : (await reader.read()).value),
    cancel: () => (isOver = true),
  });
  return {
    body,
    cid: undefined,
    async whole() {
      isOver = true;
      for (let { done } = await reader.read(); !done;) ({ done } = await reader.read());
      return sent?.cid;
    },
    cancel: () => void reader.cancel().catch(() => undefined),
    failure: () => failure,
  };
}

function ofBlob(body: Blob, cid: string | undefined): Body {
  return { body, cid, whole: async () => cid, cancel: () => undefined, failure: () => undefined };
}

/**
 * Detects whether `fetch` sends a stream. Where it does not, it sends the text
 * `[object ReadableStream]` instead: an engine that reads `duplex` and takes the body for no text
 * sends streams.
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
