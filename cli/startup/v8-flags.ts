/** Flags of V8 for the command line. */

/** Modules of Node that the commands use and that are large. */
const nodeModules = ['node:crypto', 'node:fs/promises', 'node:http', 'node:stream', 'node:stream/web'];

/**
 * We allocate mostly buffers, outside V8's heap. A young generation that grows (to 32 MiB) lets
 * dead ones pile up until V8 marks the whole heap for them: measured, a third of the user CPU of
 * decrypting 1 GiB and 50 MiB of RSS. So it stays small.
 */
const smallYoungGeneration = ['--semi-space-growth-factor=1', '--no-incremental-marking'];

/**
 * A thread that compiles in the background and finds the heap at its limit waits until the main
 * thread has collected garbage, which that no longer does once Node ends: it waits for that thread,
 * for ever and deaf to signals (nodejs/node#54918, in Node 22 to 26). So code is allocated by the
 * main thread alone, as the optimizing compiler does anyway; Maglev is off, since its own flags for
 * that abort the process where they change while it compiles.
 */
const noAllocationInBackground = ['--no-concurrent-sparkplug', '--no-maglev'];

/**
 * Sets them. V8 complains of a flag that it does not know. Once one is set, it refuses the compiled
 * code that Node has of its own modules, which would cost a small command a quarter of its time, so
 * they are loaded before.
 */
export function setV8Flags(): void {
  for (const name of nodeModules) process.getBuiltinModule(name);
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  for (const flag of [...smallYoungGeneration, ...noAllocationInBackground]) setFlagsFromString(flag);
}
