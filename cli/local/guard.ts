/**
 * What stands in front of the Worker under `sealpin start`, in workerd: a service on loopback must not be driven by web
 * pages. A page can send a request to 127.0.0.1 (then it has a foreign Origin or Sec-Fetch-Site), or have its own name
 * point there (then the Host is foreign). Nothing of this is part of what is deployed.
 */
import { refusal } from './origin.ts';
import worker from './worker.js';

type Env = { LOCAL_PORT: string; LOCAL_CONTROL: string };

let running = 0;

function refuse(detail: string): Response {
  const problem = { type: 'about:blank', title: 'This is not allowed', status: 403, detail, code: 'forbidden' };
  return new Response(JSON.stringify(problem), {
    status: 403,
    headers: { 'content-type': 'application/problem+json' },
  });
}

/** Bytes of one read; left to itself, workerd gives 4 KiB at a time. */
const readBytes = 256 * 1024;

type Reader = {
  read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
  cancel(reason: unknown): Promise<void>;
};

function readerOf(stream: ReadableStream<Uint8Array>): Reader {
  try {
    const reader = stream.getReader({ mode: 'byob' });
    return { read: () => reader.read(new Uint8Array(readBytes)), cancel: (reason) => reader.cancel(reason) };
  } catch {
    return stream.getReader(); // not a byte stream: the platform tells only by throwing
  }
}

/** Passes a body on, so that its end is known. A body that breaks stays broken: its length is announced, or its reader checks. */
async function pass(from: ReadableStream<Uint8Array>, to: WritableStream<Uint8Array>): Promise<void> {
  const reader = readerOf(from);
  const writer = to.getWriter();
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) await writer.write(piece.value);
    await writer.close();
  } catch (error) {
    await Promise.allSettled([writer.abort(error), reader.cancel(error)]); // one of them is what failed
  }
}

/** workerd's own streams, which other runtimes lack (developers.cloudflare.com/workers/runtime-apis/streams/transformstream). */
type Through = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> };
declare const FixedLengthStream: new (bytes: number) => Through;
declare const IdentityTransformStream: new () => Through;

export * from './worker.js';
export default {
  async fetch(request: Request, env: Env, context: { waitUntil(work: Promise<unknown>): void }): Promise<Response> {
    if (request.headers.get('sealpin-control') === env.LOCAL_CONTROL) return Response.json({ running });
    const why = refusal(request.headers, env.LOCAL_PORT);
    if (why !== undefined) return refuse(why);
    running += 1;
    let body: Promise<void> | undefined;
    try {
      const answer = await worker.fetch(request, env, context);
      if (answer.body === null || request.method === 'HEAD') return answer;
      const length = answer.headers.get('content-length');
      const { readable, writable } =
        length === null ? new IdentityTransformStream() : new FixedLengthStream(Number(length));
      body = pass(answer.body, writable).finally(() => (running -= 1));
      context.waitUntil(body);
      return new Response(readable, answer);
    } finally {
      if (body === undefined) running -= 1;
    }
  },
};
