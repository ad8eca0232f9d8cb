/**
 * A environment for tests: streams that collect, a home of its own, no terminal, cheap passwords.
 */
import { Readable, Writable } from 'node:stream';
import type { Context, Environment } from '../context.ts';
import { main } from '../main.ts';
import { createOutput } from '../terminal/output.ts';
import { defaultTimeouts } from '../timeouts.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';

export { temporaryDirectory };

/** A stream that keeps what is written to it. */
export class Collector extends Writable {
  isTTY = false;
  columns = 80;
  readonly chunks: Uint8Array[] = [];
  onWrite: (() => void) | undefined;
  override _write(chunk: Uint8Array, _encoding: string, done: () => void): void {
    // The writer may reuse its memory once the callback runs.
    this.chunks.push(Buffer.from(chunk));
    this.onWrite?.();
    done();
  }
  get bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }
  get text(): string {
    return this.bytes.toString('utf8');
  }
}

export type Ran = {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Buffer;
};

export type Overrides = Partial<Omit<Environment, 'stdin' | 'stdout' | 'stderr'>> & {
  readonly stdin?: string | Uint8Array | Readable;
  readonly stdout?: Collector;
  readonly stderr?: Collector;
};

/** A environment in a directory, with what a test wants otherwise. */
export function environmentIn(
  directory: string,
  overrides: Overrides = {},
): Environment & { readonly stdout: Collector; readonly stderr: Collector } {
  const { stdin = '', ...others } = overrides;
  return {
    stdout: new Collector(),
    stderr: new Collector(),
    env: {},
    cwd: directory,
    home: directory,
    platform: process.platform,
    signal: new AbortController().signal,
    scryptLogN: 10,
    now: Date.now,
    interactive: false,
    timeouts: defaultTimeouts,
    ...others,
    stdin: stdin instanceof Readable ? stdin : Readable.from(stdin.length === 0 ? [] : [Buffer.from(stdin as string)]),
  };
}

/** Runs one command line in a environment of its own. */
export async function run(argv: readonly string[], directory: string, overrides: Overrides = {}): Promise<Ran> {
  const environment = environmentIn(directory, overrides);
  const exit = await main(argv, environment);
  return {
    exit,
    stdout: environment.stdout.text,
    stderr: environment.stderr.text,
    stdoutBytes: environment.stdout.bytes,
  };
}

/** Makes the context that a command would get in such an environment. */
export function contextIn(
  directory: string,
  overrides: Overrides = {},
): Context & { readonly stdout: Collector; readonly stderr: Collector } {
  const environment = environmentIn(directory, overrides);
  return {
    ...environment,
    output: createOutput({ ...environment, json: false, quiet: false }),
    dataDir: directory,
    service: undefined,
  };
}
