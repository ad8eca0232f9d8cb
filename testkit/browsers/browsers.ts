/** The browsers of the tests, with one interface, and the declaration of tests that need one. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { describe, test } from 'vitest';
import { launchChromium, launchChromiumWithProfile } from './chromium.ts';
import { launchFirefox } from './firefox.ts';
import { withProgram } from '../programs/programs.ts';
import { launchWebKit } from './webkit.ts';
import { long } from '../long-run.ts';

/**
 * The browsers, and what Debian must have installed for each: programs with arguments of a call
 * that succeeds.
 */
const browsers = {
  Chromium: { chromium: '--version' },
  Firefox: { 'firefox-esr': '--version' },
  WebKitGTK: { WebKitWebDriver: '--help', Xvfb: '-help' },
} as const satisfies Record<string, Record<string, string>>;
export type BrowserName = keyof typeof browsers;

/** A tab. What runs in a page has no types here. */
export type Tab = {
  /** The value of an expression, given as text; a promise is waited for. */
  evaluate<T>(expression: string): Promise<T>;
  reload(): Promise<unknown>;
  /** Hands files to the input that a selector finds. @param paths absolute */
  setFiles(selector: string, paths: readonly string[]): Promise<void>;
  /** Closes the tab, and forgets what it stored. */
  close(): Promise<void>;
};

/** A running browser. */
export type RunningBrowser = {
  /** Of the process that all its others descend from. */
  readonly pid: number;
  /**
   * Opens a tab, with a storage of its own.
   * @param before a function, as text, that runs in each document before its scripts
   */
  open(address: string, o?: { before?: string }): Promise<Tab>;
  close(): Promise<void>;
};

/** Starts a browser. */
export const launch: Record<BrowserName, () => Promise<RunningBrowser>> = {
  Chromium: asRunning,
  Firefox: launchFirefox,
  WebKitGTK: launchWebKit,
};

async function asRunning(): Promise<RunningBrowser> {
  const browser = await launchChromium();
  return {
    pid: await pidOf(browser),
    async open(address, o) {
      const context = await browser.newContext();
      return { ...(await openedIn(context, address, o)), close: () => context.close() };
    },
    close: () => browser.close(),
  };
}

/**
 * Starts Chromium with a profile on the disk, in a directory of its own, which its end removes. Its
 * tabs share their storage.
 */
export async function launchChromiumOnDisk(): Promise<RunningBrowser> {
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-chromium-'));
  const context = await launchChromiumWithProfile(directory);
  const browser = context.browser();
  if (browser === null) throw new TypeError('a context of Chromium has a browser');
  return {
    pid: await pidOf(browser),
    async open(address, o) {
      const { page, ...tab } = await openedIn(context, address, o);
      return {
        ...tab,
        async close() {
          const { origin } = new URL(page.url());
          const session = await context.newCDPSession(page);
          await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
          await page.close();
        },
      };
    },
    async close() {
      await context.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function pidOf(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  return processInfo.find(({ type }) => type === 'browser')?.id ?? 0;
}

async function openedIn(
  context: BrowserContext,
  address: string,
  { before }: { before?: string } = {},
): Promise<Omit<Tab, 'close'> & { page: Page }> {
  const page = await context.newPage();
  if (before !== undefined) await page.addInitScript(`(${before})()`);
  await page.goto(address);
  return {
    page,
    evaluate: <T>(expression: string) => page.evaluate<T>(expression),
    reload: () => page.reload(),
    setFiles: (selector, paths) => page.locator(selector).setInputFiles([...paths]),
  };
}

/** Declares tests that need a browser. */
export function withBrowser(name: BrowserName, tests: () => void): void {
  const programs = Object.entries(browsers[name]);
  const declare = ([first, ...rest]: typeof programs): void => {
    if (first === undefined) return tests();
    withProgram(first[0], { probe: [first[1]] }, () => declare(rest));
  };
  declare(programs);
}

/** Declares tests for every browser; in the short form Chromium alone runs them. */
export function inEveryBrowser(tests: (name: BrowserName) => void): void {
  for (const name of Object.keys(browsers) as BrowserName[])
    describe(name, () => {
      if (long || name === 'Chromium') withBrowser(name, () => tests(name));
      else test.skip(`${name}: the long form runs it`);
    });
}
