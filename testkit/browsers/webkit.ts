/** WebKitGTK, on a screen that nobody sees (Xvfb), driven over W3C WebDriver. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../cli/local/port.ts';
import type { RunningBrowser, Tab } from './running-browser.ts';
import { installed, startProgram } from '../programs/programs.ts';

/** A running WebKitGTK, which has one window. */
export interface WebKit extends RunningBrowser {
  /** Directory of its downloads. */
  downloads: string;
  open(address: string): Promise<WebKitPage>;
}

/** The window. What a page stored is gone when the browser ends, and not when it is closed. */
interface WebKitPage extends Tab {
  /** Clicks at what a selector finds first, as a mouse does. */
  click(selector: string): Promise<void>;
}

/** Timeout of an expression, in ms. */
const scriptMs = 120_000;
/** The name under which WebDriver passes an element. */
const elementKey = 'element-6066-11e4-a52e-4f735466cecf';

/** Starts a screen, the driver and its browser. */
export async function launchWebKit(): Promise<WebKit> {
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-webkit-'));
  // It prints the number of the screen.
  const screen = await startProgram(installed('Xvfb'), ['-displayfd', '1', '-nolisten', 'tcp'], {
    ready: (output) => /^(\d+)\n/m.exec(output)?.[1],
  });
  const port = await freePort(0);
  const ask = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: JSON.stringify(body) ?? null });
    const { value } = (await response.json()) as { value: unknown };
    if (!response.ok) throw new Error((value as { message: string }).message);
    return value as T;
  };
  const isReady = (): Promise<boolean> =>
    ask('GET', '/status').then(
      () => true,
      () => false,
    );
  // What it keeps, and what it downloads, is below its home.
  const env = { ...process.env, DISPLAY: `:${screen.ready}`, HOME: directory, LC_ALL: 'C.UTF-8' };
  const driver = await startProgram(installed('WebKitWebDriver'), [`--port=${port}`], { env, ready: isReady });
  const capabilities = { alwaysMatch: { timeouts: { script: scriptMs } } };
  const { sessionId } = await ask<{ sessionId: string }>('POST', '/session', { capabilities });
  const session = `/session/${sessionId}`;
  const elementAt = async (value: string): Promise<string> => {
    const found = await ask<Record<string, string>>('POST', `${session}/element`, { using: 'css selector', value });
    return `${session}/element/${found[elementKey]}`;
  };
  const page: WebKitPage = {
    reload: () => ask('POST', `${session}/refresh`, {}),
    evaluate: (expression) =>
      ask('POST', `${session}/execute/sync`, { script: `return (async () => ${expression})()`, args: [] }),
    setFiles: async (selector, paths) => ask('POST', `${await elementAt(selector)}/value`, { text: paths.join('\n') }),
    click: async (selector) => ask('POST', `${await elementAt(selector)}/click`, {}),
    close: () => ask('POST', `${session}/url`, { url: 'about:blank' }),
  };
  return {
    pid: driver.pid,
    downloads: directory,
    async open(url) {
      await ask('POST', `${session}/url`, { url });
      return page;
    },
    async close() {
      await ask('DELETE', session);
      for (const program of [driver, screen]) await program.stop();
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
