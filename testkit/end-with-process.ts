/** Programs that must not outlive the tests that started them. */
import type { ChildProcess } from 'node:child_process';

const running = new Set<ChildProcess>();

function end(): void {
  for (const child of running) child.kill();
}

/**
 * Ends a program when this process ends, if nothing has ended it before: a hook that failed, or reached its time limit, gives nothing
 * that a test could close.
 */
export function endWithProcess(child: ChildProcess): void {
  if (running.size === 0) process.once('exit', end);
  running.add(child);
  child.once('exit', () => {
    running.delete(child);
    if (running.size === 0) process.off('exit', end);
  });
}
