/** The pages that send, in Chromium, to the real service. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import { connect, generateKeys, receive } from '../../client/index.ts';
import { equal } from '../../testkit/assertions.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { nothing, readStorage } from './in-page.ts';
import { copiedLink, downloaded, Receiver, violations, type OpenOptions, type Watched } from './receiver.ts';
import { first, itemOf, present } from '../../testkit/present.ts';
import { inCi, long } from '../../testkit/long-run.ts';

const name = 'canary of the name.txt';
const text = 'canary of the plaintext';
const note = 'canary of the note';
const file = (fileName = name, buffer = Buffer.from(text)) => ({ name: fileName, mimeType: 'text/plain', buffer });

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  /** Opens a page; whatever it complained about fails the test. */
  async function open(address: string, o: OpenOptions = {}): Promise<Watched> {
    const watched = await receiver.open(address, o);
    onTestFinished(async () => {
      await watched.close();
      expect(watched.complaints).toEqual([]);
    });
    return watched;
  }

  const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();
  const complaint = (page: Page, text: string): Promise<void> =>
    page.locator('.error:visible', { hasText: text }).waitFor();

  /** An account of the test alone, and a page that has its API key. */
  async function signedIn(path: 'send' | 'files', o: OpenOptions = {}) {
    const { apiKey } = await receiver.service.account();
    const watched = await open(`${receiver.root}${path}`, o);
    await watched.page.locator('#api-key').fill(apiKey);
    await watched.page.keyboard.press('Enter');
    await shows(watched.page, path === 'send' ? 'compose' : 'stored');
    // Its terms are there for most tests, which a person opens by a click.
    await watched.page.locator('#terms').evaluate((terms: HTMLDetailsElement) => (terms.open = true));
    return { ...watched, apiKey, connection: connect({ service: receiver.root, apiKey }) };
  }

  async function send(page: Page, files = [file()]): Promise<string> {
    await page.locator('#choose').setInputFiles(files);
    await page.locator('#compose-button').click();
    return copiedLink(page);
  }

  test('a link opens what was sent, until it is taken back, and nothing else leaves the page', async () => {
    const { page, requests, connection, apiKey } = await signedIn('send', {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    await page.getByText(/^up to \d.* a file$/).waitFor();
    expect(await page.locator('nav [aria-current]').allInnerTexts()).toEqual(['Send']);
    await page.locator('#opens').selectOption('1');
    await page.locator('#note').fill(note);
    await page.locator('#from').fill('canary of Anna');
    await page.locator('#choose').setInputFiles([file('removed')]);
    await page.getByRole('button', { name: 'Remove removed' }).click();
    const link = await send(page, [file(), file('empty', Buffer.alloc(0))]);
    expect(await page.locator('#sent-text').innerText()).toContain('Anyone who has it can open what you sent.');
    expect(await page.locator('#sent-terms').innerText()).toMatch(/^Opens once, until /);
    expect(await page.locator('#tell-password').isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(link);
    const received = await receive(link);
    expect(received).toMatchObject({
      note,
      from: 'canary of Anna',
      files: [
        { name, type: 'text/plain' },
        { name: 'empty', size: 0 },
      ],
    });
    expect(await (await first(received.files).open()).text()).toBe(text);
    await page.getByRole('button', { name: 'Take it back' }).click();
    await page.getByText('It had been opened once').waitFor();
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
    expect((await connection.list()).files).toEqual([]);

    expect(await page.evaluate(readStorage)).toEqual(nothing);
    const seen = [...requests, ...receiver.service.log].join('\n');
    for (const canary of ['canary', encodeURIComponent(name), itemOf(link.split('#1'), 1).slice(22, 65)])
      expect(seen).not.toContain(canary);
    for (const request of requests) {
      expect(request).toContain(` ${receiver.root}`);
      expect(request.replace(`Bearer ${apiKey}`, '')).not.toContain(apiKey);
    }
  });

  inCi('what computes with keys is loaded for keys alone, and without it nothing is sent', async () => {
    const { page, connection, requests } = await signedIn('send');
    const loaded = (): number => requests.filter((each) => /\/web\/curves-\w+\.js /.test(each)).length;
    const { privateKey, publicKey } = await generateKeys();
    await send(page);
    expect(loaded()).toBe(0);
    await page.getByRole('button', { name: 'Send something else' }).click();
    await page.locator('#by-keys').check();
    await page.locator('#keys').fill(publicKey);
    await page.locator('#choose').setInputFiles([file()]);
    const before = [await connection.shares(), await connection.list()];
    await page.context().route('**/web/curves-*', (route) => route.fulfill({ status: 404 }));
    await page.getByRole('button', { name: 'Encrypt and send' }).click();
    await complaint(page, 'The service cannot be reached.');
    expect([await connection.shares(), await connection.list()]).toEqual(before);
    await page.context().unroute('**/web/curves-*');
    await page.getByRole('button', { name: 'Encrypt and send' }).click();
    await page.getByText('It opens with a private key of the receiver only.').waitFor();
    expect(await page.locator('#sent-text').innerText()).not.toContain('Anyone');
    const link = await page.locator('#sent-link').inputValue();
    await expect(receive(link)).rejects.toMatchObject({ code: 'wrong_kind' });
    const { files } = await receive(link, { keys: privateKey });
    expect(await (await first(files).open()).text()).toBe(text);
  });

  inCi('a link is changed where it stands, and taking it back tells how often it was opened', async () => {
    const { page, connection } = await signedIn('send');
    const link = await send(page);
    await receive(link);
    const dialog = page.locator('#changing[open]');
    const change = async (opens: string, days: string): Promise<void> => {
      await page.getByRole('button', { name: 'Change' }).click();
      await dialog.waitFor();
      expect(await violations(page)).toEqual([]);
      await page.locator('#changing-opens').fill(opens);
      await page.locator('#changing-expires').selectOption({ label: days });
      await page.getByRole('button', { name: 'Change it' }).click();
    };
    await change('9', 'in 14 days');
    await expect.poll(() => page.locator('#sent-terms').innerText()).toMatch(/^Opens 8 times, until /);
    expect(await page.locator('#sent-link').inputValue()).toBe(link);
    const { shares } = await connection.shares();
    expect(shares).toMatchObject([{ opens: 9, opensLeft: 8 }]);
    expect(Math.round((Date.parse(first(shares).expiresAt) - Date.now()) / 86_400_000)).toBe(14);
    await page.getByRole('button', { name: 'Change' }).click();
    expect(await page.locator('#changing-opens').inputValue()).toBe('9');
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await receive(link);
    await page.getByRole('button', { name: 'Take it back' }).click();
    await page.getByText('It had been opened 2 times;').waitFor();
    await page.getByRole('button', { name: 'Send something else' }).click();
    const second = await send(page);
    await connection.unshare(itemOf(second.split('#1'), 1).slice(0, 22));
    await change('9', 'as it is');
    await complaint(page, 'This link has ended and cannot be changed.');
    // The service does it, and its answer gets lost: how often it was opened is not known any more.
    await page.context().route('**/v1/shares/*', async (route) => {
      await route.fetch();
      await route.abort();
    });
    await page.getByRole('button', { name: 'Take it back' }).click();
    await complaint(page, 'The service cannot be reached.');
    await page.context().unroute('**/v1/shares/*');
    await page.getByRole('button', { name: 'Take it back' }).click();
    await shows(page, 'taken');
    expect(await page.locator('#taken-text').innerText()).not.toContain('opened');
  });

  inCi('a name that cannot be sent is changed, which its row says, and the other files go as they are', async () => {
    const { page } = await signedIn('send');
    const names = ['one.txt', 'invoice\u202egpj.exe', 'two\\three.txt', 'four.txt'];
    const link = await send(
      page,
      names.map((each) => file(each)),
    );
    const changes = await page.locator('#chosen .renamed').evaluateAll((all) => all.map((each) => each.textContent));
    expect(changes).toEqual(['', expect.stringContaining('(U+202E)'), expect.stringContaining('(\\)'), '']);
    const { files } = await receive(link);
    expect(files.map((each) => each.name)).toEqual(['one.txt', 'invoicegpj.exe', 'two_three.txt', 'four.txt']);
    for (const each of files) expect(await (await each.open()).text()).toBe(text);
  });

  inCi('what is cancelled leaves nothing stored, and the form as it was', async () => {
    const { page, connection } = await signedIn('send');
    await page.context().route('**/v1/shares', () => undefined);
    await page.locator('#choose').setInputFiles([file()]);
    // By then the page has heard that the file is stored.
    const sharing = page.context().waitForEvent('request', (request) => request.url().endsWith('/v1/shares'));
    await page.locator('#compose-button').click();
    await sharing;
    await page.getByRole('button', { name: 'Cancel' }).click();
    await complaint(page, 'Cancelled. Nobody can open');
    expect((await connection.list()).files).toEqual([]);
    expect(await page.locator('#chosen').innerText()).toContain(name);
  });

  inCi('is used by keyboard alone on a narrow screen, and says what is missing', async () => {
    const { page } = await signedIn('send', { viewport: { width: 320, height: 640 } });
    const fits = async (): Promise<void> => {
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
      expect(await violations(page)).toEqual([]);
    };
    const focused = (): Promise<string> => page.evaluate(() => document.activeElement?.id ?? '');
    const tabTo = async (target: string): Promise<void> => {
      for (let count = 0; count < 16 && (await focused()) !== target; count += 1) await page.keyboard.press('Tab');
      expect(await focused()).toBe(target);
    };
    expect(await focused()).toBe('compose-title');
    await tabTo('compose-button');
    await page.keyboard.press('Enter');
    expect(await focused()).toBe('choose');
    expect(await page.locator('#compose-error').innerText()).toBe('Choose a file, or write a message.');
    const chooser = page.waitForEvent('filechooser');
    await page.keyboard.press('Space');
    await (await chooser).setFiles([file('very-long-name'.repeat(9))]);
    await tabTo('by-link');
    await page.keyboard.press('ArrowDown');
    expect(await focused()).toBe('by-password');
    await tabTo('compose-button');
    await page.keyboard.press('Enter');
    expect(await focused()).toBe('password');
    await fits();
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('ArrowDown');
    expect(await focused()).toBe('by-keys');
    await page.keyboard.press('Tab');
    await page.keyboard.type('age1wrong');
    await tabTo('compose-button');
    await page.keyboard.press('Enter');
    await complaint(page, 'This is not a public key.');
    expect(await focused()).toBe('keys');
    await page.locator('#by-keys').focus();
    await page.keyboard.press('ArrowDown');
    expect(await focused()).toBe('by-link');
    await tabTo('compose-button');
    await page.keyboard.press('Enter');
    await shows(page, 'sent');
    expect(await focused()).toBe('sent-title');
    await fits();
    await tabTo('take-back');
    await page.keyboard.press('Enter');
    await shows(page, 'taken');
    expect(await focused()).toBe('taken-title');
    await fits();
  });

  inCi('an API key that may not send is refused, and says why', async () => {
    const { connection, apiKey } = await signedIn('files');
    const { page } = await open(`${receiver.root}send`);
    const refused = async (key: string, why: string): Promise<void> => {
      await page.locator('#api-key').fill(key);
      await page.keyboard.press('Enter');
      await complaint(page, why);
    };
    await refused('no key', 'This key does not belong to this service');
    const { recipient } = await generateKeys();
    const { link } = await connection.inbox.create({ label: 'inbox', recipient });
    await refused(first(itemOf(link.split('#'), 1).split('.')), 'it lacks share');
    expect(await violations(page)).toEqual([]);
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    await shows(page, 'compose');
  });

  inCi('what is handed over is opened by the owner of the inbox', async () => {
    const { apiKey } = await receiver.service.account();
    const owner = connect({ service: receiver.root, apiKey });
    const { recipient, privateKey } = await generateKeys();
    const { link, key } = await owner.inbox.create({ label: 'Tax office Meier', recipient });
    const { page, requests } = await open(link);
    await page.getByRole('heading', { name: 'Files for “Tax office Meier”' }).waitFor();
    expect(page.url()).toBe(`${receiver.root}drop`);
    expect(await page.locator('nav a:visible').allInnerTexts()).toEqual(['Send', 'Open', 'Links']);
    await page.locator('#note').fill(note);
    await page.locator('#choose').setInputFiles([file()]);
    expect(await page.locator('#terms').isVisible()).toBe(false);
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Encrypt and send' }).click();
    await page.getByText('Your file for “Tax office Meier” has arrived, complete.').waitFor();
    expect(await violations(page)).toEqual([]);
    const { deliveries } = await owner.inbox.list();
    const { files, note: said } = await owner.inbox.open(first(deliveries).id, { keys: privateKey });
    expect(said).toEqual(note);
    expect(first(files).name).toEqual(name);
    expect(await (await first(files).open()).text()).toEqual(text);
    expect(requests.slice(1).join('\n')).not.toContain('canary');
    expect(await page.evaluate(readStorage)).toEqual(nothing);
    await page.getByRole('button', { name: 'Send more' }).click();
    await expect.poll(() => page.locator('#chosen').innerText()).toBe('');
    await owner.inbox.close(key.id);
    await page.goto('about:blank');
    await page.goto(link);
    await page.getByText('This inbox is closed').waitFor();
    await page.goto(link.slice(0, -3));
    await page.getByText('This link is incomplete or mistyped').waitFor();
    await page.goto(`${receiver.root}s`);
    await page.goto(`${receiver.root}open`);
    await page.locator('#link').fill(link);
    await page.keyboard.press('Enter');
    expect(await page.getByRole('link', { name: 'Send files', exact: true }).getAttribute('href')).toBe(link);
  });

  test.runIf(long)('what one page sends in parts, with a password, another page receives', async () => {
    const bytes = Buffer.from(
      Uint8Array.from({ length: 40_000_000 }, (_, index) => (index * 31 + (index >> 10)) % 251),
    );
    const { page } = await signedIn('send');
    await page.locator('#by-password').check();
    await page.locator('#password').fill('correct horse');
    const link = await send(page, [file('large.bin', bytes)]);
    expect(await page.locator('#tell-password').innerText()).toBe(
      'Send the password another way, for example by phone.',
    );
    const receiving = await open(link, { without: ['picker'] });
    await shows(receiving.page, 'asked');
    await receiving.page.locator('#password').fill('correct horse');
    await receiving.page.keyboard.press('Enter');
    await shows(receiving.page, 'opened');
    const got = await downloaded(receiving.page, 'Save large.bin');
    equal(present(got).bytes, bytes);
  });
});
