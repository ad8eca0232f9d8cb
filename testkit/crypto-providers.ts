import { describe, test } from 'vitest';
import { webProvider, type CryptoProvider } from '../shared/crypto/index.ts';
import type { Tool } from './assertions.ts';
import { long as isLong } from './long-run.ts';

const runtime = navigator.userAgent === 'Cloudflare-Workers' ? 'workerd' : 'node';

/** Asks the suites for their long form, which none takes in workerd. */
export const longInNode = runtime === 'node' && isLong;

/** Every provider that this runtime has. */
export const providers: readonly CryptoProvider[] =
  runtime === 'node' ? [webProvider, (await import('../cli/keys/node-provider.ts')).nodeProvider] : [webProvider];

/**
 * Runs a suite against each provider of this runtime. In the short form, workerd and Chromium alone
 * try the web provider, but where the suite costs workerd many times what it costs Node: there Node
 * tries it, and workerd in the long form.
 * @param o.isSlowInWorkerd of a suite that says little about an engine
 */
export function onEveryProvider(
  suite: (tool: Tool, provider: CryptoProvider) => void,
  { isSlowInWorkerd = false }: { isSlowInWorkerd?: boolean } = {},
): void {
  if (runtime === 'workerd' && isSlowInWorkerd && !isLong) {
    test.skip(`workerd: ${suite.name} (in the long form)`);
    return;
  }
  for (const provider of providers) {
    if (runtime === 'node' && provider === webProvider && !isSlowInWorkerd && !isLong) continue;
    describe(`${runtime}, ${provider.name} provider`, () => {
      // oxlint-disable-next-line no-console -- the run has to show the counts of vectors
      const note = (line: string): void => console.log(`${runtime}, ${provider.name} provider: ${line}`);
      suite({ test, note, long: longInNode }, provider);
    });
  }
}
