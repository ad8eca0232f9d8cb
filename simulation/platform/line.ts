/** Messages that travel on the lines between clients, the process in front, and the Worker. */
import type { Owner } from '../host/scheduler.ts';

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

/** Gives the next bytes of a body; undefined: it has ended. */
export type Arrivals = () => Promise<Uint8Array | undefined>;

/** A request on its way. `asked`: makes it for the Worker, with the body that is given. */
export type Line = {
  asked(headers?: Record<string, string>, body?: Arrivals): Request;
  worker: Owner;
  next: Arrivals | undefined;
  /** Breaks the line to the client. */
  broken(): void;
};
