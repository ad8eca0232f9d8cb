/** A page that runs a module of the repository. */
import { build } from 'esbuild';
import { oldestBrowsers } from '../../cli/local/code/web-bundle.ts';
import { launch, type BrowserName } from './browsers.ts';
import type { Tab } from './running-browser.ts';
import { startLoopbackServer } from '../loopback-server.ts';

/**
 * `origin` of the page: a loopback address, and so a secure context, which WebCrypto needs. `close`
 * ends its browser.
 */
export type RunningPage = Pick<Tab, 'evaluate' | 'reload' | 'close'> & { readonly origin: string };

/**
 * Bundles a module and opens a page with it as its script.
 * @param entry path of the module
 * @param o.files what the page can fetch from its origin, by path
 */
export async function startPage(
  entry: string,
  { files = {}, browser = 'Chromium' }: { files?: Record<string, Uint8Array>; browser?: BrowserName } = {},
): Promise<RunningPage> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    format: 'iife',
    target: oldestBrowsers,
    write: false,
  });
  const script = outputFiles.map(({ text }) => text).join('\n');
  const html = new TextEncoder().encode('<!doctype html><meta charset="utf-8"><script src="/script.js"></script>');
  const server = await startLoopbackServer(({ url = '/' }, response) => {
    response.setHeader('content-type', url === '/script.js' ? 'text/javascript' : 'text/html');
    response.end(url === '/script.js' ? script : (files[url] ?? html));
  });
  const origin = server.url;
  const running = await launch[browser]();
  const { evaluate, reload } = await running.open(`${origin}/`);
  return {
    evaluate,
    reload,
    origin,
    async close() {
      await running.close();
      await server.close();
    },
  };
}
