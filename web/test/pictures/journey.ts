/** Steps by which a person comes to a state of the pages. */
import type { BrowserContextOptions, Page } from 'playwright-core';
import { connect, generateKeys, type Connection } from '../../../client/index.ts';
import { itemOf } from '../../../testkit/present.ts';
import { copiedLink, type Receiver, type Watched } from '../receiver.ts';
import type { Sent, ShareOptions } from '../sender.ts';

/** How a page is looked at. */
export type Look = Required<Pick<BrowserContextOptions, 'colorScheme' | 'forcedColors'>> & { locale: string };

const file = (name: string, bytes = 748_000) => ({ name, bytes: new Uint8Array(bytes) });
export const files: readonly Sent[] = [
  file('plans.pdf'),
  file('a rather long name of a report on everything that we did last year.docx', 2_900_000),
  file('IMG_2031.jpeg', 1_400_000),
];

/** A browser, an account and a service. Elements go by their IDs, in every language. */
export class Journey {
  readonly receiver: Receiver;
  readonly page: Page;
  readonly #watched: Watched;
  #account: { apiKey: string; connection: Connection } | undefined;

  private constructor(receiver: Receiver, watched: Watched) {
    this.receiver = receiver;
    this.page = watched.page;
    this.#watched = watched;
  }

  static async start(receiver: Receiver, look: Look): Promise<Journey> {
    return new Journey(receiver, await receiver.open('about:blank', { ...look, without: ['picker'] }));
  }

  close(): Promise<void> {
    return this.#watched.close();
  }

  async go(path: string): Promise<void> {
    await this.page.goto(path.startsWith('http') ? path : this.receiver.root + path);
  }

  shows(state: string): Promise<void> {
    return this.page.locator(`#${state}:not([hidden])`).waitFor();
  }

  click(selector: string): Promise<void> {
    return this.page.locator(selector).first().click();
  }

  fill(selector: string, text: string): Promise<void> {
    return this.page.locator(selector).fill(text);
  }

  /** An account of this journey alone. */
  async account(): Promise<{ apiKey: string; connection: Connection }> {
    if (this.#account === undefined) {
      const { apiKey } = await this.receiver.service.account();
      this.#account = { apiKey, connection: connect({ service: this.receiver.root, apiKey }) };
    }
    return this.#account;
  }

  /** Opens a page that asks for an API key, and enters it. */
  async signIn(path: string): Promise<void> {
    await this.go(path);
    await this.fill('#api-key', (await this.account()).apiKey);
    await this.page.keyboard.press('Enter');
    await this.page.locator('#signing[hidden]').waitFor({ state: 'attached' });
  }

  async choose(count = files.length): Promise<void> {
    const chosen = files
      .slice(0, count)
      .map(({ name, bytes }) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(bytes) }));
    await this.page.locator('#choose').setInputFiles(chosen);
  }

  /** Sends from a page that has a form. */
  async send(count = files.length): Promise<string> {
    await this.choose(count);
    await this.click('#compose-button');
    return copiedLink(this.page);
  }

  /** Opens a link to some files. */
  async open(sent = files, o: ShareOptions = {}): Promise<void> {
    await this.go(await this.receiver.share(sent, o));
    await this.shows('asked');
    await this.click('#open-button');
    await this.shows('opened');
  }

  /** A link by which files are handed over, and what reads them. */
  async inbox(): Promise<{ link: string; privateKey: string; close(): Promise<unknown> }> {
    const { connection } = await this.account();
    const { recipient, privateKey } = await generateKeys();
    const limits = { files: 200, bytes: 1e9 };
    const { link, key } = await connection.inbox.create({ label: 'Tax office Meier & Söhne', recipient, limits });
    return { link, privateKey, close: () => connection.inbox.close(key.id) };
  }

  async invitation(): Promise<string> {
    const { connection } = await this.account();
    return (await connection.invitation.create({ label: 'Ann' })).link;
  }

  /** Stops all answers at an address. */
  async stop(pattern: string): Promise<void> {
    await this.page.context().route(pattern, () => undefined);
  }

  /** Ends a share. */
  async end(link: string): Promise<void> {
    const { connection } = await this.account();
    await connection.unshare(itemOf(link.split('#1'), 1).slice(0, 22));
  }
}
