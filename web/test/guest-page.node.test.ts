/**
 * The page of an invitation: a guest sends, sees and takes back, with a link alone. In Chromium
 * much more than in the other browsers.
 */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { connect, connectAsGuest, generateKeys, receive, type Connection } from '../../client/index.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { launch, withBrowser } from '../../testkit/browsers/browsers.ts';
import type { RunningBrowser, Tab } from '../../testkit/browsers/running-browser.ts';
import { ci, inCi, long } from '../../testkit/long-run.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { Visit } from './firefox.ts';
import { Sender } from './sender.ts';
import { nothing, readStorage } from './in-page.ts';
import { copiedLink, Receiver, violations, type OpenOptions, type Watched } from './receiver.ts';
import { first, itemOf, present } from '../../testkit/present.ts';

const name = 'canary of the name.txt';
const text = 'canary of the plaintext';
const file = (fileName = name, buffer = Buffer.from(text)) => ({ name: fileName, mimeType: 'text/plain', buffer });

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  async function invited(days = 90, limits = {}): Promise<{ host: Connection; link: string; id: string }> {
    const { apiKey } = await receiver.service.account();
    const host = connect({ service: receiver.root, apiKey });
    const expiresAt = new Date(Date.now() + days * 86_400_000);
    const { link, key } = await host.invitation.create({ label: 'canary of the label', expiresAt, limits });
    return { host, link, id: key.id };
  }

  async function open(address: string, o: OpenOptions = {}): Promise<Watched> {
    const watched = await receiver.open(address, o);
    onTestFinished(async () => {
      await watched.close();
      expect(watched.complaints).toEqual([]);
    });
    return watched;
  }

  const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();

  async function send(page: Page, files = [file()]): Promise<string> {
    await page.locator('#choose').setInputFiles(files);
    await page.locator('#compose-button').click();
    return copiedLink(page);
  }

  test('a guest sends, sees and takes back, and nothing of it is in an address, a log or the browser', async () => {
    const { host, link } = await invited();
    const secret = itemOf(link.split('#'), 1);
    const { page, requests } = await open(link);
    await shows(page, 'compose');
    expect(page.url()).toBe(`${receiver.root}send`);
    expect(await page.locator('nav a:visible').allInnerTexts()).toEqual(['Send', 'Open', 'Links']);
    expect(await page.locator('#compose-text').innerText()).toMatch(
      /^You are invited to send files until .+\. There is room for 200 more files, 1\.1\sGB altogether\. /,
    );
    // What the service takes of anybody is more.
    expect(await page.locator('#chosen-total').isVisible()).toBe(false);
    const kept = await send(page);
    const { files } = await receive(kept);
    expect(await (await first(files).open()).text()).toBe(text);
    await page.getByRole('button', { name: 'Send something else' }).click();
    await shows(page, 'compose');
    expect(await page.locator('#compose-text').innerText()).toContain('199 more files');
    const taken = await send(page, [file(), file('second')]);
    await page.getByRole('button', { name: 'Send something else' }).click();
    await page.getByRole('button', { name: 'Your links' }).click();
    await shows(page, 'links');
    const rows = page.locator('#made-links > li');
    await expect.poll(() => rows.count()).toBe(2);
    expect(await rows.first().innerText()).toMatch(/^2 files, .+\n+opened 0 of 5 times · until /);
    expect(await rows.last().innerText()).toMatch(/^One file, .+\n+opened 1 of 5 times · until /);

    await rows.first().getByRole('button', { name: 'Take it back' }).click();
    await page.getByRole('button', { name: 'Keep it' }).click();
    expect(await rows.count()).toBe(2);
    await rows.first().getByRole('button', { name: 'Take it back' }).click();
    await page.locator('#confirming-yes').click();
    await expect.poll(() => rows.count()).toBe(1);
    expect(await page.getByRole('status').first().innerText()).toMatch(/^2 files, .*: taken back\.$/);
    await expect(receive(taken)).rejects.toMatchObject({ code: 'gone' });
    expect((await receive(kept)).files).toHaveLength(1);
    expect((await host.list()).files).toHaveLength(1);

    expect(await page.evaluate(readStorage)).toEqual(nothing);
    // The address has no invitation, so a page that is loaded again knows none.
    await page.reload();
    await page.getByText('Invited? Open your invitation again.').waitFor();
    expect(await page.locator('nav a:visible').allInnerTexts()).toEqual(['Send', 'Open', 'Files', 'Inbox', 'Links']);
    // It goes to this service alone, in the header of requests.
    const sent = requests.slice(1).map((each) => each.replace(`"authorization":"Bearer ${secret}"`, ''));
    const seen = [...sent, ...receiver.service.log].join('\n');
    for (const canary of [secret, 'canary', encodeURIComponent(name)]) expect(seen).not.toContain(canary);
  });

  const pages = ['send', 'files'] as const;
  inCi.each(pages)('a link is left for something else once it is copied, or after a question: /%s', async (path) => {
    const { apiKey } = await receiver.service.account();
    await connect({ service: receiver.root, apiKey }).put('x', { name: 'x' });
    const { page } = await open(receiver.root + path);
    const asked: string[] = [];
    let answer: 'dismiss' | 'accept' = 'dismiss';
    page.on('dialog', (dialog) => {
      asked.push(dialog.message());
      void dialog[answer]();
    });
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    // What is chosen before is cleared with the form.
    await shows(page, path === 'send' ? 'compose' : 'stored');
    const make = async (): Promise<void> => {
      if (path === 'files') await page.getByRole('button', { name: 'Send on x' }).click();
      else await page.locator('#choose').setInputFiles([file()]);
      await page.locator('#compose-button').click();
      await shows(page, 'sent');
    };
    const leave = (): Promise<void> => page.locator('#sent-more').click();
    await make();
    await leave();
    expect(asked).toEqual([expect.stringMatching(/not saved or copied, is lost/)]);
    expect(await page.locator('#sent').isVisible()).toBe(true);
    answer = 'accept';
    await leave();
    await shows(page, path === 'send' ? 'compose' : 'stored');
    await make();
    await copiedLink(page);
    await leave();
    await shows(page, path === 'send' ? 'compose' : 'stored');
    expect(asked).toHaveLength(2);
    // What was let go keeps the page no longer.
    await page.reload();
    expect(asked).toHaveLength(2);
  });

  inCi('a guest changes a link, which opens as before, and takes it back with its files', async () => {
    const { host, link } = await invited();
    const { page } = await open(link);
    await shows(page, 'compose');
    // As programs for slides and PDF files write the ends of lines and pages.
    await page.locator('#note').fill('one\vtwo\fthree\u0085\u0007four');
    await page.locator('#terms > summary').click();
    await page.locator('#from').fill('Ann\u0007 Müller');
    const made = await send(page);
    expect(await receive(made)).toMatchObject({ note: 'one\ntwo\nthree\nfour', from: 'Ann Müller' });
    await page.getByRole('button', { name: 'Change' }).click();
    await page.locator('#changing-opens').fill('7');
    await page.getByRole('button', { name: 'Change it' }).click();
    await page.getByText(/^Opens 6 times, until /).waitFor();
    expect(await (await first((await receive(made)).files).open()).text()).toBe(text);
    await page.getByRole('button', { name: 'Take it back' }).click();
    await shows(page, 'taken');
    expect(await page.locator('#taken-text').innerText()).toContain('The files are deleted.');
    expect((await host.list()).files).toEqual([]);
  });

  inCi('links end with the invitation, and the page says so at the date', async () => {
    const { link } = await invited(3);
    const { page } = await open(link);
    await shows(page, 'compose');
    const ends = page.locator('#expires-end');
    expect(await ends.innerText()).toMatch(/^The link ends with your invitation, on \d+\s\w+/);
    await page.locator('#terms > summary').click();
    await page.locator('#expires').selectOption({ index: 1 });
    expect(await ends.isVisible()).toBe(false);
    await page.locator('#expires').selectOption({ index: 3 });
    expect(await ends.isVisible()).toBe(true);
    await send(page);
    const [share] = (await connectAsGuest(link).shares()).shares;
    const days = (Date.parse(present(share).expiresAt) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(2.9);
    expect(days).toBeLessThan(3);
  });

  inCi('an invitation that has ended says so, before and after files are chosen; so does a broken link', async () => {
    const { host, link, id } = await invited();
    const { page } = await receiver.open(link);
    onTestFinished(() => page.close());
    await shows(page, 'compose');
    await host.invitation.revoke(id);
    await page.locator('#choose').setInputFiles([file()]);
    await page.locator('#compose-button').click();
    await page.getByRole('heading', { name: 'This invitation has ended' }).waitFor();
    await page.goto('about:blank');
    const other = await invited();
    await page.goto(other.link);
    await shows(page, 'compose');
    await send(page);
    await page.getByRole('button', { name: 'Send something else' }).click();
    await page.getByRole('button', { name: 'Your links' }).click();
    await page.locator('#made-links button').waitFor();
    await other.host.invitation.revoke(other.id);
    await page.locator('#made-links button').click();
    await page.locator('#confirming-yes').click();
    await page.getByRole('heading', { name: 'This invitation has ended' }).waitFor();
    await page.goto('about:blank');
    await page.goto(link);
    await page.getByRole('heading', { name: 'This invitation has ended' }).waitFor();
    await page.goto('about:blank');
    await page.goto(link.slice(0, -3));
    await page.getByRole('heading', { name: 'This link is incomplete' }).waitFor();
    await page.goto(`${receiver.root}open`);
    await page.locator('#link').fill(link);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Send files' }).last().click();
    await page.getByRole('heading', { name: 'This invitation has ended' }).waitFor();
  });

  const ends = [
    ['invitation', 'account_disabled'],
    ['inbox', 'unauthorized'],
    ['inbox', 'account_disabled'],
    ['invitation', 'unauthorized'],
  ] as const;
  test.each(ci ? ends : ends.slice(0, 1))(
    'an %s that is over, or disabled, says so and speaks of no key, whenever that happens: %s',
    async (kind, code) => {
      const owner = receiver.connection;
      const { recipient } = await generateKeys();
      const link =
        kind === 'inbox' ? (await owner.inbox.create({ label: 'office', recipient })).link : (await invited()).link;
      const { page, close } = await receiver.open(link);
      onTestFinished(close);
      const isDisabled = code === 'account_disabled';
      const status = isDisabled ? 403 : 401;
      const end = async (): Promise<void> => {
        const json = { type: '', title: '', status, code };
        await page.context().route('**/v1/**', (route) => route.fulfill({ status, json }));
      };
      const says = async (): Promise<void> => {
        const title = kind === 'inbox' ? 'This inbox is closed' : 'This invitation has ended';
        const name = isDisabled ? 'Nothing can be sent at the moment' : title;
        await page.getByRole('heading', { name }).waitFor();
        const text = await page.locator('main').innerText();
        expect(text).not.toMatch(/\bkey\b/);
        if (isDisabled) expect(text).toContain('has disabled the account that this belongs to. Nothing is deleted.');
      };
      await shows(page, 'compose');
      await page.locator('#choose').setInputFiles([file()]);
      await end();
      await page.locator('#compose-button').click();
      // Who is disabled for a while keeps what was chosen.
      if (isDisabled) await page.locator('#compose-error', { hasText: /has disabled the account/ }).waitFor();
      else await says();
      await page.goto('about:blank');
      await page.goto(link);
      await says();
      if (kind === 'inbox') return;
      await page.context().unroute('**/v1/**');
      await page.goto('about:blank');
      await page.goto(link);
      await shows(page, 'compose');
      await send(page);
      await end();
      const hasText = isDisabled ? /has disabled the account/ : /^This invitation has ended\.$/;
      await page.locator('#take-back').click();
      await page.locator('#sent-error', { hasText }).waitFor();
      await page.locator('#change').click();
      await page.getByRole('button', { name: 'Change it' }).click();
      await page.locator('#sent-error', { hasText }).waitFor();
      await page.locator('#sent-more').click();
      await says();
    },
  );

  inCi('a full invitation says so, and takes files again once a link is taken back', async () => {
    const { link } = await invited(9, { files: 1 });
    const { page } = await receiver.open(link);
    onTestFinished(() => page.close());
    await shows(page, 'compose');
    await send(page);
    await page.getByRole('button', { name: 'Send something else' }).click();
    await shows(page, 'compose');
    await page.locator('#choose').setInputFiles([file()]);
    await page.locator('#compose-button').click();
    await page.locator('#compose-error', { hasText: 'This invitation cannot store more now' }).waitFor();
    await page.getByRole('button', { name: 'Your links' }).click();
    await page.locator('#made-links button').click();
    await page.locator('#confirming-yes').click();
    await page.getByText('No link was made with this invitation').waitFor();
    await page.getByRole('button', { name: 'Send files' }).click();
    await shows(page, 'compose');
    await page.locator('#compose-button').click();
    await shows(page, 'sent');
  });

  inCi.each(['en', 'de'])(
    'axe finds nothing, a narrow page has no part beside it, and keys reach all: %s',
    async (locale) => {
      const { link } = await invited(3);
      const { page } = await open(link, { locale, viewport: { width: 320, height: 640 }, colorScheme: 'dark' });
      const isClean = async (state: string): Promise<void> => {
        await shows(page, state);
        expect(await violations(page), state).toEqual([]);
        expect(await page.evaluate(() => document.documentElement.scrollWidth), state).toBe(320);
      };
      const focused = (): Promise<string> => page.evaluate(() => document.activeElement?.id ?? '');
      const tabTo = async (target: RegExp): Promise<void> => {
        for (let count = 0; count < 25 && !target.test(await focused()); count += 1) await page.keyboard.press('Tab');
        expect(await focused()).toMatch(target);
      };
      await isClean('compose');
      await send(page);
      await tabTo(/^sent-more$/);
      await page.keyboard.press('Enter');
      await shows(page, 'compose');
      await tabTo(/^compose-back$/);
      await page.keyboard.press('Enter');
      await page.locator('#made-links > li').waitFor();
      await isClean('links');
      expect(await focused()).toBe('links-title');
      await tabTo(/^take-/);
      await page.keyboard.press('Enter');
      await page.locator('#confirming[open]').waitFor();
      expect(await violations(page)).toEqual([]);
      expect(await focused()).toBe('confirming-no');
      await page.keyboard.press('Escape');
      await tabTo(/^links-back$/);
      await page.keyboard.press('Enter');
      await isClean('compose');
    },
  );
});

// Chromium does all of this above.
for (const name of long ? (['Firefox', 'WebKitGTK'] as const) : []) {
  withBrowser(name, () => {
    let sender: Sender;
    let browser: RunningBrowser;
    beforeAll(async () => {
      [sender, browser] = await Promise.all([Sender.start(), launch[name]()]);
    });
    afterAll(() => browser.close());

    test(`${name}: a guest sends, sees and takes back, and a full or ended invitation says so`, async () => {
      const { link, key } = await sender.connection.invitation.create({ label: 'Ann', limits: { bytes: 5000 } });
      const letter = join(await temporaryDirectory(), 'letter.txt');
      const opened = async (): Promise<Visit<Tab>> => new Visit<Tab>(await browser.open(link));
      const choose = async (visit: Visit<Tab>, content: string): Promise<void> => {
        await writeFile(letter, content);
        await visit.page.setFiles('#choose', [letter]);
        await visit.click('#compose-button');
      };
      const full = await opened();
      await full.shows('compose');
      await full.says('You are invited to send files until');
      await choose(full, 'x'.repeat(6000));
      await full.says('This invitation cannot store more now. Take a link back, or ask who invited you.');
      await full.end();

      const visit = await opened();
      await visit.shows('compose');
      expect(await visit.page.evaluate('location.href')).toBe(`${sender.root}send`);
      await choose(visit, text);
      await visit.shows('sent');
      const sent = await visit.page.evaluate<string>(`document.getElementById('sent-link').value`);
      expect(await (await first((await receive(sent)).files).open()).text()).toBe(text);
      await visit.page.evaluate(`document.getElementById('sent-link').dispatchEvent(new Event('copy'))`);
      await visit.click('#sent-more');
      await visit.shows('compose');
      await visit.click('#compose-back');
      await visit.shows('links');
      await visit.says('opened 1 of 5 times');
      await visit.click('#made-links button');
      await visit.click('#confirming-yes');
      await visit.says('taken back');
      await expect(receive(sent)).rejects.toMatchObject({ code: 'gone' });
      expect((await sender.connection.list()).files).toEqual([]);
      expect(await visit.run(readStorage)).toEqual(nothing);
      await visit.page.reload();
      await visit.says('Invited? Open your invitation again.');
      await visit.end();

      await sender.connection.invitation.revoke(key.id);
      const ended = await opened();
      await ended.says('This invitation has ended');
      await ended.end();
    });
  });
}
