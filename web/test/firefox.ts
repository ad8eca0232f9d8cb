/** Firefox, and other browsers with the same interface, with the pages of a service. */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Tab } from '../../testkit/browsers/running-browser.ts';
import type { Firefox, FirefoxPage } from '../../testkit/browsers/firefox.ts';
import { takeAway, type Ability } from './in-page.ts';

/** A page, as its reader uses it: by what it shows. */
export class Visit<Page extends Tab & { complaints?: string[] } = FirefoxPage> {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  /**
   * Opens an address in a tab with a storage of its own. Firefox never has a save dialog for pages.
   */
  static async open(firefox: Firefox, address: string, without: readonly Ability[] = []): Promise<Visit> {
    const before = `() => (${takeAway.toString()})(${JSON.stringify(['picker', ...without])})`;
    return new Visit(await firefox.open(address, { before }));
  }

  /** Waits until an expression is true. */
  async until(expression: string): Promise<void> {
    // A page that is being replaced has no answer.
    const answer = (): Promise<boolean> => this.page.evaluate<boolean>(expression).catch(() => false);
    await expect.poll(answer, { timeout: 50_000, message: expression }).toBe(true);
  }

  /** Waits until a state is shown. */
  shows(state: string): Promise<void> {
    return this.until(`document.getElementById('${state}')?.hidden === false`);
  }

  async says(text: string): Promise<void> {
    await this.until(`document.body.innerText.includes(${JSON.stringify(text)})`);
  }

  async click(selector: string): Promise<void> {
    await this.page.evaluate(`document.querySelector('${selector}').click()`);
  }

  async fill(selector: string, text: string): Promise<void> {
    await this.page.evaluate(`document.querySelector('${selector}').value = ${JSON.stringify(text)}`);
  }

  /** Opens the share of its address. */
  async openShare(): Promise<void> {
    await this.shows('asked');
    await this.click('#open-button');
    await this.shows('opened');
  }

  /** Returns the result of a function of `in-page.ts` there. */
  run<T>(work: () => Promise<T>): Promise<T> {
    return this.page.evaluate<T>(`(${work.toString()})()`);
  }

  /** Closes the tab; whatever it complained about fails the test. */
  async end(): Promise<void> {
    await this.page.close();
    // So Firefox tells of a download that failed, which is what some tests are about.
    const own = 'A ServiceWorker intercepted the request and encountered an unexpected error.';
    expect((this.page.complaints ?? []).filter((each) => !each.includes(own))).toEqual([]);
  }
}

/** Empties the downloads, so that the next ones get their own names. */
export async function removeDownloads({ downloads }: Firefox): Promise<void> {
  for (const name of await readdir(downloads)) await rm(join(downloads, name));
}

/**
 * The files among the downloads that have some bytes, and their sizes; `.part` ones are unfinished
 * in anybody's eyes.
 */
export async function downloadsOf({ downloads }: Firefox): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const name of await readdir(downloads)) {
    const { size } = await stat(join(downloads, name));
    if (size > 0 && !name.endsWith('.part')) found[name] = size;
  }
  return found;
}
