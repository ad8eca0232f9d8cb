/** Requests of clients to the Worker: they travel, their lines break, and who serves them dies. */
import { newOwner, type Owner, type Scheduler } from '../host/scheduler.ts';

/** A request of a client. `cutAt`: bytes of the body after which its line breaks. */
export type Sent = {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: Uint8Array | undefined;
  cutAt?: number | undefined;
};

/** Response as a client gets it. `isWhole`: whether the body came to its end. */
export type Answer = { status: number; headers: Headers; bytes: Uint8Array; isWhole: boolean };

/** The line broke before there was an answer. */
export class Broken extends Error {}

/** A Worker, as its module exports it. */
export type Worker = { fetch(request: Request, env: object, context: object): Response | Promise<Response> };

const origin = 'https://files.example.com';
const travelMs = { from: 1, to: 120 };
/** Time for which a Worker may go on without its client, in ms. */
const graceMs = 30_000;

export type EdgeOptions = { scheduler: Scheduler; worker: Worker; env: object };

/** The place where requests arrive. */
export class Edge {
  readonly #o: EdgeOptions;
  readonly #running = new Map<Owner, () => void>();
  #count = 0;

  constructor(options: EdgeOptions) {
    this.#o = options;
  }

  /** Ends everything that runs for requests, as the end of an isolate does. */
  crash(): void {
    for (const [owner, broken] of this.#running) {
      this.#o.scheduler.kill(owner);
      broken();
    }
    this.#running.clear();
  }

  /** Breaks the lines of all clients; what they have begun may go on for a while. */
  disconnect(): void {
    for (const broken of this.#running.values()) broken();
  }

  /** Sends a request. @throws Broken */
  async fetch(sent: Sent): Promise<Answer> {
    const { scheduler } = this.#o;
    const client = scheduler.owner;
    const random = scheduler.random(client.name);
    const owner = newOwner(`request ${(this.#count += 1)} of ${client.name}`);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const broken = (): void => {
      scheduler.later(graceMs, 'grace', () => scheduler.kill(owner), newOwner('edge'));
      scheduler.later(random.spread(travelMs.from, travelMs.to), 'line broke', () => reject(new Broken()), client);
    };
    this.#running.set(owner, broken);
    const travel = (): number => random.spread(travelMs.from, travelMs.to);
    const serve = async (): Promise<void> => {
      const waiting: Promise<unknown>[] = [];
      const context = { waitUntil: (work: Promise<unknown>) => void waiting.push(work), passThroughOnException() {} };
      const response = await this.#o.worker.fetch(this.#request(sent, broken), this.#o.env, context);
      const body = await read(response);
      scheduler.later(
        travel(),
        `${owner.name} answers ${response.status}`,
        () => resolve({ status: response.status, headers: response.headers, ...body }),
        client,
      );
      await Promise.race([Promise.allSettled(waiting), scheduler.sleep(graceMs)]);
      this.#running.delete(owner);
      scheduler.kill(owner);
    };
    scheduler.later(travel(), `${sent.method} ${sent.path}`, () => void serve(), owner);
    return await promise;
  }

  #request({ method, path, headers = {}, body, cutAt }: Sent, broken: () => void): Request {
    const { scheduler } = this.#o;
    const all = { 'CF-Connecting-IP': '192.0.2.1', ...headers };
    if (body === undefined) return new Request(`${origin}${path}`, { method, headers: all });
    const pieces = inPieces(body.subarray(0, cutAt ?? body.length), 1 + scheduler.random('edge').below(3));
    const stream = arriving(async () => {
      await scheduler.sleep(scheduler.random('edge').spread(0.2, 30), 'bytes arrive');
      const piece = pieces.shift();
      if (piece !== undefined || cutAt === undefined) return piece;
      broken();
      throw new TypeError('Network connection lost.');
    });
    const init = { method, headers: { 'Content-Length': String(body.length), ...all }, body: stream, duplex: 'half' };
    return new Request(`${origin}${path}`, init);
  }
}

function inPieces(bytes: Uint8Array, count: number): Uint8Array[] {
  const each = Math.max(1, Math.ceil(bytes.length / count));
  return Array.from({ length: Math.ceil(bytes.length / each) }, (_, i) => bytes.slice(i * each, (i + 1) * each));
}

async function read(response: Response): Promise<Pick<Answer, 'bytes' | 'isWhole'>> {
  const chunks: Uint8Array[] = [];
  let isWhole = true;
  try {
    if (response.body !== null) for await (const chunk of response.body) chunks.push((chunk as Uint8Array).slice());
  } catch {
    isWhole = false;
  }
  return { bytes: new Uint8Array(Buffer.concat(chunks)), isWhole };
}

/** A body whose reader can wait for some bytes, as in workerd. */
function arriving(next: () => Promise<Uint8Array | undefined>): ReadableStream<Uint8Array> {
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const piece = await next();
        if (piece === undefined) controller.close();
        else controller.enqueue(piece);
      },
    },
    { highWaterMark: 0 },
  );
  let rest = new Uint8Array();
  let isOver = false;
  async function readAtLeast(minBytes: number, view: Uint8Array): Promise<{ done: boolean; value: Uint8Array }> {
    while (rest.length < minBytes && !isOver) {
      const piece = await next();
      if (piece === undefined) isOver = true;
      else rest = new Uint8Array(Buffer.concat([rest, piece]));
    }
    const given = rest.subarray(0, view.length);
    rest = rest.subarray(given.length);
    const value = new Uint8Array(view.buffer, view.byteOffset, given.length);
    value.set(given);
    return { done: given.length === 0, value };
  }
  const reader = {
    readAtLeast,
    read: (view: Uint8Array) => readAtLeast(1, view),
    cancel: async () => void (isOver = true),
    releaseLock() {},
  };
  const plain = stream.getReader.bind(stream) as (o?: object) => unknown;
  return Object.assign(stream, { getReader: (o?: { mode?: string }) => (o?.mode === 'byob' ? reader : plain(o)) });
}
