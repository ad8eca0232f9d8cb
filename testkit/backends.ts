import { describe, test } from 'vitest';
import { webBackend, type Backend } from '../shared/crypto/index.ts';
import type { Tool } from './assertions.ts';

const runtime = navigator.userAgent === 'Cloudflare-Workers' ? 'workerd' : 'node';

/** Whether the long forms are to run. */
export const long = runtime === 'node' && process.env['SEALPIN_LONG'] === '1';

/** Every backend that this runtime has. */
export const backends: readonly Backend[] =
  runtime === 'node' ? [webBackend, (await import('../cli/keys/node-backend.ts')).nodeBackend] : [webBackend];

/** Runs a suite against each of them. */
export function onEveryBackend(suite: (tool: Tool, backend: Backend) => void): void {
  for (const backend of backends) {
    describe(`${runtime}, ${backend.name} backend`, () => {
      // oxlint-disable-next-line no-console -- the counts of vectors are what the run is asked to show
      suite({ test, note: (line) => console.log(`${runtime}, ${backend.name} backend: ${line}`), long }, backend);
    });
  }
}
