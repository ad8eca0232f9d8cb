/** Identifies processes beyond their pid: the system reuses it, but not with its start time. */
import { readFileSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../errno.ts';

/** A process. `started` (boot and start time, opaque) tells it from a later one with its pid. */
export type ProcessMark = { pid: number; started: string };

/** Marks a running process; undefined when none has that pid. */
export function markProcess(pid: number): ProcessMark | undefined {
  const started = process.platform === 'linux' ? startedOnLinux(pid) : startedByPs(pid);
  return started === undefined ? undefined : { pid, started };
}

/** Checks that exactly the marked process still runs. */
export function isRunning(mark: ProcessMark): boolean {
  return markProcess(mark.pid)?.started === mark.started;
}

/** Marks the children of this process whose command name is `name`. */
export function childrenNamed(name: string): ProcessMark[] {
  return marksOf(processes().filter((each) => each.ppid === process.pid && each.name === name));
}

/**
 * Marks the processes of this user, children or not, whose command name is `name` and whose
 * environment holds `variable` (`NAME=value`). Only Linux shows environments (proc(5)); elsewhere
 * these are the children of this process.
 */
export function processesWith(name: string, variable: string): ProcessMark[] {
  if (process.platform !== 'linux') return childrenNamed(name);
  return marksOf(processes().filter((each) => each.name === name && environmentOf(each.pid).includes(variable)));
}

function marksOf(found: readonly { readonly pid: number }[]): ProcessMark[] {
  return found.map(({ pid }) => markProcess(pid)).filter((mark) => mark !== undefined);
}

/**
 * Ends the marked process with SIGTERM, then with SIGKILL, and waits for its end. Does nothing if
 * it has ended already.
 * @param politeMs how long to wait after SIGTERM
 */
export async function endProcess(mark: ProcessMark, politeMs = 2_000): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGTERM', politeMs],
    ['SIGKILL', 5_000],
  ] as const) {
    if (!isRunning(mark)) return;
    if (!signalProcess(mark.pid, signal)) return;
    for (let waited = 0; waited < waitMs && isRunning(mark); waited += 20) await sleep(20);
  }
}

/** The CPU time of all processes of a group, in ms. @param group the pid of its leader */
export function cpuMsOfGroup(group: number): number {
  const own = processes().filter((each) => each.group === group);
  return own.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
}

/** All processes. `name`: of the command; `group`: the pid of the one that leads it. */
function processes() {
  if (process.platform === 'linux') {
    const pids = readdirSync('/proc').filter((entry) => /^[0-9]+$/.test(entry));
    return pids.map((pid) => statOnLinux(Number(pid))).filter((stat) => stat !== undefined);
  }
  const lines = psWith(['-A', '-o', 'pid=,ppid=,pgid=,time=,comm=']).trim().split('\n');
  return lines.map((line) => {
    const [pid, ppid, group, time = '', command] = line.trim().split(/\s+/);
    // [[days-]hours:]minutes:seconds
    const seconds = time.split(/[-:]/).reduce((sum, part) => sum * 60 + Number(part), 0);
    const name = command?.split('/').at(-1);
    return { pid: Number(pid), ppid: Number(ppid), group: Number(group), name, cpuMs: seconds * 1000 };
  });
}

// The command name is in parentheses and may contain spaces and parentheses itself; after the last
// one the fields are state, ppid, group, … and of the whole line the CPU time as the 14th and 15th,
// the start time as the 22nd, in clock ticks (proc(5)).
function statOnLinux(pid: number) {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined; // ended, which the caller wants to know
  }
  const [state = '', ppid, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    pid,
    name: stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')),
    state,
    ppid: Number(ppid),
    group: Number(fields[0]),
    // 100 ticks a second (sysconf(3), _SC_CLK_TCK).
    cpuMs: (Number(fields[9]) + Number(fields[10])) * 10,
    startTicks: fields[17] ?? '',
  };
}

function startedOnLinux(pid: number): string | undefined {
  const stat = statOnLinux(pid);
  if (stat === undefined || (stat.state === 'Z' && threadsOf(pid) <= 1)) return undefined;
  return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${stat.startTicks}`;
}

/**
 * The first thread of a killed process may have ended while others still hold its files and
 * sockets.
 */
function threadsOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/task`).length;
  } catch {
    return 0; // ended meanwhile
  }
}

function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  } catch {
    return []; // ended, or of another user
  }
}

function startedByPs(pid: number): string | undefined {
  try {
    return psWith(['-o', 'lstart=', '-p', String(pid)]).trim() || undefined;
  } catch {
    return undefined; // ps ends with 1 when there is no such process
  }
}

/** Sends a signal. @returns false when the process has ended */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ESRCH') return false;
    throw error;
  }
}

/** Loaded only where there is no /proc: every command looks whether the local service runs. */
export function psWith(words: readonly string[]): string {
  const { execFileSync } = process.getBuiltinModule('node:child_process');
  return execFileSync('ps', words, { encoding: 'utf8' });
}
