/** Memory and CPU time of a process, from /proc on Linux (proc(5)). */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** Resident memory now, in MiB; undefined: the process has ended. */
export function residentMiB(pid: number): number | undefined {
  return toMiB(field(pid, 'VmRSS'));
}

/**
 * The peak of resident memory, since `forgetPeak` if that was called, in MiB; undefined: the
 * process has ended.
 */
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
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/**
 * Memory of a process and all below it, in MiB, what they share counted once: the sum of
 * proportional set sizes.
 */
export function proportionalMiB(pid: number): number {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const parent = field(Number(name), 'PPid');
    if (parent !== undefined) parents.set(Number(name), parent);
  }
  const isBelow = (each: number | undefined): boolean =>
    each === pid || (each !== undefined && isBelow(parents.get(each)));
  return [...parents.keys()]
    .filter(isBelow)
    .reduce((sum, each) => sum + (toMiB(field(each, 'Pss', 'smaps_rollup')) ?? 0), 0);
}

/** A number of a file about a process; memory is in KiB there. */
function field(pid: number, name: string, file = 'status'): number | undefined {
  let text;
  try {
    text = readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch (error) {
    // The process was reaped before the read (ENOENT) or during it (ESRCH), or the name belongs to
    // no process.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
  const number = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1];
  return number === undefined ? undefined : Number(number);
}

function toMiB(kib: number | undefined): number | undefined {
  return kib === undefined ? undefined : kib / 1024;
}
