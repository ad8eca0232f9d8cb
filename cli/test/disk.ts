/** A disk that fills up: a small tmpfs in a mount namespace of its own. */
import { spawnSync } from 'node:child_process';
import type { TestContext } from 'vitest';

/**
 * Runs a shell script that has a file system of so many MiB at the folder `$DISK`; skips the test, and says so in one line, where this
 * machine does not let us make one.
 *
 * @param o.env besides PATH and NODE
 */
export function onSmallDisk(
  context: TestContext,
  o: { disk: string; mebibytes: number; script: string; env: Record<string, string>; cwd?: string },
): { status: number | null; stdout: string; stderr: string } {
  const script = `mount -t tmpfs -o size=${o.mebibytes}m sealpin-test "$DISK" || exit 77; ${o.script}`;
  const ran = spawnSync(
    'unshare',
    ['--mount', ...(process.getuid?.() === 0 ? [] : ['--map-root-user']), 'sh', '-c', script],
    {
      cwd: o.cwd,
      env: { PATH: process.env['PATH'] ?? '', NODE: process.execPath, DISK: o.disk, ...o.env },
      encoding: 'utf8',
    },
  );
  if (ran.error !== undefined || ran.status === 77 || /^unshare: /m.test(ran.stderr))
    return context.skip('no small disk can be made here (unshare, mount)');
  return ran;
}
