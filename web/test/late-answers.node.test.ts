/** Tests of late answers: one concerns what was asked, and nothing that is shown since. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page, Route } from 'playwright-core';
import { connect, generateKeys, handOver, receive } from '../../client/index.ts';
import { ci, inCi } from '../../testkit/long-run.ts';
import { itemOf } from '../../testkit/present.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { copiedLink, Receiver, type OpenOptions, type Watched } from './receiver.ts';

/** Runs in a page: the texts of the files that it has saved. */
async function savedTexts(): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const folder = (await navigator.storage.getDirectory()) as unknown as AsyncIterable<[string, FileSystemFileHandle]>;
  for await (const [name, handle] of folder) found[name] = await (await handle.getFile()).text();
  return found;
}

/** Runs in a page: how many links its browser keeps. */
function countKept(): Promise<number> {
  return new Promise((resolve) => {
    const opening = indexedDB.open('sealpin-links');
    opening.addEventListener('success', () => {
      const counting = opening.result.transaction('link').objectStore('link').count();
      counting.addEventListener('success', () => {
        opening.result.close();
        resolve(counting.result);
      });
    });
  });
}

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  async function open(address: string, o: OpenOptions = {}): Promise<Watched> {
    const watched = await receiver.open(address, o);
    onTestFinished(watched.close);
    return watched;
  }

  const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();

  /** Holds the next request to an address up until it may pass, or is refused with a status. */
  async function held(page: Page, address: RegExp, status?: number) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const answer = async (route: Route): Promise<void> => {
      await promise;
      await (status === undefined ? route.continue() : route.fulfill({ status }));
    };
    await page.context().route(address, answer, { times: 1 });
    return {
      asked: page.context().waitForEvent('request', (request) => !!request.url().match(address)),
      pass: resolve,
    };
  }

  test.each(ci ? ['into a folder', 'by a dialog'] : ['into a folder'])(
    'a delivery that is saved %s has its own bytes, or none, also once another one is opened',
    async (way) => {
      const { apiKey } = await receiver.service.account();
      const owner = connect({ service: receiver.root, apiKey });
      const { recipient, privateKey } = await generateKeys();
      const { link } = await owner.inbox.create({ label: 'office', recipient });
      for (const from of ['Ann', 'Bob'])
        await handOver(
          link,
          [1, 2, 3].map((index) => new File([`${from} ${index}`], `${from}${index}`)),
          { from },
        );
      const { page } = await open(`${receiver.root}inbox`);
      await page.locator('#api-key').fill(apiKey);
      await page.keyboard.press('Enter');
      await shows(page, 'reading');
      await page
        .locator('#private-key')
        .setInputFiles({ name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(privateKey) });
      await page.getByRole('button', { name: 'Open Ann' }).click();
      await shows(page, 'opened');
      const { asked, pass } = await held(page, /\/ipfs\//);
      await page.evaluate(() => {
        const { promise, resolve } = Promise.withResolvers<void>();
        const folder = navigator.storage.getDirectory();
        const pick = (o: { suggestedName: string }) =>
          promise.then(async () => (await folder).getFileHandle(o.suggestedName, { create: true }));
        Object.assign(globalThis, { showSaveFilePicker: pick, pickNow: resolve });
      });
      if (way === 'into a folder') {
        await page.locator('#to-folder').click();
        await asked;
      } else {
        await page.getByRole('button', { name: 'Save Ann2' }).click();
      }
      await page.getByRole('button', { name: 'What people sent you' }).click();
      await page.getByRole('button', { name: 'Open Bob' }).click();
      await page.getByRole('button', { name: 'Save Bob1' }).waitFor();
      await page.evaluate(() => (globalThis as unknown as { pickNow(): void }).pickNow());
      pass();
      const before: Record<string, string> = way === 'into a folder' ? { Ann1: 'Ann 1' } : { Ann2: '' };
      await expect.poll(() => page.evaluate(savedTexts)).toMatchObject(before);
      await page.locator('#to-folder').click();
      await expect.poll(() => page.locator('#files [data-state=done]').count()).toBe(3);
      expect(await page.evaluate(savedTexts)).toEqual({ ...before, Bob1: 'Bob 1', Bob2: 'Bob 2', Bob3: 'Bob 3' });
    },
  );

  /** Sends a file by the form that is shown. */
  async function send(page: Page, name: string): Promise<string> {
    await page.locator('#choose').setInputFiles([{ name, mimeType: 'text/plain', buffer: Buffer.from(name) }]);
    await page.locator('#compose-button').click();
    return copiedLink(page);
  }

  const endings = ['taken back', 'not taken back', 'changed', 'not changed'] as const;
  inCi.each(endings)(
    'an answer that a link is %s leaves the next one, and a form that is filled in, as they are',
    async (ending) => {
      const { page } = await open(`${receiver.root}send`);
      await page.locator('#api-key').fill((await receiver.service.account()).apiKey);
      await page.keyboard.press('Enter');
      await shows(page, 'compose');
      for (const next of ['compose', 'sent']) {
        const first = await send(page, 'first');
        const isRefused = ending.startsWith('not');
        const address = new RegExp(`/v1/shares/${itemOf(first.split('#1'), 1).slice(0, 22)}$`);
        const { asked, pass } = await held(page, address, isRefused ? 500 : undefined);
        if (ending.endsWith('changed')) {
          await page.locator('#change').click();
          await page.locator('#changing-opens').fill('77');
          await page.getByRole('button', { name: 'Change it' }).click();
        } else {
          await page.locator('#take-back').click();
        }
        await asked;
        await page.locator('#sent-more').click();
        await shows(page, 'compose');
        const second = next === 'sent' ? await send(page, 'second') : '';
        pass();
        await expect.poll(() => page.locator('#status').innerText()).toMatch(/^first: /);
        await shows(page, next);
        if (next === 'compose') continue;
        expect(await page.locator('#sent-link').inputValue()).toBe(second);
        expect(await page.locator('#sent-terms').innerText()).toMatch(/^Opens 5 times, /);
        expect(await page.locator('#sent-error').isVisible()).toBe(false);
        await page.locator('#take-back').click();
        await page.getByText('The files are deleted.').waitFor();
        await expect(receive(second)).rejects.toMatchObject({ code: 'gone' });
      }
    },
  );

  inCi('a tick that is taken away late is that of its own link', async () => {
    const { page } = await open(`${receiver.root}send`);
    await page.locator('#api-key').fill((await receiver.service.account()).apiKey);
    await page.keyboard.press('Enter');
    await shows(page, 'compose');
    const tick = page.locator('#keep-link');
    const said = page.locator('#keep-said:not([hidden])');
    await send(page, 'first');
    await tick.check();
    await said.waitFor();
    await page.evaluate(() => {
      const { databases } = IDBFactory.prototype;
      const { promise, resolve } = Promise.withResolvers<void>();
      IDBFactory.prototype.databases = async function () {
        await promise;
        return databases.call(this);
      };
      Object.assign(globalThis, { lookNow: resolve });
    });
    await tick.uncheck();
    await page.locator('#sent-more').click();
    await send(page, 'second');
    await tick.check();
    await said.waitFor();
    await page.evaluate(() => (globalThis as unknown as { lookNow(): void }).lookNow());
    await expect.poll(() => page.evaluate(countKept)).toBe(1);
    expect(await tick.isChecked()).toBe(true);
    expect(await said.isVisible()).toBe(true);
  });

  /** An account with its API key, and what its links are. */
  async function account() {
    const { apiKey } = await receiver.service.account();
    const { shares } = connect({ service: receiver.root, apiKey });
    return { apiKey, links: async () => (await shares()).shares.map(({ state }) => state) };
  }

  const enter = async (page: Page, field: string, text: string): Promise<void> => {
    await page.locator(field).fill(text);
    await page.keyboard.press('Enter');
  };

  inCi('nothing is sent by an API key that was still being checked when its form was left', async () => {
    const [late, other] = [await account(), await account()];
    const { page } = await open(receiver.root);
    const { asked, pass } = await held(page, /\/v1\/account$/);
    await page.locator('#note').fill('a message');
    await page.locator('#compose-button').click();
    await enter(page, '#api-key', late.apiKey);
    await asked;
    await page.locator('#sign-in-back').click();
    await shows(page, 'compose');
    await page.locator('#compose-button').click();
    await enter(page, '#api-key', other.apiKey);
    pass();
    await copiedLink(page);
    expect(await late.links()).toEqual([]);
    expect(await other.links()).toEqual(['active']);
  });

  const leavings = ['Back', 'Escape', 'another key'] as const;
  test.each(ci ? leavings : leavings.slice(0, 1))(
    'no link is taken back by an API key that was still being checked before: %s',
    async (leaving) => {
      const [owner, other] = [await account(), await account()];
      const { page } = await open(`${receiver.root}send`);
      await enter(page, '#api-key', owner.apiKey);
      await shows(page, 'compose');
      await send(page, 'first');
      await page.locator('#keep-link').check();
      await page.locator('#keep-said:not([hidden])').waitFor();
      await page.goto(`${receiver.root}links`);
      const take = async (): Promise<void> => {
        await page.locator('#kept-links .take').click();
        await page.locator('#confirming-yes').click();
        await page.locator('#key[open]').waitFor();
      };
      await take();
      const { asked, pass } = await held(page, /\/v1\/account$/);
      await enter(page, '#key-field', owner.apiKey);
      await asked;
      if (leaving === 'Back') await page.locator('#key-no').click();
      if (leaving === 'Escape') await page.keyboard.press('Escape');
      if (leaving === 'another key') {
        const refused = page.getByText('This link still opens, but does not belong to this key.');
        await enter(page, '#key-field', other.apiKey);
        await refused.waitFor();
        pass();
        await enter(page, '#key-field', other.apiKey);
        await page.waitForResponse(/\/v1\/shares\//);
        await refused.waitFor();
      } else {
        pass();
        await take();
      }
      expect(await owner.links()).toEqual(['active']);
    },
  );
});
