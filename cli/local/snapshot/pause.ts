/** Pausing other processes for a moment, so that the files that they write stand still. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { SealpinError } from '../../../shared/errors.ts';
import { type ProcessMark, psWith, signalProcess } from '../process.ts';

/** Longest wait for a process to stand still, in ms: a write to a slow disk ends first. */
const stillMs = 5_000;

/**
 * Runs `act` while none of the processes runs. They go on afterwards, also after a failure.
 * @param find the processes, asked again until all of them stand still
 * @param act does not wait: what this process does meanwhile stands still, too
 * @throws internal when one of them does not stop; what `act` throws
 */
export async function whilePaused<T>(find: () => readonly ProcessMark[], act: () => T): Promise<T> {
  const paused = new Set<number>();
  try {
    for (const end = performance.now() + stillMs; performance.now() < end; await sleep(1)) {
      const pids = find().map(({ pid }) => pid);
      for (const pid of pids) if (!paused.has(pid) && signalProcess(pid, 'SIGSTOP')) paused.add(pid);
      if (pids.every((pid) => standsStill(pid))) return act();
    }
    throw new SealpinError('internal', `the runtime of the service cannot be paused for ${stillMs / 1000} s`);
  } finally {
    for (const pid of paused) signalProcess(pid, 'SIGCONT');
  }
}

/** Tells that no thread of a process runs: each of them stops by itself after the signal. */
function standsStill(pid: number): boolean {
  try {
    if (process.platform !== 'linux') return psWith(['-o', 'state=', '-p', String(pid)]).startsWith('T');
    return readdirSync(`/proc/${pid}/task`).every((thread) => {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8');
      return stat.startsWith('T', stat.lastIndexOf(')') + 2);
    });
  } catch {
    return false; // it, or one of its threads, has just ended
  }
}
