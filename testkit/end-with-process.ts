/** Programs that must not outlive the tests that started them. */
import type { ChildProcess } from 'node:child_process';

/**
 * Ends a program when this process ends, if nothing has ended it before: a hook that reached its time limit gives nothing that a
 * test could close.
 */
export function endWithProcess(child: ChildProcess): void {
  const end = (): void => void child.kill();
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
}
