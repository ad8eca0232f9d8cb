/** The service with shares in it, and Chromium with the pages of that service. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { launchChromium } from '../../testkit/browsers/chromium.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import { takeAway, type Ability } from './in-page.ts';
import { Sender } from './sender.ts';

/** A page that a test looks at, and all that it did. */
export type Watched = {
  page: Page;
  /** Method, address, headers and body of each request, service workers' included. */
  requests: string[];
  /** Lines of the console, uncaught errors and violations of the policy. */
  complaints: string[];
  close(): Promise<void>;
};

let shared: Promise<Browser> | undefined;

/** A service, an account there, and a browser, which all files of a process share. */
export class Receiver extends Sender {
  readonly browser: Browser;

  private constructor(service: Service, apiKey: string, browser: Browser) {
    super(service, apiKey);
    this.browser = browser;
  }

  static override async start(): Promise<Receiver> {
    const [service, browser] = await Promise.all([sharedService(), (shared ??= launchChromium())]);
    return new Receiver(service, (await service.account()).apiKey, browser);
  }

  /** Opens an address in a browser context of its own, which starts with no storage. */
  async open(address: string, o: OpenOptions = {}): Promise<Watched> {
    const { without = [], ...options } = o;
    const context = await this.browser.newContext({ locale: 'en-GB', ...options });
    await context.addInitScript(takeAway, without);
    const page = await context.newPage();
    const requests: string[] = [];
    const complaints: string[] = [];
    context.on('request', (request) =>
      requests.push(
        [request.method(), request.url(), JSON.stringify(request.headers()), request.postData() ?? ''].join(' '),
      ),
    );
    context.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(address);
    return { page, requests, complaints, close: () => context.close() };
  }
}

export type OpenOptions = BrowserContextOptions & { without?: readonly Ability[] };

/**
 * Saves the first file of a page that shows files, and gives the bytes of the download; undefined
 * when the browser failed it.
 */
export async function downloaded(page: Page, button: string): Promise<{ name: string; bytes: Buffer } | undefined> {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: button, exact: true }).click(),
  ]);
  if ((await download.failure()) !== null) return undefined;
  return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
}

/** Returns the link that a page has made, once it is there, as if it were copied by hand. */
export async function copiedLink(page: Page): Promise<string> {
  await page.locator('#sent:not([hidden])').waitFor();
  await page.locator('#sent-link').dispatchEvent('copy');
  return page.locator('#sent-link').inputValue();
}

const axeSource = readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

/** Returns what axe finds wrong with what a page shows. */
export async function violations(page: Page): Promise<string[]> {
  // Once in each document: to read it costs a page far more than to run it.
  if (!(await page.evaluate<boolean>("'axe' in globalThis"))) await page.evaluate(await axeSource);
  return page.evaluate(async () => {
    type Results = { violations: { id: string; nodes: { html: string }[] }[] };
    const { axe } = globalThis as unknown as { axe: { run(): Promise<Results> } };
    return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(', ')}`);
  });
}
