/** A disk that fills up: a small tmpfs in a mount namespace of its own. */
import type { TestContext } from 'vitest';
import { inNamespaces, refusedStatus, type NamespaceOptions } from './namespaces.ts';

/** Runs a shell script with a file system of so many MiB at `$DISK`, as `inNamespaces` does. */
export function onSmallDisk(
  context: TestContext,
  { disk, mebibytes, ...o }: { disk: string; mebibytes: number } & Omit<NamespaceOptions, 'what'>,
): ReturnType<typeof inNamespaces> {
  const script = `mount -t tmpfs -o size=${mebibytes}m sealpin-test "$DISK" || exit ${refusedStatus}; ${o.script}`;
  return inNamespaces(context, ['--mount'], { ...o, what: 'small disk', script, env: { DISK: disk, ...o.env } });
}
