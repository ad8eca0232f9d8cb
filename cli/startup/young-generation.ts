/** Settings of V8's garbage collection for the command line. */

/** Modules of Node that the commands use and that are large. */
const nodeModules = ['node:crypto', 'node:fs/promises', 'node:http', 'node:stream', 'node:stream/web'];

const flags = ['--semi-space-growth-factor=1', '--no-incremental-marking'];

/**
 * We allocate mostly buffers, outside V8's heap. A young generation that grows (to 32 MiB) lets
 * dead ones pile up until V8 marks the whole heap for them: measured, a third of the user CPU of
 * decrypting 1 GiB and 50 MiB of RSS. It stays small. Once a flag is set, V8 refuses the compiled
 * code that Node has of its own modules, which would cost a small command a quarter of its time, so
 * they are loaded before.
 */
export function keepYoungGenerationSmall(): void {
  for (const name of nodeModules) process.getBuiltinModule(name);
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  for (const flag of flags) setFlagsFromString(flag);
}
