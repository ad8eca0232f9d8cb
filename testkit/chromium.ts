/** Chromium without a window, driven by Playwright. */
import { chromium, type Browser } from 'playwright-core';
import { installed } from './programs.ts';

/** Starts Chromium without traffic of its own. */
export function launchChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: installed('chromium'),
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
