import { describe, test } from 'vitest';
import { webBackend, type Backend } from '../shared/crypto/index.ts';
import type { Tool } from './assertions.ts';

const runtime = navigator.userAgent === 'Cloudflare-Workers' ? 'workerd' : 'node';

/** Whether the long forms are to run. */
export const long = runtime === 'node' && process.env['SEALPIN_LONG'] === '1';

/** Every backend that this runtime has. */
export const backends: readonly Backend[] =
  runtime === 'node' ? [webBackend, (await import('../cli/keys/node-backend.ts')).nodeBackend] : [webBackend];

// The web backend runs in workerd and in Chromium, too: in Node only the long form tries it.
const tried = backends.filter((backend) => long || runtime === 'workerd' || backend !== webBackend);

/** Runs a suite against each backend of this runtime. */
export function onEveryBackend(suite: (tool: Tool, backend: Backend) => void): void {
  for (const backend of tried) {
    describe(`${runtime}, ${backend.name} backend`, () => {
      // oxlint-disable-next-line no-console -- the run has to show the counts of vectors
      suite({ test, note: (line) => console.log(`${runtime}, ${backend.name} backend: ${line}`), long }, backend);
    });
  }
}
