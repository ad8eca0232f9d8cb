import { describe, test } from 'vitest';
import { webBackend, type Backend } from '../shared/crypto/index.ts';
import type { Tool } from './assertions.ts';
import { long as isLong } from './long-run.ts';

const runtime = navigator.userAgent === 'Cloudflare-Workers' ? 'workerd' : 'node';

/** Asks the suites for their long form, which none takes in workerd. */
export const long = runtime === 'node' && isLong;

/** Every backend that this runtime has. */
export const backends: readonly Backend[] =
  runtime === 'node' ? [webBackend, (await import('../cli/keys/node-backend.ts')).nodeBackend] : [webBackend];

/**
 * Runs a suite against each backend of this runtime. In the short form the web backend is tried by
 * workerd and Chromium alone, but where the suite costs workerd many times what it costs Node:
 * there Node tries it, and workerd in the long form.
 * @param o.isSlowInWorkerd of a suite that says little about an engine
 */
export function onEveryBackend(
  suite: (tool: Tool, backend: Backend) => void,
  { isSlowInWorkerd = false }: { isSlowInWorkerd?: boolean } = {},
): void {
  if (runtime === 'workerd' && isSlowInWorkerd && !isLong) {
    test.skip(`workerd: ${suite.name} (in the long form)`);
    return;
  }
  for (const backend of backends) {
    if (runtime === 'node' && backend === webBackend && !isSlowInWorkerd && !isLong) continue;
    describe(`${runtime}, ${backend.name} backend`, () => {
      // oxlint-disable-next-line no-console -- the run has to show the counts of vectors
      suite({ test, note: (line) => console.log(`${runtime}, ${backend.name} backend: ${line}`), long }, backend);
    });
  }
}
