/**
 * What stands in front of the Worker under `sealpin start`, in workerd: a service on loopback must not be driven by web
 * pages. A page can send a request to 127.0.0.1 (then it has a foreign Origin or Sec-Fetch-Site), or have its own name
 * point there (then the Host is foreign). It also counts running requests, and has erased rows removed from the disk
 * before the answer. None of this is deployed.
 */
import { problemType, SealpinError, toProblem } from '../../shared/errors.ts';
import { refusal } from './origin.ts';
import worker, { Account as DeployedAccount } from './worker.js';

type Env = {
  LOCAL_PORT: string;
  LOCAL_CONTROL: string;
  /** Origins, separated by commas, whose pages may call. */
  LOCAL_ORIGINS?: string;
  /** Node, which can checkpoint the database file of an object. */
  LOCAL_ERASURE?: { fetch(url: string, init: RequestInit): Promise<Response> };
};

/** Stays below the 30 s after which workerd resets an object that blocks its events. */
const erasureMs = 10_000;

/**
 * SQLite's write-ahead log still holds the pages from before a deletion. Node truncates it, and this object handles no
 * event meanwhile: workerd has no busy timeout, so a write that meets a checkpoint would fail.
 */
class LocalAccount extends DeployedAccount {
  protected override async erased(): Promise<void> {
    const { LOCAL_ERASURE: erasure } = this.env as Env;
    if (erasure === undefined) return;
    await this.ctx.blockConcurrencyWhile(async () => {
      try {
        const url = `http://local/${this.ctx.id.toString()}`;
        const answer = await erasure.fetch(url, { method: 'POST', signal: AbortSignal.timeout(erasureMs) });
        if (!answer.ok) throw new Error(await answer.text());
      } catch (error) {
        // The rows are overwritten, which is what the receipt says of the service; the next stop or start does the rest.
        log({ event: 'erasure.late', error: String(error) });
      }
    });
  }
}

function log(line: Record<string, string | number>): void {
  // oxlint-disable-next-line no-console -- this is the log
  console.log(JSON.stringify(line));
}

function refuse(request: Request, detail: string): Response {
  const requestId = crypto.randomUUID();
  log({ event: 'request', requestId, method: request.method, route: 'refused', status: 403, ms: 0, reason: detail });
  const problem = toProblem(new SealpinError('forbidden'), {
    type: problemType('forbidden'),
    detail,
    hint: 'to develop a page against this service, start it with --cors-origin and the origin of the page',
    requestId,
  });
  return new Response(`${JSON.stringify(problem)}\n`, {
    status: problem.status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      'x-request-id': requestId,
    },
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

/**
 * Passes a body on, so that its end is known. A body that breaks stays broken: its length is announced, or its reader checks.
 * A client that leaves ends the reading, also while the source hangs.
 */
async function pass(
  from: ReadableStream<Uint8Array>,
  to: WritableStream<Uint8Array>,
  { signal }: Request,
): Promise<void> {
  const reader = readerOf(from);
  const writer = to.getWriter();
  const leave = (): void => void reader.cancel(signal.reason).catch(() => undefined); // it has ended already
  signal.addEventListener('abort', leave, { once: true });
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

/** The one representation that has no length beforehand; its readers verify that it is complete. */
const unmeasured = 'application/vnd.ipld.car';

/** Where a body of this answer goes through; undefined when it is small, and its length follows from reading it. */
function throughFor({ headers }: Response): Through | undefined {
  const length = headers.get('content-length');
  if (length !== null) return new FixedLengthStream(Number(length));
  return headers.get('content-type')?.startsWith(unmeasured) === true ? new IdentityTransformStream() : undefined;
}

/** Requests whose answers have not ended. workerd drops a request whose client left: its signal fires, no `finally` runs. */
const running = new Set<Request>();

function count(request: Request): () => void {
  const end = (): void => void running.delete(request);
  running.add(request);
  request.signal.addEventListener('abort', end, { once: true });
  return end;
}

export * from './worker.js';
export { LocalAccount as Account };
export default {
  async fetch(request: Request, env: Env, context: unknown): Promise<Response> {
    if (request.headers.get('sealpin-control') === env.LOCAL_CONTROL) return Response.json({ running: running.size });
    const origins = (env.LOCAL_ORIGINS ?? '').split(',').map((origin) => origin.trim());
    const why = refusal(request.headers, env.LOCAL_PORT, origins);
    if (why !== undefined) return refuse(request, why);
    const end = count(request);
    let body: Promise<void> | undefined;
    try {
      const answer = await worker.fetch(request, env, context);
      if (answer.body === null || request.method === 'HEAD') return answer;
      const through = throughFor(answer);
      if (through === undefined) return new Response(await answer.arrayBuffer(), answer);
      body = pass(answer.body, through.writable, request).finally(end);
      return new Response(through.readable, answer);
    } finally {
      if (body === undefined) end();
    }
  },
};
