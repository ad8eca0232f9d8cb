/** Programs at a pseudo-terminal, as a person sits at it (`script` of util-linux gives one). */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { bareEnv } from '../run-cache.ts';

/** Returns why the tests at a terminal cannot run here; undefined: they can. */
export function missingTerminal(): string | undefined {
  const found = spawnSync('script', ['--version'], { encoding: 'utf8' });
  if (found.status === 0 && found.stdout.includes('util-linux')) return undefined;
  const reason = 'there is no `script` of util-linux to make a pseudo-terminal';
  if (process.env['SEALPIN_REQUIRE_ALL'] === '1') throw new Error(reason);
  return reason;
}

/** Input to type, and the text on the screen that it waits for. */
export type Step = { readonly after: string | RegExp; readonly type: string };

/** `shell`: what goes after the program on the line of a shell, such as `> file`. */
export type TerminalOptions = { cwd: string; env?: Record<string, string>; steps?: readonly Step[]; shell?: string };

const quote = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`;

/** Time limit of a program, in ms: less than that of a test. Node may hang as it ends. */
const limitMs = 100_000;

/** Ends a process and all that it started: `script` gives its program a session of its own. */
function endTree(pid: number): void {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  for (const child of children.split(' ').filter(Boolean)) endTree(Number(child));
  process.kill(pid, 'SIGKILL');
}

/**
 * Runs a program at a terminal and types when it has asked.
 * @returns everything that was on the screen, and the exit code
 */
export async function runAtTerminal(
  argv: readonly string[],
  o: TerminalOptions,
): Promise<{ exit: number; screen: string }> {
  const line = `${argv.map(quote).join(' ')} ${o.shell ?? ''}`;
  const child = spawn('script', ['--quiet', '--flush', '--return', '--echo', 'never', '--command', line, '/dev/null'], {
    cwd: o.cwd,
    env: {
      ...bareEnv(),
      HOME: o.cwd,
      TERM: 'xterm',
      SHELL: '/bin/sh',
      ...o.env,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const steps = [...(o.steps ?? [])];
  let screen = '';
  let read = 0;
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', (text: string) => {
    screen += text;
    for (let step = steps[0]; step !== undefined; step = steps[0]) {
      const rest = screen.slice(read);
      const at = typeof step.after === 'string' ? rest.indexOf(step.after) : rest.search(step.after);
      if (at < 0) return;
      read = screen.length;
      steps.shift();
      child.stdin.write(step.type);
    }
  });
  const limit = setTimeout(() => child.pid !== undefined && endTree(child.pid), limitMs);
  const exit = await new Promise<number>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code ?? -1));
  }).finally(() => clearTimeout(limit));
  if (steps.length > 0) throw new Error(`the terminal never said ${String(steps[0]?.after)}; it said: ${screen}`);
  return { exit, screen };
}
