/** WebKitGTK, on a screen that nobody sees (Xvfb), driven over W3C WebDriver. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithProcess } from '../end-with-process.ts';
import { freePort } from '../loopback-server.ts';
import type { RunningBrowser, Tab } from './running-browser.ts';
import { installed } from '../programs/programs.ts';
import { sleep } from '../../shared/streams/timing.ts';

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
  const screen = spawn(installed('Xvfb'), ['-displayfd', '3', '-nolisten', 'tcp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  endWithProcess(screen);
  const [, , , numbers] = screen.stdio;
  const [display] = (await once(numbers ?? screen, 'data')) as [Buffer];
  const port = await freePort();
  const driver = spawn(installed('WebKitWebDriver'), [`--port=${port}`], {
    // What it keeps, and what it downloads, is below its home.
    env: { ...process.env, DISPLAY: `:${display.toString().trim()}`, HOME: directory, LC_ALL: 'C.UTF-8' },
    stdio: 'ignore',
  });
  endWithProcess(driver);
  const ask = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: JSON.stringify(body) ?? null });
    const { value } = (await response.json()) as { value: unknown };
    if (!response.ok) throw new Error((value as { message: string }).message);
    return value as T;
  };
  while (
    await ask('GET', '/status').then(
      () => false,
      () => true,
    )
  )
    await sleep(50);
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
    pid: driver.pid ?? 0,
    downloads: directory,
    async open(url) {
      await ask('POST', `${session}/url`, { url });
      return page;
    },
    async close() {
      await ask('DELETE', session);
      for (const child of [driver, screen]) await killed(child);
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

async function killed(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill();
  await ended;
}
