/** Chromium without a window, driven by Playwright. */
import { chromium, type Browser, type BrowserContext, type LaunchOptions } from 'playwright-core';
import { installed } from './programs.ts';

const options: LaunchOptions = {
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
};

/** Starts Chromium without traffic of its own. Its contexts are private ones, whose files it keeps in memory. */
export function launchChromium(): Promise<Browser> {
  return chromium.launch({ ...options, executablePath: installed('chromium') });
}

/** Starts Chromium with a profile in a directory, as people use it: what pages store is on the disk. */
export function launchChromiumWithProfile(directory: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(directory, { ...options, executablePath: installed('chromium') });
}
