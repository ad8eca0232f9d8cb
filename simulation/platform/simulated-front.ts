/** The process in front of the Worker, past which bytes of plain files go to and from its node. */
import type { IncomingMessage } from 'node:http';
import { isHandedOver } from '../../cli/local/front/handover.ts';
import { leafBytes } from '../../shared/ipfs/index.ts';
import type { Line, Sent } from './line.ts';
import { SimulatedHandover, type Asked, type HandoverOptions } from './simulated-handover.ts';

/** The share of the requests whose bytes the node may take or give, of which it does. */
const handedOverShare = 0.7;

export class SimulatedFront {
  readonly #o: HandoverOptions;
  readonly #running = new Set<SimulatedHandover>();
  /** What the Worker knows requests by that are handed over. */
  readonly handovers = new WeakMap<Request, { report?: ReadableStream<Uint8Array> }>();

  constructor(options: HandoverOptions) {
    this.#o = options;
  }

  /**
   * Ends the process, and each line to it; another one begins at once.
   * @returns whether there was a line
   */
  end(): boolean {
    const { size } = this.#running;
    for (const each of this.#running) each.end();
    return size > 0;
  }

  /** Takes a request; undefined: it goes to the Worker as it is. */
  take({ method, path, headers, body }: Sent, line: Line): SimulatedHandover | undefined {
    if (body?.length === 0) return undefined;
    // Small ones go that way, too.
    const bytes = Math.max(leafBytes, body?.length ?? 0);
    const fields = { ...Object.fromEntries(new Headers(headers)), 'content-length': String(bytes) };
    const asked: Asked = { method, url: path, headers: fields };
    if (!isHandedOver(asked as IncomingMessage) || !this.#o.scheduler.random('front').chance(handedOverShare))
      return undefined;
    const made = new SimulatedHandover(this.#o, line, asked);
    this.handovers.set(made.request, body === undefined ? {} : { report: made.report() });
    this.#running.add(made);
    made.owner.died.add(() => this.#running.delete(made));
    return made;
  }
}
