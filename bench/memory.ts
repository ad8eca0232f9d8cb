/** The memory of a process, as Linux counts it (proc(5)). */
import { readFileSync, writeFileSync } from 'node:fs';

/** What is resident now, in MiB; undefined: the process has ended. */
export function residentMiB(pid: number): number | undefined {
  return field(pid, 'VmRSS');
}

/** The most that was ever resident, or since `forgetPeak`, in MiB; undefined: the process has ended. */
export function peakMiB(pid: number): number | undefined {
  return field(pid, 'VmHWM');
}

/** Lets the peak start again from what is resident now. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

function field(pid: number, name: 'VmRSS' | 'VmHWM'): number | undefined {
  let status;
  try {
    status = readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch (error) {
    // It was collected (ENOENT), or just while it was read (ESRCH).
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
  const kib = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1];
  return kib === undefined ? undefined : Number(kib) / 1024;
}
