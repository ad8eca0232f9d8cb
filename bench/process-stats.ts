/** Memory and CPU time of a process, from /proc on Linux (proc(5)). */
import { readFileSync, writeFileSync } from 'node:fs';

/** Resident memory now, in MiB; undefined: the process has ended. */
export function residentMiB(pid: number): number | undefined {
  return field(pid, 'VmRSS');
}

/** The peak of resident memory, since `forgetPeak` if that was called, in MiB; undefined: the process has ended. */
export function peakMiB(pid: number): number | undefined {
  return field(pid, 'VmHWM');
}

/** Resets the peak to what is resident now. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** CPU time that a process has used, user and system, in ms; Linux counts in hundredths of a second. @throws when it has ended */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field, the name of the program, may hold blanks and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function field(pid: number, name: 'VmRSS' | 'VmHWM'): number | undefined {
  let status;
  try {
    status = readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch (error) {
    // The process was reaped before the read (ENOENT) or during it (ESRCH).
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
  const kib = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1];
  return kib === undefined ? undefined : Number(kib) / 1024;
}
