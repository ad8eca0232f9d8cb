/** A change that only the time of the last change of anything (ctime) shows. */
import { execFileSync } from 'node:child_process';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryDirectory } from './environment.ts';

const ctimeOf = async (path: string): Promise<bigint> => (await stat(path, { bigint: true })).ctimeNs;

/** Changes what has a path, and sets its own times back, to the nanosecond. */
export async function changeKeepingTimes(path: string, change: () => Promise<unknown>): Promise<void> {
  const model = join(await temporaryDirectory(), 'model');
  // Until the clock of the file system has moved on.
  do await writeFile(model, '');
  while ((await ctimeOf(model)) === (await ctimeOf(path)));
  execFileSync('touch', ['-r', path, model]);
  await change();
  execFileSync('touch', ['-r', model, path]);
}
