/** A page in Chromium that runs a module of the repository. */
import { build } from 'esbuild';
import { chromium, type Browser, type Page } from 'playwright-core';
import { pathOf } from './programs.ts';
import { startLoopbackServer } from './loopback-server.ts';

export type RunningPage = {
  page: Page;
  /** Of the page: a loopback address, and so a secure context, which WebCrypto needs. */
  origin: string;
  close(): Promise<void>;
};

/** Starts Chromium without a window and without traffic of its own. @param executablePath of the program */
export function launchChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({
    executablePath,
    // In another locale it has no way to write a name that is not ASCII, and calls the file "download".
    env: { ...process.env, LC_ALL: 'C.UTF-8' },
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/**
 * Bundles a module and opens a page with it as its script.
 *
 * @param entry path of the module
 * @param files what the page can fetch from its origin, by path
 */
export async function startPage(entry: string, files: Record<string, Uint8Array> = {}): Promise<RunningPage> {
  const executablePath = pathOf('chromium');
  if (executablePath === undefined) throw new Error('Chromium is not installed');
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    format: 'iife',
    target: 'chrome120',
    write: false,
  });
  const script = outputFiles.map(({ text }) => text).join('\n');
  const html = new TextEncoder().encode('<!doctype html><meta charset="utf-8"><script src="/script.js"></script>');
  const server = await startLoopbackServer(({ url = '/' }, response) => {
    response.setHeader('content-type', url === '/script.js' ? 'text/javascript' : 'text/html');
    response.end(url === '/script.js' ? script : (files[url] ?? html));
  });
  const browser = await launchChromium(executablePath);
  const page = await browser.newPage();
  const origin = server.url;
  await page.goto(`${origin}/`);
  return {
    page,
    origin,
    async close() {
      await browser.close();
      await server.close();
    },
  };
}
