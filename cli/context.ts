/** What the outside hands in: the rim (`index.ts`) fills it from the process, a test from its own streams. */
import type { Readable, Writable } from 'node:stream';
import type { Timeouts } from './remote/timeouts.ts';
import type { Output } from './terminal/output.ts';

/** A stream that may be a terminal. */
type In = Readable & { readonly isTTY?: boolean };
export type Out = Writable & { readonly isTTY?: boolean; readonly columns?: number };

export type World = {
  readonly stdin: In;
  readonly stdout: Out;
  readonly stderr: Out;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly platform: NodeJS.Platform;
  /** Fires on SIGINT, SIGTERM, SIGHUP and when nobody reads stdout any more; its reason is a SealpinError. */
  readonly signal: AbortSignal;
  /** A lower scrypt cost for tests, as log2 of N (RFC 7914 section 2); the core's own when left out, as the command line does. */
  readonly scryptLogN?: number | undefined;
  readonly now: () => number;
  /** How slow a service or gateway may be. */
  readonly timeouts: Timeouts;
  /** Whether a person may be asked at the terminal. */
  readonly interactive: boolean;
};

/** What a command gets: the outside, where its data lives and where its words go. */
export type Context = World & {
  readonly output: Output;
  /** Absolute; it need not exist. */
  readonly dataDir: string;
  /** `--service`, if given. */
  readonly service: string | undefined;
};
