/** The service with shares in it, and Chromium with the pages of that service. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { connect, type Connection, type To } from '../../client/index.ts';
import {
  encrypt,
  encryptPayload,
  fileKeyOf,
  parseIdentities,
  parseRecipients,
  passwordRecipient,
} from '../../shared/crypto/index.ts';
import { printLink, sealParcel, type Parcel, type ParcelFile } from '../../shared/link/index.ts';
import { launchChromium } from '../../testkit/chromium.ts';
import { pathOf } from '../../testkit/programs.ts';
import { startService, type Service, type ServiceOptions } from '../../testkit/service.ts';

/** What a test sends: bytes under a name. */
export type Sent = { name: string; bytes: Uint8Array<ArrayBuffer> };

/** How a share is made. */
export type ShareOptions = { password?: string; keys?: string; opens?: number; note?: string; from?: string };

/** A page that a test looks at, and all that it did. */
export type Watched = {
  page: Page;
  /** Method, address, headers and body of each request, service workers' included. */
  requests: string[];
  /** Lines of the console, uncaught errors and violations of the policy. */
  complaints: string[];
  close(): Promise<void>;
};

/** Cheap, because no test of a page is about the cost of a password. */
const kdf = { name: 'scrypt', logN: 10 } as const;

/** A service, an account there, and a browser. */
export class Receiver {
  readonly service: Service;
  readonly browser: Browser;
  readonly apiKey: string;
  readonly connection: Connection;
  readonly root: string;

  private constructor(service: Service, browser: Browser, apiKey: string) {
    this.service = service;
    this.browser = browser;
    this.apiKey = apiKey;
    this.connection = connect({ service: service.url, apiKey });
    this.root = `${service.url}/`;
  }

  static async start(options: ServiceOptions = {}): Promise<Receiver> {
    const executablePath = pathOf('chromium');
    if (executablePath === undefined) throw new Error('Chromium is not installed');
    const [service, browser] = await Promise.all([startService(options), launchChromium(executablePath)]);
    return new Receiver(service, browser, (await service.account()).apiKey);
  }

  async close(): Promise<void> {
    await this.browser.close();
    await this.service.close();
  }

  /** Stores bytes as a payload without a header, as a sender of files does. */
  async store({ name, bytes }: Sent): Promise<ParcelFile> {
    const { payload, fileKey } = await encryptPayload(new Blob([bytes]).stream());
    const { cid } = await this.connection.put(await new Response(payload as BodyInit).blob(), { mode: 'plain' });
    return { cid, fileKey, name, type: 'application/octet-stream', size: bytes.length };
  }

  /** Shares files, and gives the link. */
  async share(sent: readonly Sent[], o: ShareOptions = {}): Promise<string> {
    return this.shareParcel({ files: await Promise.all(sent.map((each) => this.store(each))) }, o);
  }

  /** Shares files that are stored already. */
  async shareParcel(parcel: Parcel, { password, keys, opens = 5, ...words }: ShareOptions = {}): Promise<string> {
    const { record, secret } = await sealParcel(
      { ...parcel, ...words },
      {
        password,
        kdf,
        recipients: keys === undefined ? [] : parseRecipients(keys),
      },
    );
    const { id } = await this.#post('v1/shares', {
      record: Buffer.from(record).toString('base64'),
      files: [],
      opens,
      password: password !== undefined,
    });
    return printLink({ kind: 'share', service: this.root, id, secret });
  }

  /** Stores an age file, and gives its blob ID. */
  async storeContainer(bytes: Uint8Array<ArrayBuffer>, to: To): Promise<string> {
    return (await this.connection.put(await ageFile(bytes, to), { mode: 'plain' })).cid;
  }

  /** Stores an age file, and gives a link with its file key. */
  async blobLink(bytes: Uint8Array<ArrayBuffer>, keys: { privateKey: string; publicKey: string }): Promise<string> {
    const blob = await ageFile(bytes, { keys: keys.publicKey });
    const fileKey = await fileKeyOf(blob.stream(), { identities: parseIdentities(keys.privateKey) });
    const { cid } = await this.connection.put(blob, { mode: 'plain' });
    return printLink({ kind: 'blob', service: this.root, cid, fileKey });
  }

  async revoke(link: string): Promise<void> {
    const id = link.split('#1')[1]?.slice(0, 22);
    await fetch(`${this.root}v1/shares/${id}`, {
      method: 'DELETE',
      headers: { Authorization: `Bearer ${this.apiKey}` },
    });
  }

  async #post(path: string, body: unknown): Promise<{ id: string }> {
    const response = await fetch(this.root + path, {
      method: 'POST',
      headers: { Authorization: `Bearer ${this.apiKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as { id: string };
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

/** An age file; a password costs little. */
export async function ageFile(bytes: Uint8Array<ArrayBuffer>, to: To): Promise<Blob> {
  const recipients =
    'password' in to ? [passwordRecipient(to.password, kdf)] : [to.keys].flat().flatMap((key) => parseRecipients(key));
  const { stream } = await encrypt(new Blob([bytes]).stream(), { format: 'age', recipients });
  return new Response(stream as BodyInit).blob();
}

/** What a browser may lack, so that the next way to the disk is taken. */
export type Ability = 'picker' | 'disk' | 'service worker';
export type OpenOptions = BrowserContextOptions & { without?: readonly Ability[] };

/** Runs in the page. Its dialog cannot be driven, so a picked file is one of the origin's private files, which has the same interface. */
function takeAway(without: readonly string[]): void {
  document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
    // oxlint-disable-next-line no-console -- the test reads it there
    console.error(`violation: ${violatedDirective} ${blockedURI}`),
  );
  const pick = async ({ suggestedName }: { suggestedName: string }) =>
    (await navigator.storage.getDirectory()).getFileHandle(`picked ${suggestedName}`, { create: true });
  Object.assign(globalThis, { showSaveFilePicker: without.includes('picker') ? undefined : pick });
  if (without.includes('disk')) navigator.storage.estimate = async () => ({ quota: 0, usage: 0 });
  if (without.includes('service worker'))
    navigator.serviceWorker.register = async () => {
      throw new Error('there are no service workers');
    };
}

/** Saves the first file of a page that shows files, and gives the bytes of the download; undefined when the browser failed it. */
export async function downloaded(page: Page, button: string): Promise<{ name: string; bytes: Buffer } | undefined> {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: button, exact: true }).click(),
  ]);
  if ((await download.failure()) !== null) return undefined;
  return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
}

const axeSource = readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

/** What axe finds wrong with what a page shows. */
export async function violations(page: Page): Promise<string[]> {
  // Once in each document: to read it costs a page far more than to run it.
  if (!(await page.evaluate<boolean>("'axe' in globalThis"))) await page.evaluate(await axeSource);
  return page.evaluate(async () => {
    type Results = { violations: { id: string; nodes: { html: string }[] }[] };
    const { axe } = globalThis as unknown as { axe: { run(): Promise<Results> } };
    return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(', ')}`);
  });
}

/** What the browser keeps for the page. */
export function storageOf(page: Page): Promise<Record<string, unknown>> {
  return page.evaluate(async () => {
    const files: string[] = [];
    const directory = (await navigator.storage.getDirectory()) as unknown as { keys(): AsyncIterable<string> };
    for await (const name of directory.keys()) files.push(name);
    const { cookie } = document;
    return {
      local: Object.keys(localStorage),
      session: Object.keys(sessionStorage),
      cookie,
      state: history.state as unknown,
      databases: await indexedDB.databases(),
      caches: await caches.keys(),
      files,
    };
  });
}

/** `storageOf` where nothing is kept. */
export const nothing = {
  local: [],
  session: [],
  cookie: '',
  state: null,
  databases: [],
  caches: [],
  files: [],
};
