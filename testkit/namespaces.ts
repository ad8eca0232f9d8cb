/** Scripts in namespaces of their own: a network or a disk that only they see. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'vitest';
import { bareEnv } from './run-cache.ts';

/** Status with which a script ends where the kernel refuses what it needs. */
export const refusedStatus = 77;

/** `what` the script needs, to say so; `env` besides that of `bareEnv` and NODE. */
export type NamespaceOptions = { what: string; script: string; env: Record<string, string>; cwd?: string };

/**
 * Runs a shell script. Where the kernel does not let us make namespaces, it skips the test, and
 * says so in one line, also under `SEALPIN_REQUIRE_ALL=1`: nothing that could be installed would
 * help.
 * @param flags of unshare
 * @throws where unshare itself is missing, under `SEALPIN_REQUIRE_ALL=1`
 */
export async function inNamespaces(
  context: TestContext,
  flags: readonly string[],
  o: NamespaceOptions,
): Promise<{ status: number | null; stdout: string; stderr: string }> {
  const asRoot = process.getuid?.() === 0 ? [] : ['--map-root-user'];
  const child = spawn('unshare', [...flags, ...asRoot, 'sh', '-c', o.script], {
    cwd: o.cwd,
    env: { ...bareEnv(), NODE: process.execPath, ...o.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // A program that is missing has no status either, as one that a signal ended.
  const closed = new Promise<number | null | 'missing'>((resolve) => {
    child.once('error', () => resolve('missing'));
    child.once('close', (status) => resolve(status));
  });
  const [status, stdout, stderr] = await Promise.all([closed, text(child.stdout), text(child.stderr)]);
  if (status !== 'missing' && status !== refusedStatus && !/^unshare: /m.test(stderr))
    return { status, stdout, stderr };
  if (status === 'missing' && process.env['SEALPIN_REQUIRE_ALL'] === '1')
    throw new Error('unshare is missing, and SEALPIN_REQUIRE_ALL is set');
  return context.skip(`no ${o.what} can be made here (unshare)`);
}
