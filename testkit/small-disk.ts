/** A disk that fills up: a small tmpfs in a mount namespace of its own. */
import type { TestContext } from 'vitest';
import { inNamespaces, refusedStatus } from './namespaces.ts';

/**
 * Runs a shell script that has a file system of so many MiB at the folder `$DISK`, as
 * `inNamespaces` does.
 */
export function onSmallDisk(
  context: TestContext,
  {
    disk,
    mebibytes,
    script,
    env,
    ...o
  }: {
    disk: string;
    mebibytes: number;
    script: string;
    env: Record<string, string>;
    cwd?: string;
  },
): ReturnType<typeof inNamespaces> {
  const mounted = `mount -t tmpfs -o size=${mebibytes}m sealpin-test "$DISK" || exit ${refusedStatus}; ${script}`;
  return inNamespaces(context, ['--mount'], {
    ...o,
    what: 'small disk',
    script: mounted,
    env: { DISK: disk, ...env },
  });
}
