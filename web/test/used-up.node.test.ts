/**
 * Tests of what uses something up: that opening does, that nothing else does, and that nobody loses
 * unwarned what was opened once.
 */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Dialog, Page } from 'playwright-core';
import { generateKeys, receive } from '../../client/index.ts';
import { documents } from '../../cli/local/code/web-bundle.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { downloaded, Receiver, type OpenOptions } from './receiver.ts';
import { Sender, type ShareOptions } from './sender.ts';
import { itemOf } from '../../testkit/present.ts';
import { ci, inCi, long } from '../../testkit/long-run.ts';

const bytes = new TextEncoder().encode('opened once');
const files = [
  { name: 'one', bytes },
  { name: 'two', bytes },
];

/** Fetches how often a link still opens. */
async function opensLeft({ root }: { root: string }, link: string): Promise<number> {
  const response = await fetch(`${root}v1/shares/${itemOf(link.split('#1'), 1).slice(0, 22)}`);
  return ((await response.json()) as { opensLeft: number }).opensLeft;
}

test('no request uses a share up but the one that opens it', async () => {
  const sender = await Sender.start();
  const link = await sender.share(files, { opens: 3 });
  const fragment = itemOf(link.split('#'), 1);
  const api = `v1/shares/${fragment.slice(1, 23)}`;
  const paths = documents.flatMap((each) => [...each.paths]);
  const addresses = [...paths, ...paths.map((path) => `${path}%23${fragment}`), api, `${api}/open`];
  const open = (method: string, path: string): boolean => method === 'POST' && path === `${api}/open`;
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'])
    for (const path of addresses)
      if (!open(method, path))
        await fetch(sender.root + path, {
          method,
          headers: { 'Sec-Purpose': 'prefetch;prerender', Purpose: 'prefetch' },
        });
  expect(await opensLeft(sender, link)).toBe(3);
  await fetch(`${sender.root}${api}/open`, { method: 'POST' });
  expect(await opensLeft(sender, link)).toBe(2);
});

/** Ways in which people leave a page, without meaning to lose anything. */
const leaving: Record<string, (page: Page) => Promise<unknown>> = {
  'a reload': (page) => page.evaluate(() => setTimeout(() => location.reload())),
  'the back button': (page) => page.evaluate(() => setTimeout(() => history.back())),
  'a click on the logo': (page) => page.locator('.brand').click({ noWaitAfter: true }),
  'closing the tab': (page) => page.close({ runBeforeUnload: true }),
};

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  const keys = generateKeys();
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  async function visit(address: string, o: OpenOptions = { without: ['picker'] }): Promise<Page> {
    const { page, close } = await receiver.open(address, o);
    onTestFinished(close);
    return page;
  }

  const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();

  /** Checks that the browser asks before a page is left. It is not left. */
  async function asks(page: Page, leave: (page: Page) => Promise<unknown>): Promise<boolean> {
    const asked = page.waitForEvent('dialog').then(async (dialog: Dialog) => {
      await dialog.dismiss();
      return dialog.type() === 'beforeunload';
    });
    await leave(page);
    return await asked;
  }

  /** Checks that a page may be left without a question: it is reloaded. */
  async function isLeft(page: Page): Promise<boolean> {
    page.on('dialog', (dialog) => void dialog.dismiss());
    return await page.reload().then(
      () => true,
      () => false,
    );
  }

  type State = { share?: ShareOptions; shown: string; reach(page: Page): Promise<unknown>; says?: RegExp };
  const open = (page: Page): Promise<void> => page.locator('#open-button').click();
  const usedUp = /now used up\. Save everything before you close or reload this page/;
  const usedUpAsked = /now used up: what was sent can be opened on this page only/;
  const send = async (page: Page): Promise<void> => {
    await page.locator('#api-key').fill(receiver.apiKey);
    await page.keyboard.press('Enter');
    await shows(page, 'compose');
    await page.locator('#choose').setInputFiles([{ name: 'one', mimeType: 'text/plain', buffer: Buffer.from(bytes) }]);
    await page.locator('#compose-button').click();
    await shows(page, 'sent');
  };

  /**
   * States of the page in which something would be lost; without `share` it is the page that sends.
   */
  const lost: Record<string, State> = {
    'files of a link that is used up': {
      share: {},
      shown: 'opened',
      says: usedUp,
      reach: open,
    },
    'the last of its files that is not saved': {
      share: {},
      shown: 'opened',
      says: usedUp,
      async reach(page) {
        await open(page);
        await downloaded(page, 'Save one');
      },
    },
    'a used-up link whose password was wrong': {
      share: { password: 'right' },
      shown: 'asked',
      says: usedUpAsked,
      async reach(page) {
        await page.locator('#password').fill('wrong');
        await open(page);
        await page.locator('#open-error').waitFor();
      },
    },
    'a used-up link that asks for a key': {
      share: { keys: '' },
      shown: 'asked',
      says: usedUpAsked,
      async reach(page) {
        await open(page);
        await page.locator('#key-field:not([hidden])').waitFor();
      },
    },
    'a link that was not copied': { shown: 'sent', says: /it is kept nowhere else/, reach: send },
  };

  describe('the browser asks before', () => {
    const some = Object.entries(lost).slice(0, ci ? undefined : 1);
    test.each(some)('%s would be lost, however the page is left', async (_, state) => {
      const address = async ({ keys: sealed, ...o }: ShareOptions): Promise<string> =>
        receiver.share(files, {
          opens: 1,
          ...o,
          ...(sealed === undefined ? {} : { keys: (await keys).publicKey }),
        });
      // There is a page to go back to.
      const page = await visit(`${receiver.root}v1/health`);
      await page.goto(state.share === undefined ? `${receiver.root}send` : await address(state.share));
      await state.reach(page);
      await shows(page, state.shown);
      expect(await page.locator(`#${state.shown}`).innerText()).toMatch(state.says ?? /./);
      for (const [how, leave] of Object.entries(leaving)) expect(await asks(page, leave), how).toBe(true);
      expect(await page.locator(`#${state.shown}`).isVisible()).toBe(true);
    });
  });

  const kept: Record<string, State> = {
    'a link that opens again': { share: { opens: 2 }, shown: 'opened', reach: open },
    'a link that was looked at': { share: {}, shown: 'asked', reach: async () => undefined },
    'saved files': {
      share: {},
      shown: 'opened',
      async reach(page) {
        await open(page);
        for (const { name } of files) await downloaded(page, `Save ${name}`);
        await expect.poll(() => page.locator('[data-state=done]').count()).toBe(2);
      },
    },
    'a link that was copied': {
      shown: 'sent',
      async reach(page) {
        await send(page);
        // Only the page in front may write to the clipboard, and it takes a moment.
        await page.bringToFront();
        await page.locator('#copy').click();
        await page.locator('#copy', { hasText: 'Copied' }).waitFor();
      },
    },
  };

  inCi('a page that has nothing to lose is left without a question', async () => {
    for (const [what, { share, shown, reach }] of Object.entries(kept)) {
      const address =
        share === undefined ? `${receiver.root}send` : await receiver.share(files, { opens: 1, ...share });
      const page = await visit(address, { without: ['picker'], permissions: ['clipboard-read', 'clipboard-write'] });
      await reach(page);
      await shows(page, shown);
      expect(await isLeft(page), what).toBe(true);
    }
  });

  inCi('another link in the same tab does not take the place of files that would be lost', async () => {
    const [link, other] = [await receiver.share(files, { opens: 1 }), await receiver.share(files)];
    const page = await visit(link);
    await open(page);
    await shows(page, 'opened');
    for (const answer of ['dismiss', 'accept'] as const) {
      expect(await openOther(page, other, answer)).toMatch(/not saved or copied, is lost/);
      await shows(page, answer === 'dismiss' ? 'opened' : 'asked');
      expect(page.url()).toBe(`${receiver.root}s`);
    }
  });

  /** Opens another link in the tab, and answers the question of the page. */
  async function openOther(page: Page, link: string, answer: 'dismiss' | 'accept'): Promise<string> {
    const asked = page.waitForEvent('dialog').then(async (dialog) => {
      await dialog[answer]();
      return dialog.message();
    });
    await page.evaluate((fragment) => void setTimeout(() => (location.hash = fragment)), itemOf(link.split('#'), 1));
    return await asked;
  }

  const others = [
    ['an invitation', 'a link that is not copied'],
    ['an invitation', 'an upload'],
    ['an inbox', 'an upload'],
  ] as const;
  inCi.each(others)('another link of %s in the same tab does not mix with %s', async (kind, what) => {
    const { invitation, inbox } = receiver.connection;
    const make = async (label: string): Promise<string> =>
      kind === 'an inbox'
        ? (
            await inbox.create({
              label,
              recipient: 'age1tag1q0r9t82pdha4dtm3fu2xmytuyj4lsx9jlvfpvpqjjeycfq3s5tf9sphmvua',
            })
          ).link
        : (await invitation.create({ label, limits: { files: label.length } })).link;
    const [link, other] = [await make('one'), await make('another')];
    const page = await visit(link);
    await shows(page, 'compose');
    if (what === 'an upload') await page.route('**/v1/storage/**', () => undefined);
    await page.locator('#choose').setInputFiles([{ name: 'one', mimeType: 'text/plain', buffer: Buffer.from(bytes) }]);
    await page.locator('#compose-button').click();
    const state = what === 'an upload' ? 'sending' : 'sent';
    await shows(page, state);
    expect(await openOther(page, other, 'dismiss')).toMatch(/is lost/);
    await shows(page, state);
    expect(new URL(page.url()).hash).toBe('');
    await openOther(page, other, 'accept');
    await shows(page, 'compose');
    expect(new URL(page.url()).hash).toBe('');
    await page
      .getByText(kind === 'an inbox' ? 'another' : '7 more files')
      .first()
      .waitFor();
    expect(await page.locator('#chosen > li').count()).toBe(0);
  });

  inCi('a form outlives the API key that it was filled in with', async () => {
    const ask = (path: string, method: string, body?: string): Promise<Response> =>
      fetch(`${receiver.root}v1/${path}`, {
        method,
        headers: { Authorization: `Bearer ${receiver.apiKey}`, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      });
    const made = await ask('keys', 'POST', JSON.stringify({ label: 'brief', scopes: ['write', 'share'] }));
    const { apiKey, key } = (await made.json()) as { apiKey: string; key: { id: string } };
    const page = await visit(`${receiver.root}send`);
    const enter = async (text: string): Promise<void> => {
      await page.locator('#api-key').fill(text);
      await page.keyboard.press('Enter');
    };
    await enter(apiKey);
    await shows(page, 'compose');
    await page.locator('#choose').setInputFiles([{ name: 'one', mimeType: 'text/plain', buffer: Buffer.from(bytes) }]);
    await page.locator('#note').fill('written for a while');
    expect((await ask(`keys/${key.id}`, 'DELETE')).status).toBe(200);
    await page.locator('#compose-button').click();
    await page.locator('#sign-in-error', { hasText: 'it has ended' }).waitFor();
    await page.locator('#sign-in-back').click();
    await shows(page, 'compose');
    expect(await page.locator('#note').inputValue()).toBe('written for a while');
    await page.locator('#compose-button').click();
    await shows(page, 'signing');
    expect(await page.locator('#sign-in-error').isVisible()).toBe(false);
    await enter(receiver.apiKey);
    await shows(page, 'sent');
    expect(await receive(await page.locator('#sent-link').inputValue())).toMatchObject({
      note: 'written for a while',
      files: [{ name: 'one' }],
    });
  });

  inCi('a double click opens once', async () => {
    const link = await receiver.share(files, { opens: 3 });
    const page = await visit(link);
    await page.locator('#open-button').dblclick();
    await shows(page, 'opened');
    expect(await opensLeft(receiver, link)).toBe(2);
  });

  inCi('of tabs that open a link at once one has the files, and the others say what became of it', async () => {
    const link = await receiver.share(files, { opens: 1 });
    const pages = await Promise.all(Array.from({ length: long ? 5 : 3 }, () => visit(link)));
    await Promise.all(pages.map((page) => shows(page, 'asked')));
    await Promise.all(pages.map(open));
    await Promise.all(pages.map((page) => page.locator('#opened:not([hidden]), #problem:not([hidden])').waitFor()));
    const titles = await Promise.all(pages.map((page) => page.locator('section:not([hidden]) h1').innerText()));
    expect(titles.toSorted()).toEqual(['2 files for you', ...pages.slice(1).map(() => 'This link is used up')]);
  });

  inCi('a link that ended while its page was open says how', async () => {
    const link = await receiver.share(files);
    const page = await visit(link);
    await shows(page, 'asked');
    await receiver.revoke(link);
    await open(page);
    await page.getByRole('heading', { name: 'This link was taken back' }).waitFor();
  });

  const opensAgain = /opened the link within the last 10 minutes, it opens here again/;

  describe('a page that is reloaded', () => {
    const reloads = [
      ['opens a used-up link again', 1, {}],
      ['opens it again with its password', 1, { password: 'right' }],
      ['opens a link again that has opens left, and counts nothing', 3, {}],
    ] as const;
    test.each(ci ? reloads : reloads.slice(0, 1))('%s', async (_, opens, o) => {
      const link = await receiver.share(files, { opens, ...o });
      const page = await visit(link);
      page.on('dialog', (dialog) => void dialog.accept());
      for (const round of ['first', 'again', 'once more']) {
        await shows(page, 'asked');
        const text = await page.locator('#asked-text').innerText();
        expect(opensAgain.test(text), round).toEqual(round !== 'first');
        if ('password' in o) await page.locator('#password').fill(o.password);
        await open(page);
        await shows(page, 'opened');
        expect(await opensLeft(receiver, link)).toBe(opens - 1);
        if (round !== 'once more') await page.reload();
      }
      // What came from the link itself is the same.
      await page.goto('about:blank');
      await page.goto(link);
      await shows(page, 'asked');
      expect(await page.locator('#asked-text').innerText()).toMatch(opensAgain);
    });

    const ways = ['something else is opened', 'every file is saved', 'it is another tab', 'the service no longer does'];
    inCi.each(ways)('says that its key is missing, or how the link ended, once %s', async (way) => {
      const link = await receiver.share(files, { opens: 1 });
      let page = await visit(link);
      page.on('dialog', (dialog) => void dialog.accept());
      await open(page);
      await shows(page, 'opened');
      if (way === 'every file is saved') {
        for (const { name } of files) await downloaded(page, `Save ${name}`);
        await expect.poll(() => page.locator('[data-state=done]').count()).toBe(2);
        expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
      } else if (way === 'something else is opened') {
        await page.evaluate(() => document.querySelector<HTMLElement>('#start-over')?.click());
      } else if (way === 'it is another tab') {
        page = await visit(link);
        return await page.getByRole('heading', { name: 'This link is used up' }).waitFor();
      } else {
        await receiver.revoke(link);
        await page.reload();
        return await page.getByRole('heading', { name: 'This link was taken back' }).waitFor();
      }
      await page.goto(`${receiver.root}s`);
      await page.getByRole('heading', { name: 'The key is missing' }).waitFor();
    });

    inCi('opens nothing again after ten minutes', async () => {
      const page = await visit(await receiver.share(files, { opens: 1 }));
      page.on('dialog', (dialog) => void dialog.accept());
      await open(page);
      await shows(page, 'opened');
      await page.evaluate(() => {
        const kept = JSON.parse(sessionStorage.getItem('opened') ?? '') as { until: number };
        sessionStorage.setItem('opened', JSON.stringify({ ...kept, until: Date.now() - 1 }));
      });
      await page.reload();
      await page.getByText('If you had opened the files already, that uses the link once more.').waitFor();
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    });
  });
});
