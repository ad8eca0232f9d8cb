/**
 * Limits how long a test blocks its process for another program, which Vitest waits for whatever
 * the test's own limit is: each process of the tests loads it first. At the limit the program gets
 * SIGKILL, since Node may hang where it no longer hears others.
 */
import childProcess from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

/** In ms: less than the limit of a test (vitest.config.ts). */
const timeout = process.env['SEALPIN_LONG'] === '1' ? 3_000_000 : 150_000;
const { execFileSync, spawnSync } = childProcess;

type Call = [file: string, argv?: unknown, options?: object];

/** The same call with limits, where it has none of its own. */
const limited = ([file, argv, options]: Call): [string, string[], object] =>
  Array.isArray(argv)
    ? [file, argv as string[], { timeout, killSignal: 'SIGKILL', ...options }]
    : [file, [], { timeout, killSignal: 'SIGKILL', ...(argv as object | undefined) }];

Object.assign(childProcess, {
  execFileSync: (...call: Call) => execFileSync(...limited(call)),
  spawnSync: (...call: Call) => {
    const ended = spawnSync(...limited(call));
    // Not the limit of a test that looks at what happens then.
    const ownLimit = limited(call)[2] as { timeout?: number };
    if (ended.error !== undefined && ended.signal === 'SIGKILL' && ownLimit.timeout === timeout) throw ended.error;
    return ended;
  },
});
syncBuiltinESMExports();
