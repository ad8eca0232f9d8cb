/**
 * One request whose bytes go past the Worker. What the process in front tells the Worker, and
 * gives, is what the product does (`handover.ts`); the lines to both sides are those of the
 * simulation.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, Readable, Writable } from 'node:stream';
import { give, handOver, type Direct, type Place } from '../../cli/local/front/handover.ts';
import { newOwner, type Owner, type Scheduler } from '../host/scheduler.ts';
import type { Answer, Line } from './line.ts';

const travelMs = { from: 0.2, to: 40 };
/** Time between pieces of a body, in ms: the Worker hears that some arrive. */
const pieceMs = { from: 1, to: 400 };

export type HandoverOptions = { scheduler: Scheduler; node: Pick<Direct, 'receive' | 'bytesOf'> };

export class SimulatedHandover {
  readonly owner: Owner;
  readonly request: Request;
  readonly #o: HandoverOptions;
  readonly #line: Line;
  readonly #left = new AbortController();
  readonly #body: Readable & { socket: { destroyed: boolean }; headers: object };
  /** What goes to the Worker. */
  readonly #upstream = new PassThrough();

  constructor(options: HandoverOptions, line: Line) {
    this.#o = options;
    this.#line = line;
    this.owner = newOwner(`front of ${line.worker.name}`);
    this.request = new Request(line.asked(), { signal: this.#left.signal });
    this.#body = Object.assign(Readable.from(this.#arriving()), { socket: { destroyed: false }, headers: {} });
  }

  /** Ends the process that serves it: what has not arrived at the Worker is lost. */
  end(): void {
    this.#o.scheduler.kill(this.owner);
    this.#line.broken();
  }

  /** The client has left. */
  leave(): void {
    this.#body.socket.destroyed = true;
    for (const each of [this.#body, this.#upstream]) each.destroy();
    const left = (): void => this.#left.abort(new Error('The client has disconnected.'));
    this.#o.scheduler.later(this.#ms(travelMs), 'the line to the Worker broke', left, this.#line.worker);
  }

  /** What comes instead of the body, which is received once the Worker asks for it. */
  report(): ReadableStream<Uint8Array> {
    const { scheduler } = this.#o;
    const [request, upstream] = [this.#body as unknown, this.#upstream as unknown];
    const receive = (): void =>
      void handOver(request as IncomingMessage, upstream as ClientRequest, this.#direct(), () => undefined);
    const told = this.#upstream[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>;
    let isAsked = false;
    let rest: Uint8Array | undefined = new Uint8Array();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      if (!isAsked) scheduler.later(this.#ms(travelMs), 'the body is asked for', receive, this.owner);
      isAsked = true;
      const failed = await (rest?.length === 0 ? told.next() : Promise.resolve({ value: rest })).then(
        ({ value }) => void (rest = value),
        () => true,
      );
      // Only the living hear of it.
      await new Promise<void>((resolve) => {
        scheduler.later(this.#ms(travelMs), 'a line to the Worker', resolve, this.#line.worker);
      });
      if (failed === true || this.owner.isDead) return controller.error(new TypeError('Network connection lost.'));
      if (rest === undefined) return controller.close();
      const bytes = 1 + scheduler.random('front').below(rest.length);
      controller.enqueue(new Uint8Array(rest.subarray(0, bytes)));
      rest = rest.subarray(bytes);
    };
    return new ReadableStream({ pull }, { highWaterMark: 0 });
  }

  /**
   * Has the Worker answer, and gives the bytes whose place it names. Of what the node lacks the
   * Worker is asked: for all of it, or for the byte at which the response broke off.
   */
  async answer(ask: (request: Request) => Promise<Answer>): Promise<Answer> {
    const { asked } = this.#line;
    const answer = await ask(this.request);
    this.#upstream.emit('response');
    const place = answer.headers.get('sealpin-place');
    if (place === null || this.owner.isDead) return answer;
    const pieces: Uint8Array[] = [];
    const write = (piece: Uint8Array, _: string, done: () => void): void => {
      pieces.push(Buffer.from(piece));
      done();
    };
    const response = Object.assign(new Writable({ write }), { headersSent: false });
    const begin = (): void => void (response.headersSent = true);
    const to = response as unknown as ServerResponse;
    const failedAt = await give(to, JSON.parse(place) as Place, this.#direct(), begin);
    if (failedAt !== undefined && pieces.length === 0) return await ask(asked());
    const examine = (): Promise<Answer> => ask(asked({ Range: `bytes=${failedAt}-${failedAt}` }));
    if (failedAt !== undefined) void this.#o.scheduler.as(newOwner('examining'), examine);
    return { ...answer, bytes: new Uint8Array(Buffer.concat(pieces)), isWhole: failedAt === undefined };
  }

  /** The node, as the product takes it. */
  #direct(): Direct {
    const { node, scheduler } = this.#o;
    const bytesOf = async function* (this: SimulatedHandover, file: Parameters<Direct['bytesOf']>[0]) {
      for await (const piece of node.bytesOf(file)) {
        await scheduler.sleep(this.#ms(travelMs), 'bytes are read');
        yield piece;
      }
    }.bind(this);
    const none = (): never => {
      throw new Error('nobody asks for it here');
    };
    const others = { receiveParts: none, carOf: none, header: none, giving: new Set<ServerResponse>() };
    return { receive: (pieces) => node.receive(pieces), bytesOf, ...others };
  }

  async *#arriving(): AsyncGenerator<Uint8Array> {
    for (let piece = await this.#line.next?.(); piece !== undefined; piece = await this.#line.next?.()) {
      await this.#o.scheduler.sleep(this.#ms(pieceMs), 'slow bytes arrive');
      yield Buffer.from(piece);
    }
  }

  #ms({ from, to }: typeof travelMs): number {
    return this.#o.scheduler.random('front').spread(from, to);
  }
}
