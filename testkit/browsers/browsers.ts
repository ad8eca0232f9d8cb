/** The browsers of the tests, with one interface, and the declaration of tests that need one. */
import type { Browser } from 'playwright-core';
import { describe, test } from 'vitest';
import { launchChromium } from './chromium.ts';
import { launchFirefox } from './firefox.ts';
import type { RunningBrowser } from './running-browser.ts';
import { withProgram } from '../programs/programs.ts';
import { launchWebKit } from './webkit.ts';
import { long } from '../long-run.ts';

/** The browsers, with programs that each needs and arguments of a call that succeeds. */
const browsers = {
  Chromium: { chromium: '--version' },
  Firefox: { 'firefox-esr': '--version' },
  WebKitGTK: { WebKitWebDriver: '--help', Xvfb: '-help' },
} as const satisfies Record<string, Record<string, string>>;
export type BrowserName = keyof typeof browsers;

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
    async open(address, { before } = {}) {
      const context = await browser.newContext();
      const page = await context.newPage();
      if (before !== undefined) await page.addInitScript(`(${before})()`);
      await page.goto(address);
      return {
        evaluate: <T>(expression: string) => page.evaluate<T>(expression),
        reload: () => page.reload(),
        setFiles: (selector, paths) => page.locator(selector).setInputFiles([...paths]),
        close: () => context.close(),
      };
    },
    close: () => browser.close(),
  };
}

async function pidOf(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  return processInfo.find(({ type }) => type === 'browser')?.id ?? 0;
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
