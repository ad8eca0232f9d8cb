/** Chromium without a window, driven by Playwright. */
import { chromium, type Browser, type BrowserContext, type LaunchOptions } from 'playwright-core';
import { installed, pathOf } from '../programs/programs.ts';
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
    executablePath: pathOf('chromium-headless-shell') ?? installed('chromium'),
    // Otherwise a page gets up to three processes one after another, and one more is kept ready.
    args: [...launchOptions.args, '--renderer-process-limit=1'],
  });
}

/**
 * Starts Chromium with a profile in a directory, as people use it: what pages store is on the disk.
 */
export function launchChromiumWithProfile(directory: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(directory, { ...launchOptions, executablePath: installed('chromium') });
}
