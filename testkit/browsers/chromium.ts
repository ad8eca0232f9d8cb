/** Chromium without a window, driven by Playwright, or without it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Browser, type LaunchOptions } from 'playwright-core';
import type { RunningBrowser, Tab } from './running-browser.ts';
import { addressIn, connectBrowser, type BrowserWire } from './browser-wire.ts';
import { installed, programPath, startProgram } from '../programs/programs.ts';
import { long } from '../long-run.ts';

const launchOptions = {
  // In another locale it has no way to write a name that is not ASCII, and calls the file
  // "download".
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
} satisfies LaunchOptions;

/**
 * Starts Chromium without traffic of its own. Its contexts are private ones, whose files it keeps
 * in memory.
 * @param o.isWhole with all that a person sees around a page and as many processes as it wants,
 * which costs more than three times the CPU for each page. Otherwise, and where it is installed,
 * Debian's `chromium-headless-shell` runs, which is built from the same source and has the same
 * engine
 */
export function launchChromium({ isWhole = long }: { isWhole?: boolean } = {}): Promise<Browser> {
  if (isWhole) return chromium.launch({ ...launchOptions, executablePath: installed('chromium') });
  return chromium.launch({
    ...launchOptions,
    executablePath: programPath('chromium-headless-shell') ?? installed('chromium'),
    // Otherwise a page gets up to three processes one after another, and one more is kept ready.
    args: [...launchOptions.args, '--renderer-process-limit=1'],
  });
}

type Evaluated = {
  result: { value?: unknown; objectId?: string };
  exceptionDetails?: { text: string; exception?: { description?: string } };
};

/**
 * Starts Chromium as people use it, with a profile on the disk, which its end removes: its tabs
 * share their storage. It is driven without Playwright, which gets a copy of all bytes that a page
 * sends from memory, and takes 1 s for 16 MiB of them.
 */
export async function launchChromiumOnDisk(): Promise<RunningBrowser> {
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-chromium-'));
  const args = [...launchOptions.args, '--remote-debugging-port=0', `--user-data-dir=${directory}`];
  const { env } = launchOptions;
  const browser = await startProgram(installed('chromium'), args, { env, ready: addressIn });
  const wire = await connectBrowser(browser.ready);
  await wire.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: join(directory, 'Downloads') });
  return {
    pid: browser.pid,
    async open(address, { before } = {}) {
      const { targetId } = await wire.send<{ targetId: string }>('Target.createTarget', { url: 'about:blank' });
      const attached = { targetId, flatten: true };
      const { sessionId } = await wire.send<{ sessionId: string }>('Target.attachToTarget', attached);
      const send = <T>(method: string, params?: object): Promise<T> => wire.send<T>(method, params, sessionId);
      await send('Page.enable');
      if (before !== undefined) await send('Page.addScriptToEvaluateOnNewDocument', { source: `(${before})()` });
      const tab = tabOf(send);
      await send('Page.navigate', { url: address });
      await tab.evaluate(loaded);
      return {
        ...tab,
        async close() {
          await send('Storage.clearDataForOrigin', { origin: new URL(address).origin, storageTypes: 'all' });
          await wire.send('Target.closeTarget', { targetId });
        },
      };
    },
    async close() {
      await wire.send('Browser.close');
      await browser.ended;
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

const loaded = `new Promise((resolve) => {
  if (document.readyState === 'complete') resolve();
  else addEventListener('load', resolve);
})`;

function tabOf(send: BrowserWire['send']): Omit<Tab, 'close'> {
  const evaluate = async (expression: string, o?: object): Promise<Evaluated['result']> => {
    const call = { expression, awaitPromise: true, userGesture: true, ...o };
    const { result, exceptionDetails } = await send<Evaluated>('Runtime.evaluate', call);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result;
  };
  return {
    evaluate: async <T>(expression: string) => (await evaluate(expression, { returnByValue: true })).value as T,
    async reload() {
      await send('Page.reload');
      await evaluate(loaded);
    },
    async setFiles(selector, files) {
      const { objectId } = await evaluate(`document.querySelector(${JSON.stringify(selector)})`);
      await send('DOM.setFileInputFiles', { files, objectId });
    },
  };
}
