/** The workerd of a service that was killed: it keeps serving old code over the same files. */
import { realpath } from 'node:fs/promises';
import { SealpinError } from '../../shared/errors.ts';
import type { lock } from '../io/lock.ts';
import { endProcess, isRunning, processesWith, type ProcessMark } from './process.ts';
import { quietSqlite } from '../io/quiet-sqlite.ts';
import { readState, localPaths, writeState } from './state.ts';

/** The variable in the environment of a workerd that names its state directory. */
export const ownerVariable = 'SEALPIN_STATE_DIR';

/** The state directory of a data directory, the same for every spelling of the data directory. */
export async function stateDirOf(dataDir: string): Promise<string> {
  return localPaths(await realpath(dataDir)).state;
}

/** The workerd processes that use a state directory, whichever service started them. */
export function workerdsOf(stateDir: string): ProcessMark[] {
  return processesWith('workerd', `${ownerVariable}=${stateDir}`);
}

/**
 * The workerd processes of a data directory: those that its last service recorded, and on Linux all
 * others.
 */
async function leftovers(dataDir: string): Promise<ProcessMark[]> {
  const recorded = (await readState(dataDir, 'run'))?.workerd ?? [];
  const found = process.platform === 'linux' ? workerdsOf(await stateDirOf(dataDir)) : [];
  const all = new Map([...recorded, ...found].map((mark) => [mark.pid, mark]));
  return [...all.values()].filter(isRunning);
}

/**
 * Ends what a killed service left, under the lock.
 * @returns whether the last service did not stop cleanly
 */
export async function endLeftover(dataDir: string): Promise<boolean> {
  const run = await readState(dataDir, 'run');
  const left = await leftovers(dataDir);
  for (const mark of left) await endProcess(mark, 0);
  await writeState(dataDir, 'run', undefined);
  return run !== undefined || left.length > 0;
}

/** Runs `use` under the lock; undefined while a service holds it. */
async function whileStopped<T>(dataDir: string, use: () => Promise<T>): Promise<T | undefined> {
  quietSqlite();
  let held: ReturnType<typeof lock>;
  try {
    held = (await import('../io/lock.ts')).lock(localPaths(dataDir).lock);
  } catch {
    // A directory that does not exist, or is not ours, has no service either.
    return undefined;
  }
  try {
    return await use();
  } finally {
    held.release();
  }
}

/** Ends what a killed service left, if no service runs. @returns how many processes */
export async function endLeftoverOfStopped(dataDir: string): Promise<number> {
  const ended = await whileStopped(dataDir, async () => {
    const left = await leftovers(dataDir);
    if (left.length > 0) await endLeftover(dataDir);
    return left.length;
  });
  return ended ?? 0;
}

/** Says what a killed service left, if it left anything and no service runs. */
export async function leftoverProblem(dataDir: string): Promise<SealpinError | undefined> {
  const [left] = (await whileStopped(dataDir, () => leftovers(dataDir))) ?? [];
  if (left === undefined) return undefined;
  return new SealpinError(
    'not_running',
    `no local service is running, but the runtime of a killed one still is: process ${left.pid}`,
    { hint: 'end it with: sealpin stop' },
  );
}
