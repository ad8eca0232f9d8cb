/** Firefox without a window, driven over WebDriver BiDi, which it speaks itself. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addressIn, connectBrowser, type BrowserWire } from './browser-wire.ts';
import type { RunningBrowser, Tab } from './running-browser.ts';
import { installed, startProgram } from '../programs/programs.ts';

/** A download that has ended. `path`: of its file, where Firefox calls it complete. */
type EndedDownload = { name: string; path?: string };

/** A running Firefox. What it did counts for the tab that was opened last. */
export interface Firefox extends RunningBrowser {
  /** Directory of its downloads. */
  downloads: string;
  open(address: string, o?: { before?: string }): Promise<FirefoxPage>;
}

/** A tab. What is evaluated there counts as an act of the user. */
export interface FirefoxPage extends Tab {
  /** Method, address, headers and body of each request, if Firefox keeps them. */
  requests: string[];
  /** Lines of the console, and uncaught errors. */
  complaints: string[];
  goto(address: string): Promise<void>;
  /** The next download that ends. */
  downloaded(): Promise<EndedDownload>;
  /** Closes the tab, as its user does; `close` also forgets what it stored. */
  leave(): Promise<void>;
}

/** Besides what Firefox switches off by itself when it is driven. */
const preferences: Record<string, boolean> = {
  'browser.download.alwaysOpenPanel': false,
  'network.dns.disablePrefetch': true,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
};

const events = ['browsingContext.downloadWillBegin', 'browsingContext.downloadEnd', 'log.entryAdded'];

/** Options for starting Firefox. `more`: preferences of `about:config`. */
type LaunchOptions = {
  more?: Record<string, boolean | number>;
  /**
   * Keeps requests, and with them (Firefox 153) all that is received: its memory then says nothing
   * about a page.
   */
  keepsRequests?: boolean;
};

/** Starts Firefox with a new profile. */
export async function launchFirefox({ more = {}, keepsRequests = false }: LaunchOptions = {}): Promise<Firefox> {
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-firefox-'));
  const lines = Object.entries({ ...preferences, ...more }).map(([name, value]) => `user_pref("${name}", ${value});\n`);
  const [profile, downloads] = [join(directory, 'profile'), join(directory, 'Downloads')];
  await Promise.all([profile, downloads].map((path) => mkdir(path)));
  await writeFile(join(profile, 'user.js'), lines.join(''));
  const args = ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0'];
  // In another locale it cannot write a name that is not ASCII.
  const env = { ...process.env, LC_ALL: 'C.UTF-8', HOME: directory };
  const browser = await startProgram(installed('firefox-esr'), args, { env, ready: addressIn });
  const seen = new FirefoxRecord();
  const bidi = await connectBrowser(`${browser.ready}/session`, (method, params) => seen.take(method, params));
  seen.bidi = bidi;
  await bidi.send('session.new', { capabilities: {} });
  const downloadBehavior = { type: 'allowed', destinationFolder: downloads };
  await bidi.send('browser.setDownloadBehavior', { downloadBehavior });
  await bidi.send('session.subscribe', { events });
  if (keepsRequests) {
    await bidi.send('session.subscribe', { events: ['network.beforeRequestSent'] });
    await bidi.send('network.addDataCollector', { dataTypes: ['request'], maxEncodedDataSize: 2 ** 20 });
  }
  return {
    pid: browser.pid,
    downloads,
    async open(address, { before } = {}) {
      const { userContext } = await bidi.send<{ userContext: string }>('browser.createUserContext');
      if (before !== undefined)
        await bidi.send('script.addPreloadScript', { functionDeclaration: before, userContexts: [userContext] });
      const { context } = await bidi.send<{ context: string }>('browsingContext.create', { type: 'tab', userContext });
      seen.restart();
      const page = pageOf(bidi, seen, { context, userContext });
      await page.goto(address);
      return page;
    },
    async close() {
      await bidi.send('browser.close');
      await browser.ended;
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

type SentRequest = { request: { request: string; method: string; url: string; headers: unknown; bodySize: number } };
type Begun = { navigation: string; suggestedFilename: string };
type DownloadEnd = { navigation: string; status: 'complete' | 'canceled'; filepath?: string };

/** Record of what the browser did since the last tab was opened. */
class FirefoxRecord {
  bidi: BrowserWire | undefined;
  requests: string[] = [];
  complaints: string[] = [];
  #names = new Map<string, string>();
  #downloads: EndedDownload[] = [];
  #wanted: ((download: EndedDownload) => void)[] = [];

  restart(): void {
    [this.requests, this.complaints] = [[], []];
  }

  take(method: string, params: unknown): void {
    if (method === 'log.entryAdded') this.complaints.push((params as { text: string }).text);
    else if (method === 'network.beforeRequestSent') void this.#request(params as SentRequest, this.requests);
    else if (method === 'browsingContext.downloadWillBegin') {
      const { navigation, suggestedFilename } = params as Begun;
      this.#names.set(navigation, suggestedFilename);
    } else if (method === 'browsingContext.downloadEnd') {
      const { navigation, status, filepath } = params as DownloadEnd;
      const name = this.#names.get(navigation) ?? '';
      const download = { name, ...(status === 'complete' && filepath !== undefined ? { path: filepath } : {}) };
      const want = this.#wanted.shift();
      if (want === undefined) this.#downloads.push(download);
      else want(download);
    }
  }

  async #request({ request }: SentRequest, requests: string[]): Promise<void> {
    const { request: id, method, url, headers, bodySize } = request;
    // It goes nowhere.
    if (url.startsWith('data:')) return;
    const index = requests.push([method, url, JSON.stringify(headers)].join(' ')) - 1;
    if (bodySize === 0) return;
    const body = await this.bidi?.send('network.getData', { dataType: 'request', request: id }).catch(() => '');
    requests[index] += ` ${JSON.stringify(body)}`;
  }

  nextDownload(): Promise<EndedDownload> {
    const download = this.#downloads.shift();
    if (download !== undefined) return Promise.resolve(download);
    return new Promise((resolve) => {
      this.#wanted.push(resolve);
    });
  }
}

type Evaluated = { type: string; result: { value?: string; sharedId?: string }; exceptionDetails: { text: string } };

function pageOf(
  bidi: BrowserWire,
  seen: FirefoxRecord,
  { context, userContext }: Record<'context' | 'userContext', string>,
): FirefoxPage {
  const evaluate = async (expression: string): Promise<Evaluated['result']> => {
    const o = { expression, target: { context }, awaitPromise: true, userActivation: true };
    const { type, result, exceptionDetails } = await bidi.send<Evaluated>('script.evaluate', o);
    if (type === 'exception') throw new Error(exceptionDetails.text);
    return result;
  };
  const { requests, complaints } = seen;
  return {
    requests,
    complaints,
    async goto(url) {
      await bidi.send('browsingContext.navigate', { context, url, wait: 'complete' });
    },
    async reload() {
      await bidi.send('browsingContext.reload', { context, wait: 'complete' });
    },
    async evaluate<T>(expression: string) {
      const { value } = await evaluate(`(async () => JSON.stringify(await (${expression})))()`);
      return (value === undefined ? undefined : JSON.parse(value)) as T;
    },
    async setFiles(selector, files) {
      const { sharedId } = await evaluate(`document.querySelector(${JSON.stringify(selector)})`);
      await bidi.send('input.setFiles', { context, element: { sharedId }, files });
    },
    downloaded: () => seen.nextDownload(),
    async leave() {
      await bidi.send('browsingContext.close', { context, promptUnload: false });
    },
    async close() {
      await bidi.send('browser.removeUserContext', { userContext });
    },
  };
}
