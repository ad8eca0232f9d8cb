/**
 * One request whose bytes go past the Worker. What the process in front tells the Worker, and
 * gives, is what the product does (`handover.ts`); the lines to both sides are those of the
 * simulation.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, Readable, Writable } from 'node:stream';
import { give, handOver, isContinued, wantsBody, type Direct, type Place } from '../../cli/local/front/handover.ts';
import { receive, receiveParts, type FileIntake } from '../../cli/local/node/direct.ts';
import { newOwner, type Owner, type Scheduler } from '../host/scheduler.ts';
import type { Answer, Line } from './line.ts';

const handoverTravelMs = [0.2, 40] as const;
/** Time between pieces of a body, in ms: the Worker hears that some arrive. */
const pieceMs = [1, 400] as const;
/** The same where a part ends before its client goes on. */
const slowMs = [5_000, 9_000] as const;

export type HandoverOptions = { scheduler: Scheduler; node: Pick<Direct, 'bytesOf' | 'carOf'>; intake: FileIntake };

/** Method, address and headers of a request that is handed over. */
export type Asked = Pick<IncomingMessage, 'method' | 'url' | 'headers'>;

export class SimulatedHandover {
  readonly owner: Owner;
  readonly request: Request;
  readonly #o: HandoverOptions;
  readonly #line: Line;
  readonly #left = new AbortController();
  readonly #socket = { destroyed: false };
  /** The request, as the product looks at it. */
  readonly #asked: IncomingMessage;
  /** What goes to the Worker. */
  readonly #upstream = new PassThrough();
  /** Set while what has arrived counts also where the client leaves. */
  #isKept = false;

  constructor(options: HandoverOptions, line: Line, asked: Asked) {
    this.#o = options;
    this.#line = line;
    this.owner = newOwner(`front of ${line.worker.name}`);
    this.request = new Request(line.asked(), { signal: this.#left.signal });
    const about = { ...asked, socket: this.#socket };
    this.#asked = Object.assign(Readable.from(this.#arriving()), about) as unknown as IncomingMessage;
  }

  /** Ends the process that serves it: what has not arrived at the Worker is lost. */
  end(): void {
    this.#o.scheduler.kill(this.owner);
    this.#isKept = false;
    this.#line.broken();
  }

  /** The client has left. */
  leave(): void {
    this.#socket.destroyed = true;
    this.#asked.destroy();
    if (this.#isKept) return;
    this.#upstream.destroy();
    const left = (): void => this.#left.abort(new Error('The client has disconnected.'));
    this.#o.scheduler.later(this.#ms(handoverTravelMs), 'the line to the Worker broke', left, this.#line.worker);
  }

  /** What comes instead of the body, which is received once the Worker asks for it. */
  report(): ReadableStream<Uint8Array> {
    const { scheduler } = this.#o;
    const upstream = this.#upstream as unknown as ClientRequest;
    const begin = (): void => {
      this.#isKept = isContinued(this.#asked);
      void handOver(this.#asked, upstream, this.#direct(), () => undefined);
    };
    const told = this.#upstream[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>;
    let isAsked = false;
    let rest: Uint8Array | undefined = new Uint8Array();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      if (!isAsked) scheduler.later(this.#ms(handoverTravelMs), 'the body is asked for', begin, this.owner);
      isAsked = true;
      const failed = await (rest?.length === 0 ? told.next() : Promise.resolve({ value: rest })).then(
        ({ value }) => void (rest = value),
        () => true,
      );
      // Only the living hear of it.
      await new Promise<void>((resolve) => {
        scheduler.later(this.#ms(handoverTravelMs), 'a line to the Worker', resolve, this.#line.worker);
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
    const { asked, next } = this.#line;
    const answer = await ask(this.request);
    this.#upstream.emit('response');
    this.#isKept = false;
    const hasLeft = this.owner.isDead || this.#socket.destroyed;
    const told = { headers: Object.fromEntries(answer.headers) } as IncomingMessage;
    if (!hasLeft && wantsBody(this.#asked, told)) return await ask(asked({}, next));
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
    const parsed = JSON.parse(place) as Place;
    const failedAt = await give(to, parsed, this.#direct(), begin);
    if (failedAt !== undefined && pieces.length === 0) return await ask(asked());
    const examine = (): Promise<Answer> => ask(asked({ Range: `bytes=${failedAt}-${failedAt}` }));
    if (failedAt !== undefined && parsed.form !== undefined) void this.#o.scheduler.as(newOwner('examining'), examine);
    return { ...answer, bytes: new Uint8Array(Buffer.concat(pieces)), isWhole: failedAt === undefined };
  }

  /** The node, as the product takes it. */
  #direct(): Direct {
    const { node, intake, scheduler } = this.#o;
    const read = async function* (this: SimulatedHandover, pieces: AsyncIterable<Uint8Array>) {
      for await (const piece of pieces) {
        await scheduler.sleep(this.#ms(handoverTravelMs), 'bytes are read');
        yield piece;
      }
    }.bind(this);
    const none = (): never => {
      throw new Error('nobody asks for it here');
    };
    return {
      receive: (pieces) => receive(intake, pieces),
      receiveParts: (pieces, o) => receiveParts(intake, pieces, o),
      bytesOf: (file) => read(node.bytesOf(file)),
      carOf: (file) => read(node.carOf(file)),
      header: none,
      giving: new Set<ServerResponse>(),
    };
  }

  async *#arriving(): AsyncGenerator<Uint8Array> {
    for (let piece = await this.#line.next?.(); piece !== undefined; piece = await this.#line.next?.()) {
      const isSlow = isContinued(this.#asked) && this.#o.scheduler.random('front').chance(0.4);
      await this.#o.scheduler.sleep(this.#ms(isSlow ? slowMs : pieceMs), 'slow bytes arrive');
      yield Buffer.from(piece);
    }
  }

  #ms(range: readonly [from: number, to: number]): number {
    return this.#o.scheduler.random('front').spread(...range);
  }
}
