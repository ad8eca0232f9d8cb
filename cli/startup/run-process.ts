/** The command line as a process: the only file that reads the process. */
import { homedir } from 'node:os';
import { exitOf, SealpinError } from '../../shared/errors.ts';
import type { Environment } from '../context.ts';
import { defaultTimeouts } from '../timeouts.ts';
import { streamFailure } from '../terminal/output.ts';
import { setV8Flags } from './v8-flags.ts';

/** The current directory; ends the process if it was deleted. */
function currentDirectory(): string {
  try {
    return process.cwd();
  } catch {
    process.stderr.write(
      'sealpin: error: the current directory no longer exists\nsealpin: hint: change to another one: cd\n',
    );
    return process.exit(1);
  }
}

/** The home directory; empty where the system names none. */
function homeDirectory(): string {
  try {
    return homedir();
  } catch {
    return '';
  }
}

/**
 * Runs the command line of this process and ends the process with its exit code.
 * @param overrides what tests want otherwise; the command line itself overrides nothing
 */
export async function runProcess(overrides: Pick<Environment, 'scryptLogN'> = {}): Promise<never> {
  const [first = '-'] = process.argv.slice(2);
  if (!first.startsWith('-')) setV8Flags(); // and before our own modules
  const { main } = await import('../main.ts');

  const interruption = new AbortController();
  let exitBySignal: number | undefined;
  // 128 + the number of the signal, as shells report it (POSIX.1-2024, XCU 2.8.2).
  for (const [signal, exit] of Object.entries({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 })) {
    process.on(signal, () => {
      if (exitBySignal !== undefined) process.exit(exit);
      exitBySignal = exit;
      interruption.abort(new SealpinError('interrupted', `interrupted by ${signal}`));
    });
  }
  // The reader of our output may close it at any time (EPIPE); that ends the work, without a stack
  // trace. To a service stderr is its log, and it goes on without one.
  for (const stream of [process.stdout, process.stderr]) {
    const isLog = stream === process.stderr && first === 'start';
    stream.on('error', (error) => {
      if (isLog) return;
      const failure = streamFailure(error);
      exitBySignal ??= exitOf(failure);
      interruption.abort(failure);
    });
  }

  let problem: object | undefined;
  const environment: Environment = {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: currentDirectory(),
    home: homeDirectory(),
    platform: process.platform,
    signal: interruption.signal,
    now: Date.now,
    timeouts: defaultTimeouts,
    interactive: true,
    onFailure: (failure) => (problem = failure),
    ...overrides,
  };
  const exit = await main(process.argv.slice(2), environment);
  // Another program may have a channel to any command, and expects nothing on it.
  if (problem !== undefined && first === 'start' && process.connected)
    await new Promise((sent) => process.send?.(problem, sent));
  return process.exit(exit === 0 ? 0 : (exitBySignal ?? exit));
}
