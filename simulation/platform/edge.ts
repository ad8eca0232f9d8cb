/** Requests of clients to the Worker: they travel, their lines break, and who serves them dies. */
import { newOwner, type Owner, type Scheduler } from '../host/scheduler.ts';
import type { Answer, Arrivals, Line, Sent } from './line.ts';
import type { SimulatedFront } from './simulated-front.ts';

/** The line broke before there was an answer. */
export class Broken extends Error {}

/** A Worker, as its module exports it. */
export type Worker = { fetch(request: Request, env: object, context: object): Response | Promise<Response> };

/** The address of the service. */
export const origin = 'https://files.example.com';
export const adminToken = 'operator-of-the-simulation';
const clientTravelMs = [1, 120] as const;
/** Time for which a Worker may go on without its client, in ms. */
const graceMs = 30_000;

/** `front`: the process before the Worker, where there is one. */
type EdgeOptions = { scheduler: Scheduler; worker: Worker; env: object; front: SimulatedFront | undefined };

/** The place where requests arrive. */
export class Edge {
  readonly #o: EdgeOptions;
  readonly #running = new Map<Owner, () => void>();
  #count = 0;

  constructor(options: EdgeOptions) {
    this.#o = options;
  }

  /**
   * Ends everything that runs for requests, as the end of an isolate does.
   * @returns whether there was something
   */
  crash(): boolean {
    const { size } = this.#running;
    for (const [owner, broken] of this.#running) {
      this.#o.scheduler.kill(owner);
      broken();
    }
    this.#running.clear();
    return size > 0;
  }

  /**
   * Breaks the lines of all clients; what they have begun may go on for a while.
   * @returns whether there was one
   */
  disconnect(): boolean {
    for (const broken of this.#running.values()) broken();
    return this.#running.size > 0;
  }

  /** Sends a request. @throws Broken */
  async fetch(sent: Sent): Promise<Answer> {
    const { scheduler } = this.#o;
    const client = scheduler.owner;
    const travel = (): number => scheduler.random(client.name).spread(...clientTravelMs);
    const owner = newOwner(`request ${(this.#count += 1)} of ${client.name}`);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    let handed: ReturnType<SimulatedFront['take']>;
    const broken = (): void => {
      handed?.leave();
      scheduler.later(graceMs, 'grace', () => scheduler.kill(owner), newOwner('edge'));
      scheduler.later(travel(), 'line broke', () => reject(new Broken()), client);
    };
    this.#running.set(owner, broken);
    const serve = async (): Promise<void> => {
      const waiting: Promise<unknown>[] = [];
      const context = { waitUntil: (work: Promise<unknown>) => void waiting.push(work), passThroughOnException() {} };
      const ask = async (request: Request): Promise<Answer> => {
        const response = await this.#o.worker.fetch(request, this.#o.env, context);
        return { status: response.status, headers: response.headers, ...(await readAnswer(response)) };
      };
      const asked: Line['asked'] = (headers, body) =>
        this.#request({ ...sent, headers: { ...sent.headers, ...headers } }, body);
      const next = this.#arrivals(sent, broken);
      handed = this.#o.front?.take(sent, { asked, next, worker: owner, broken });
      const answer = await (handed?.answer(ask) ?? ask(asked({}, next)));
      if (handed?.owner.isDead !== true)
        scheduler.later(travel(), `${owner.name} answers ${answer.status}`, () => resolve(answer), client);
      await Promise.race([Promise.allSettled(waiting), scheduler.sleep(graceMs)]);
      this.#running.delete(owner);
      for (const each of [owner, handed?.owner]) if (each !== undefined) scheduler.kill(each);
    };
    scheduler.later(travel(), `${sent.method} ${sent.path}`, () => void serve(), owner);
    return await promise;
  }

  /** A request as the Worker gets it. @param next the next bytes of its body */
  #request({ method, path, headers, body }: Sent, next?: Arrivals): Request {
    const all = { 'CF-Connecting-IP': '192.0.2.1', ...headers };
    if (body === undefined) return new Request(`${origin}${path}`, { method, headers: all });
    const init = { method, headers: { 'Content-Length': String(body.length), ...all }, duplex: 'half' };
    return new Request(`${origin}${path}`, next === undefined ? init : { ...init, body: arriving(next) });
  }

  /** The bytes of a body as they arrive, until its line breaks. */
  #arrivals({ body, cutAt }: Sent, broken: () => void): Arrivals | undefined {
    if (body === undefined) return undefined;
    const { scheduler } = this.#o;
    const pieces = inPieces(body.subarray(0, cutAt ?? body.length), 1 + scheduler.random('edge').below(3));
    return async () => {
      await scheduler.sleep(scheduler.random('edge').spread(0.2, 30), 'bytes arrive');
      const piece = pieces.shift();
      if (piece !== undefined || cutAt === undefined) return piece;
      broken();
      throw new TypeError('Network connection lost.');
    };
  }
}

function inPieces(bytes: Uint8Array, count: number): Uint8Array[] {
  const each = Math.max(1, Math.ceil(bytes.length / count));
  return Array.from({ length: Math.ceil(bytes.length / each) }, (_, i) => bytes.slice(i * each, (i + 1) * each));
}

async function readAnswer(response: Response): Promise<Pick<Answer, 'bytes' | 'isWhole'>> {
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
function arriving(next: Arrivals): ReadableStream<Uint8Array> {
  const stream = new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      const piece = await next();
      if (piece !== undefined) return controller.enqueue(piece);
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
  const plain = stream.getReader.bind(stream) as (o?: object) => { read(view: Uint8Array, o: object): unknown };
  const getReader = (o?: object): object => {
    const reader = plain(o);
    return Object.assign(reader, { readAtLeast: (min: number, view: Uint8Array) => reader.read(view, { min }) });
  };
  return Object.assign(stream, { getReader }) as ReadableStream<Uint8Array>;
}
