/**
 * The process in front of the Worker, which has a node in it: bytes of plain files go between
 * clients and the node, past the Worker.
 */
import type { Line, Sent } from './line.ts';
import { SimulatedHandover, type HandoverOptions } from './simulated-handover.ts';

/** Requests whose bytes the node may take or give, and the share of them that it does. */
const passing = { what: /^(?:POST \/v1\/storage\/plain\?|GET \/v1\/storage\/)/, share: 0.7 };

export class SimulatedFront {
  readonly #o: HandoverOptions;
  readonly #running = new Set<SimulatedHandover>();
  /** What the Worker knows requests by that are handed over. */
  readonly handovers = new WeakMap<Request, { report?: ReadableStream<Uint8Array> }>();

  constructor(options: HandoverOptions) {
    this.#o = options;
  }

  /** Ends the process, and each line to it; another one begins at once. */
  end(): void {
    for (const each of this.#running) each.end();
  }

  /** Takes a request; undefined: it goes to the Worker as it is. */
  take({ method, path, body }: Sent, line: Line): SimulatedHandover | undefined {
    const isPassing = passing.what.test(`${method} ${path}`) && body?.length !== 0;
    if (!isPassing || !this.#o.scheduler.random('front').chance(passing.share)) return undefined;
    const made = new SimulatedHandover(this.#o, line);
    this.handovers.set(made.request, body === undefined ? {} : { report: made.report() });
    this.#running.add(made);
    made.owner.died.add(() => this.#running.delete(made));
    return made;
  }
}
