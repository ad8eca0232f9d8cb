/** The warning that a file opens with one key only. */
import { writeFile } from 'node:fs/promises';
import type { Context } from '../context.ts';
import { pathsIn } from '../io/paths.ts';

/** Says once in a data directory that what only one key opens is lost with it. */
export async function noteOneKey(recipients: number, { dataDir, output }: Context): Promise<void> {
  if (recipients !== 1 || output.quiet) return;
  // Where the mark cannot be written, as without a data directory, it is said again.
  const isFirst = await writeFile(pathsIn(dataDir).oneKeyNoted, '', { flag: 'wx', mode: 0o600 }).then(
    () => true,
    (error: unknown) => (error as NodeJS.ErrnoException).code !== 'EEXIST',
  );
  if (isFirst) output.note('only one key opens this file: if it is lost, so is the file; name a second key to be safe');
}
