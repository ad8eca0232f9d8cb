/** Inputs from the process: the entry point (`index.ts`) fills them in, a test makes its own. */
import type { BlockSource } from '../shared/ipfs/index.ts';
import type { Timeouts } from './timeouts.ts';
import type { Output } from './terminal/output.ts';
import type { InputStream, OutputStream } from './terminal/streams.ts';

/** Environment of the process: streams, variables, directories, clock, and what ends it. */
export type Environment = {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly platform: NodeJS.Platform;
  /** Fires on SIGINT, SIGTERM, SIGHUP and a closed stdout; its reason is a SealpinError. */
  readonly signal: AbortSignal;
  /** A cost of scrypt for tests, as log2 of N (RFC 7914 section 2), in place of the core's. */
  readonly scryptLogN?: number | undefined;
  readonly now: () => number;
  /** Limits on how slow a service or gateway may be. */
  readonly timeouts: Timeouts;
  /** Permits questions to a person at the terminal. */
  readonly interactive: boolean;
  /** Takes failures as stderr does: for the process that waits for this one (`start --detach`). */
  readonly onFailure?: ((problem: object) => void) | undefined;
};

/** Context of a command: its environment, its output and the location of its data. */
export type Context = Environment & {
  readonly output: Output;
  /** Absolute; it need not exist. */
  readonly dataDir: string;
  /** `--service`, if given. */
  readonly service: string | undefined;
  /** `--profile`, if given. */
  readonly profile?: string | undefined;
  /** Finds a blob among the files of the account, where nobody else gives it. */
  readonly ownFile?: (cid: string, context: Context) => Promise<BlockSource | undefined>;
};
