/** A disk that fills up: a small tmpfs in a mount namespace of its own. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { once } from 'node:events';
import type { TestContext } from 'vitest';
import { bareEnv } from './run-cache.ts';

/**
 * Runs a shell script that has a file system of so many MiB at the folder `$DISK`; skips the test,
 * and says so in one line, where this machine does not let us make one.
 * @param o.env besides that of `bareEnv` and NODE
 */
export async function onSmallDisk(
  context: TestContext,
  o: { disk: string; mebibytes: number; script: string; env: Record<string, string>; cwd?: string },
): Promise<{ status: number | null; stdout: string; stderr: string }> {
  const script = `mount -t tmpfs -o size=${o.mebibytes}m sealpin-test "$DISK" || exit 77; ${o.script}`;
  const child = spawn(
    'unshare',
    ['--mount', ...(process.getuid?.() === 0 ? [] : ['--map-root-user']), 'sh', '-c', script],
    {
      cwd: o.cwd,
      env: { ...bareEnv(), NODE: process.execPath, DISK: o.disk, ...o.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const none = [null] as const;
  // Where there is no such program, there is no small disk.
  const closed = once(child, 'close').catch(() => none) as Promise<readonly [number | null]>;
  const [[status], stdout, stderr] = await Promise.all([closed, text(child.stdout), text(child.stderr)]);
  if (status === null || status === 77 || /^unshare: /m.test(stderr))
    return context.skip('no small disk can be made here (unshare, mount)');
  return { status, stdout, stderr };
}
