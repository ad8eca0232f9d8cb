/** Memory and CPU time of a process, from /proc on Linux (proc(5)). */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** Resident memory now, in MiB; undefined: the process has ended. */
export function residentMiB(pid: number): number | undefined {
  return toMiB(field(pid, 'VmRSS'));
}

/** The peak of resident memory since `forgetPeak`, in MiB; undefined: the process has ended. */
export function peakMiB(pid: number): number | undefined {
  return toMiB(field(pid, 'VmHWM'));
}

/** Resets the peak to what is resident now. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/**
 * CPU time that a process has used, user and system, in ms; Linux counts in hundredths of a second.
 * @throws when it has ended
 */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field, the name of the program, may hold blanks and parentheses.
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) * 10;
}

/** Memory of a process and all below it, in MiB, what they share counted once (Pss). */
export function proportionalMiB(pid: number): number {
  return below([pid]).reduce((sum, each) => sum + (toMiB(field(each, 'Pss', 'smaps_rollup')) ?? 0), 0);
}

/** CPU time of processes and all below them, by PID, in ms. */
export function cpuMsBelow(pids: readonly number[]): Map<number, number> {
  return new Map(below(pids).map((pid) => [pid, ifAlive(() => cpuMs(pid)) ?? 0]));
}

/** CPU time between two looks, in ms: what one has used that has ended is not in it. */
export function usedMs(before: ReadonlyMap<number, number>, after: ReadonlyMap<number, number>): number {
  return [...after].reduce((sum, [pid, ms]) => sum + Math.max(0, ms - (before.get(pid) ?? 0)), 0);
}

/** Processes that run, and all that descend from them. */
function below(pids: readonly number[]): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const parent = field(Number(name), 'PPid');
    if (parent !== undefined) parents.set(Number(name), parent);
  }
  const isBelow = (each: number | undefined): boolean =>
    each !== undefined && (pids.includes(each) || isBelow(parents.get(each)));
  return [...parents.keys()].filter(isBelow);
}

/** A number of a file about a process; memory is in KiB there. */
function field(pid: number, name: string, file = 'status'): number | undefined {
  const text = ifAlive(() => readFileSync(`/proc/${pid}/${file}`, 'utf8')) ?? '';
  const number = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1];
  return number === undefined ? undefined : Number(number);
}

/**
 * Result of a read of /proc; undefined where the process was reaped before it (ENOENT) or during
 * it (ESRCH), or the name belongs to none.
 */
function ifAlive<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}

function toMiB(kib: number | undefined): number | undefined {
  return kib === undefined ? undefined : kib / 1024;
}
