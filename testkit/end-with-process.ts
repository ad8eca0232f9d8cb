/** Programs that must not outlive the tests that started them. */
import type { ChildProcess } from 'node:child_process';

const runningPrograms = new Set<ChildProcess>();

function endAll(): void {
  for (const child of runningPrograms) child.kill();
}

/** Ends a program with this process: a hook that failed gives nothing that a test could close. */
export function endWithProcess(child: ChildProcess): void {
  if (runningPrograms.size === 0) process.once('exit', endAll);
  runningPrograms.add(child);
  child.once('exit', () => {
    runningPrograms.delete(child);
    if (runningPrograms.size === 0) process.off('exit', endAll);
  });
}
