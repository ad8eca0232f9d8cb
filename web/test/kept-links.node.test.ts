/**
 * Links that a browser keeps: only where it is told to, never the link itself, and until it is told
 * to forget.
 */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import { documents } from '../../cli/local/code/web-bundle.ts';
import { connect, receive } from '../../client/index.ts';
import { ci, inCi } from '../../testkit/long-run.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { nothing, readPrivateFiles, readStorage } from './in-page.ts';
import { copiedLink, Receiver, violations, type OpenOptions, type Watched } from './receiver.ts';
import { itemOf } from '../../testkit/present.ts';

const file = (name: string) => ({ name, mimeType: 'text/plain', buffer: Buffer.from('the plans') });

/** Runs in the page: all that its databases hold, as text. */
async function readDatabases(): Promise<string> {
  let text = '';
  for (const { name = '' } of await indexedDB.databases()) {
    const database = await new Promise<IDBDatabase>((resolve) => {
      const request = indexedDB.open(name);
      request.onsuccess = () => resolve(request.result);
    });
    for (const store of database.objectStoreNames) {
      const request = database.transaction(store).objectStore(store).getAll();
      await new Promise((resolve) => (request.onsuccess = resolve));
      text += JSON.stringify(request.result);
    }
    database.close();
  }
  return text;
}

/** Leaves a file as a page does that crashes, and the link of a share as one that is reloaded. */
async function leaveTraces(): Promise<void> {
  const directory = await (
    await navigator.storage.getDirectory()
  ).getDirectoryHandle('sealpin-received', { create: true });
  await directory.getFileHandle('plaintext', { create: true });
  const until = Date.now() + 600_000;
  sessionStorage.setItem('opened', JSON.stringify({ link: 'https://localhost/s#1', opening: 'x', until }));
}

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  async function open(address: string, o: OpenOptions = {}): Promise<Watched> {
    const watched = await receiver.open(address, o);
    onTestFinished(async () => {
      await watched.close();
      expect(watched.complaints.filter((each) => !/404 \(Not Found\)|429 \(Too/.test(each))).toEqual([]);
    });
    return watched;
  }

  const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();
  const rows = (page: Page) => page.locator('#kept-links > li');
  const secretOf = (link: string): string => itemOf(link.split('#'), 1).slice(23);

  async function send(page: Page, names = ['plans.txt']): Promise<string> {
    await page.locator('#choose').setInputFiles(names.map((each) => file(each)));
    await page.locator('#compose-button').click();
    return copiedLink(page);
  }

  async function keep(page: Page): Promise<void> {
    await page.locator('#keep-link').check();
    await page.locator('#keep-said:not([hidden])').waitFor();
  }

  /** A page that has sent by an API key, and its link. */
  async function sent(o: OpenOptions = {}) {
    const { apiKey } = await receiver.service.account();
    const watched = await open(`${receiver.root}send`, o);
    await watched.page.locator('#api-key').fill(apiKey);
    await watched.page.keyboard.press('Enter');
    await shows(watched.page, 'compose');
    return {
      ...watched,
      apiKey,
      link: await send(watched.page),
      connection: connect({ service: receiver.root, apiKey }),
    };
  }

  /** Leaves for the list. */
  async function list(page: Page): Promise<void> {
    await page.goto(`${receiver.root}links`);
    await shows(page, 'kept');
  }

  async function enter(page: Page, key: string): Promise<void> {
    await page.locator('#key-field').fill(key);
    await page.keyboard.press('Enter');
  }

  /** An API key of the same account that may do nothing to its links. */
  async function readingKey(apiKey: string): Promise<string> {
    const made = await fetch(`${receiver.root}v1/keys`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ label: 'reads', scopes: ['read'] }),
    });
    return ((await made.json()) as { apiKey: string }).apiKey;
  }

  async function takeBack(page: Page): Promise<void> {
    await page.getByRole('button', { name: 'Take it back plans.txt' }).click();
    await page.locator('#confirming-yes').click();
  }

  test('a link without a tick leaves nothing behind, and the page says so', async () => {
    const { page } = await sent();
    await list(page);
    await expect.poll(() => page.locator('#kept-text').innerText()).toMatch(/remembers no links.* Invited\?/);
    expect(await page.locator('#forget').isVisible()).toBe(false);
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate(readStorage)).toEqual(nothing);
  });

  inCi('a ticked one is listed as the service sees it, changed and taken back, and forgotten', async () => {
    const { page, apiKey, link, connection } = await sent();
    await keep(page);
    await page.locator('#keep-link').uncheck();
    await expect.poll(() => page.evaluate(readDatabases)).toBe('[][][]');
    await keep(page);
    await receive(link);
    await list(page);
    await expect.poll(() => rows(page).first().innerText()).toContain('Opens 4 more times, until ');
    expect(await rows(page).first().innerText()).toMatch(/plans\.txt[^]*9\sbytes[^]*Seen at /);
    const databases = await page.evaluate(readDatabases);
    expect(databases).toContain('plans.txt');
    for (const secret of [secretOf(link), apiKey]) expect(databases).not.toContain(secret);
    expect(await violations(page)).toEqual([]);

    await page.getByRole('button', { name: 'Change plans.txt' }).click();
    await page.locator('#changing[open]').waitFor();
    expect(await violations(page)).toEqual([]);
    await page.locator('#changing-opens').fill('9');
    await page.locator('#changing-expires').selectOption({ label: 'in 14 days' });
    await page.getByRole('button', { name: 'Change it' }).click();
    await page.locator('#key[open]').waitFor();
    expect(await violations(page)).toEqual([]);
    await enter(page, 'sp_wrong');
    await page.locator('#key-error:not([hidden])').waitFor();
    await enter(page, apiKey);
    await expect.poll(() => rows(page).first().innerText()).toContain('Opens 8 more times, until ');
    const { shares } = await connection.shares();
    expect(shares).toMatchObject([{ opens: 9, opensLeft: 8 }]);
    expect(Math.round((Date.parse(itemOf(shares, 0).expiresAt) - Date.now()) / 86_400_000)).toBe(14);

    await takeBack(page);
    await expect.poll(() => rows(page).first().innerText()).toContain('This link was taken back. Seen at ');
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
    expect(await page.evaluate(readDatabases)).not.toContain(apiKey);
    await page.evaluate(leaveTraces);
    await page.locator('#forget').click();
    await page.locator('#confirming-yes').click();
    await expect.poll(() => rows(page).count()).toBe(0);
    expect(await page.evaluate(readStorage)).toEqual({ ...nothing, files: ['sealpin-received'] });
    expect(await page.evaluate(readPrivateFiles)).toEqual({});
  });

  inCi('says of a link only what was seen: ended, no longer known, or nothing', async () => {
    const { page, link } = await sent();
    await keep(page);
    await page.getByRole('button', { name: 'Send something else' }).click();
    const second = await send(page, ['a.txt', 'b.txt', 'c.txt', 'd.txt']);
    await keep(page);
    await page.route('**/v1/shares/*', (route) => route.fulfill({ status: 200, body: '<p>hotel</p>' }));
    await list(page);
    await expect
      .poll(() => rows(page).allInnerTexts())
      .toEqual([
        expect.stringMatching(
          /^a\.txt, b\.txt, c\.txt and 1 more[^]*The service could not be asked what became of it\.$/,
        ),
        expect.stringMatching(/^plans\.txt[^]*The service could not be asked what became of it\.$/),
      ]);
    await page.unroute('**/v1/shares/*');
    const id = itemOf(second.split('#1'), 1).slice(0, 22);
    await page.route(`**/v1/shares/${id}`, (route) =>
      route.fulfill({ status: 404, json: { code: 'not_found' }, contentType: 'application/problem+json' }),
    );
    for (let times = 0; times < 5; times += 1) await receive(link);
    await page.reload();
    await expect
      .poll(() => rows(page).allInnerTexts())
      .toEqual([
        expect.stringContaining('The service does not know this link any more. Seen at '),
        expect.stringContaining('This link is used up. Seen at '),
      ]);
    await rows(page).first().getByRole('button', { name: 'Remove from this list' }).click();
    await expect.poll(() => rows(page).count()).toBe(1);
    await page.reload();
    await expect.poll(() => rows(page).count()).toBe(1);
  });

  inCi('is offered no more days and opens than the service allows', async () => {
    const { page } = await sent();
    await keep(page);
    const expects = async (shares: object, offered: { last: string; opens: string }): Promise<void> => {
      await page.route('**/v1/health?live', (route) => route.fulfill({ json: { shares } }));
      await list(page);
      const seen = async (): Promise<typeof offered> => {
        await page.getByRole('button', { name: 'Change plans.txt' }).click();
        const days = await page.locator('#changing-expires option:not([hidden])').allTextContents();
        const opens = await page.locator('#changing-opens').getAttribute('max');
        await page.locator('#changing-no').click();
        return { last: days.at(-1) ?? '', opens: opens ?? '' };
      };
      await expect.poll(seen).toEqual(offered);
    };
    await expects({ maxDays: 3, maxOpens: 9 }, { last: 'in 1 day', opens: '9' });
    // What the link has from before stays.
    await expects({ maxDays: 30, maxOpens: 1 }, { last: 'in 14 days', opens: '5' });
  });

  inCi('that is changed is not kept again, and is changed where the browser keeps nothing any more', async () => {
    const { page, apiKey, connection } = await sent();
    await keep(page);
    const change = async (opens: string): Promise<void> => {
      await page.locator('#changing-opens').fill(opens);
      await page.getByRole('button', { name: 'Change it' }).click();
    };
    /** Forgets all in another tab. */
    const forget = async (): Promise<void> => {
      const other = await page.context().newPage();
      await list(other);
      await other.locator('#forget').click();
      await other.locator('#confirming-yes').click();
      await expect.poll(() => rows(other).count()).toBe(0);
      await other.close();
    };
    const database = await page.evaluate(readDatabases);
    await page.locator('#change').click();
    await change('6');
    await expect.poll(() => page.evaluate(readDatabases)).toBe(database.replace('"opens":5', '"opens":6'));
    await forget();
    await page.locator('#change').click();
    await change('7');
    await page.getByText(/^Opens 7 times, until /).waitFor();
    expect(await page.evaluate(readStorage)).toEqual(nothing);

    await page.locator('#keep-link').uncheck();
    await keep(page);
    await list(page);
    await page.getByRole('button', { name: 'Change plans.txt' }).click();
    await change('8');
    await enter(page, apiKey);
    await rows(page).first().getByText('Opens 8 more times').waitFor();
    // What is entered next begins with the number that holds now.
    await page.getByRole('button', { name: 'Change plans.txt' }).click();
    expect(await page.locator('#changing-opens').inputValue()).toBe('8');
    await page.evaluate(() => {
      IDBFactory.prototype.open = () => {
        throw new DOMException('full', 'QuotaExceededError');
      };
    });
    await change('9');
    await rows(page).first().getByText('Opens 9 more times').waitFor();
    await expect.poll(() => page.getByRole('status').first().innerText()).toBe('plans.txt: changed.');
    expect(await page.locator('#kept-error').isVisible()).toBe(false);
    await page.reload();
    await forget();
    expect((await connection.shares()).shares).toMatchObject([{ opens: 9 }]);
  });

  inCi('waits as long as the service says where it has asked for too many, and then has them all', async () => {
    const { page } = await sent();
    await keep(page);
    await page.getByRole('button', { name: 'Send something else' }).click();
    await send(page, ['a.txt']);
    await keep(page);
    const asked: string[] = [];
    await page.route('**/v1/shares/*', async (route) => {
      const url = route.request().url();
      const isSecond = asked.push(url) > 1 && asked.filter((each) => each === url).length === 1;
      const headers = { 'Retry-After': '1', 'Content-Type': 'application/problem+json' };
      await (isSecond ? route.fulfill({ status: 429, headers, json: { code: 'rate_limited' } }) : route.continue());
    });
    await list(page);
    await expect
      .poll(() => rows(page).allInnerTexts())
      .toEqual([expect.stringContaining('Opens 5 more times'), expect.stringContaining('Opens 5 more times')]);
    expect(new Set(asked).size).toBe(2);
    expect(asked).toHaveLength(3);
  });

  inCi('asks for another key where one does not do, and says of no link that opens that it has ended', async () => {
    const { page, apiKey, link, connection } = await sent();
    await keep(page);
    await list(page);
    const { link: guest, key } = await connection.invitation.create({ label: 'Ann' });
    const refused = async (text: string) => {
      await page.locator('#key[open] #key-error', { hasText: text }).waitFor();
      await expect(receive(link)).resolves.toBeDefined();
    };
    const other = 'This link still opens, but does not belong to this key.';
    await page.getByRole('button', { name: 'Change plans.txt' }).click();
    await page.locator('#changing-opens').fill('30');
    await page.getByRole('button', { name: 'Change it' }).click();
    await enter(page, (await receiver.service.account()).apiKey);
    await refused(other);
    await enter(page, await readingKey(apiKey));
    await refused('This API key may not do that.');
    await enter(page, apiKey);
    await expect.poll(() => rows(page).first().innerText()).toContain('Opens 28 more times, until ');

    await page.reload();
    await takeBack(page);
    await page.locator('#key-keep').check();
    await enter(page, guest);
    await refused(other);
    await connection.invitation.revoke(key.id);
    await page.reload();
    await takeBack(page);
    await refused('This key does not belong to this service, or it has ended.');
    await enter(page, apiKey);
    await expect.poll(() => rows(page).first().innerText()).toContain('This link was taken back');
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
  });

  inCi('keeps a key only after a tick of its own, and forgets it with the rest', async () => {
    const host = connect({ service: receiver.root, apiKey: (await receiver.service.account()).apiKey });
    const invitation = (await host.invitation.create({ label: 'Ann' })).link;
    const { page } = await open(invitation);
    await shows(page, 'compose');
    await send(page);
    await keep(page);
    await page.getByRole('button', { name: 'Change' }).click();
    await page.locator('#changing-opens').fill('9');
    await page.getByRole('button', { name: 'Change it' }).click();
    await expect.poll(() => page.evaluate(readDatabases)).toContain('"opens":9');
    await page.getByRole('button', { name: 'Send something else' }).click();
    await page.getByRole('button', { name: 'Your links' }).click();
    await shows(page, 'links');
    await expect.poll(() => page.locator('#made-links > li').first().innerText()).toMatch(/^plans\.txt, /);
    await list(page);
    await expect.poll(() => rows(page).allInnerTexts()).toEqual([expect.stringContaining('Opens 9 more times')]);
    await takeBack(page);
    await page.locator('#key-keep').check();
    await page.locator('#key-field').fill(invitation.replace('#', '%23'));
    await page.keyboard.press('Enter');
    await expect.poll(() => rows(page).first().innerText()).toContain('This link was taken back');
    expect((await host.list()).files).toEqual([]);
    await page.reload();
    await page.locator('#kept-key:not([hidden])').waitFor();
    expect(await page.evaluate(readDatabases)).toContain(itemOf(invitation.split('#'), 1));
    await page.locator('#forget').click();
    await page.locator('#confirming-yes').click();
    await expect.poll(() => page.evaluate(readStorage)).toEqual(nothing);
    expect(await page.locator('#kept-key').isVisible()).toBe(false);
  });

  const paths = documents.flatMap((each) => [...each.paths]);
  test.each(ci ? paths : ['s', 'links', 'send'])(
    'what pages left behind goes when /%s is loaded, and the link of the tab ten minutes after it was opened',
    async (path) => {
      const { page } = await open(receiver.root + path);
      await page.clock.install();
      await page.evaluate(leaveTraces);
      await page.goto('about:blank');
      await page.goto(receiver.root + path);
      await expect.poll(() => page.evaluate(readPrivateFiles)).toEqual({});
      const links = (): Promise<number> => page.evaluate(() => sessionStorage.length);
      await page.clock.fastForward(590_000);
      expect(await links()).toBe(1);
      await page.clock.fastForward(10_000);
      await expect.poll(links).toBe(0);
    },
  );
});
