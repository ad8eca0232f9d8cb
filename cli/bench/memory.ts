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
  const kib = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return kib === undefined ? undefined : Number(kib) / 1024;
}
