#!/usr/bin/env node
/**
 * The entry point: the only file that reads the process. It has no static imports, so that its first lines run first.
 */
import type { Environment } from './context.ts';

// Other users can read the arguments of a process, and one of them may be a password.
process.title = 'sealpin';

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 13)) {
  process.stderr.write(
    `sealpin: error: sealpin needs Node 22.13 or newer; this is Node ${process.versions.node}\n` +
      'sealpin: hint: install a newer one from https://nodejs.org/, or use ./sealpin in a checkout, which has its own\n',
  );
  process.exit(1);
}

// We allocate mostly buffers, outside V8's heap. A young generation that grows (to 32 MiB) lets dead ones pile up until V8
// marks the whole heap for them: measured, a third of the user CPU of decrypting 1 GiB and 50 MiB of RSS. It stays small.
const { setFlagsFromString } = await import('node:v8');
setFlagsFromString('--semi-space-growth-factor=1');

const { main } = await import('./main.ts');
const { streamFailure } = await import('./terminal/output.ts');
const { SealpinError } = await import('../shared/errors.ts');
const { homedir } = await import('node:os');
const { defaultTimeouts } = await import('./remote/timeouts.ts');

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

const interruption = new AbortController();
let exitBySignal: number | undefined;
// 128 + the number of the signal, as shells report it (POSIX.1-2024, XCU 2.8.2).
for (const [signal, exit] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const) {
  process.on(signal, () => {
    if (exitBySignal !== undefined) process.exit(exit);
    exitBySignal = exit;
    interruption.abort(new SealpinError('interrupted', `interrupted by ${signal}`));
  });
}
// The reader of our output may close it at any time (EPIPE); that ends the work, without a stack trace.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error) => {
    exitBySignal ??= 1;
    interruption.abort(streamFailure(error));
  });
}

const environment: Environment = {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: currentDirectory(),
  home: homedir(),
  platform: process.platform,
  signal: interruption.signal,
  now: Date.now,
  timeouts: defaultTimeouts,
  interactive: true,
};
const exit = await main(process.argv.slice(2), environment);
process.exit(exit === 0 ? 0 : (exitBySignal ?? exit));
