/** What a page shows after an action: nothing of before it, in sight, with the focus near it. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import { generateKeys } from '../../../client/index.ts';
import { ci } from '../../../testkit/long-run.ts';
import { itemOf } from '../../../testkit/present.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { copiedLink, Receiver } from '../receiver.ts';

const file = (name: string, size = 9) => ({ name, mimeType: 'text/plain', buffer: Buffer.alloc(size) });
const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();
const focused = (page: Page): Promise<string> => page.evaluate(() => document.activeElement?.id ?? '');

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  async function open(address: string): Promise<Page> {
    const { page, close } = await receiver.open(address);
    onTestFinished(close);
    return page;
  }

  async function sender(): Promise<Page> {
    const page = await open(`${receiver.root}send`);
    await page.locator('#api-key').fill(receiver.apiKey);
    await page.keyboard.press('Enter');
    await shows(page, 'compose');
    return page;
  }

  async function sent(page: Page, names: readonly string[]): Promise<string> {
    await page.locator('#choose').setInputFiles(names.map((name) => file(name)));
    await page.locator('#compose-button').click();
    return copiedLink(page);
  }

  /** Begins to send what the service never answers, and cancels it. */
  async function cancelled(page: Page, count: number): Promise<void> {
    await page.locator('#choose').setInputFiles(Array.from({ length: count }, (_, index) => file(`${index}.txt`)));
    let requests = 0;
    await page.context().route('**/v1/storage/plain?*', (route) => {
      requests += 1;
      return requests < count ? route.continue() : undefined;
    });
    await page.locator('#compose-button').click();
    await expect.poll(() => requests).toBe(count);
    await page.locator('#sending-cancel').click();
    await page.locator('#compose-error', { hasText: 'Cancelled. Nobody can open what had been sent.' }).waitFor();
  }

  const actions: [string, () => Promise<void>][] = [
    [
      'a wrong password has opened the link',
      async () => {
        const page = await open(await receiver.share([{ name: 'a', bytes: new Uint8Array(9) }], { password: 'pw' }));
        await page.getByText('can still be opened 5 times').waitFor();
        await page.locator('#password').fill('wrong');
        await page.keyboard.press('Enter');
        await page.locator('#open-error:not([hidden])').waitFor();
        expect(await page.locator('#asked-text').innerText()).toMatch(/^If this tab opened the link/);
      },
    ],
    [
      'a delivery that is cancelled has taken of what the inbox takes',
      async () => {
        const { recipient } = await generateKeys();
        const { link } = await receiver.connection.inbox.create({ label: 'a', recipient, limits: { files: 9 } });
        const page = await open(link);
        await shows(page, 'compose');
        expect(await page.locator('#chosen-total').innerText()).toMatch(/^Room for 8 more files/);
        await cancelled(page, 2);
        await page.locator('#chosen-total', { hasText: 'Room for 7 more files' }).waitFor();
      },
    ],
    [
      'a refusal stands in sight of a long form, until what it is about is taken out',
      async () => {
        const page = await sender();
        await cancelled(page, 30);
        const inSight = (id: string): Promise<boolean> =>
          page.locator(id).evaluate((element) => {
            const { top, bottom } = element.getBoundingClientRect();
            return top >= 0 && bottom <= innerHeight;
          });
        expect(await inSight('#compose-error')).toBe(true);
        expect(await focused(page)).toBe('compose-button');
        await page.locator('#remove-29').click();
        expect(await page.locator('#compose-error').isVisible()).toBe(false);
        expect(await focused(page)).toBe('remove-28');
      },
    ],
    [
      'a link that has ended promises nothing, and what was read out is that of its own section',
      async () => {
        const page = await sender();
        const link = await sent(page, ['a.txt']);
        expect(await page.getByRole('status').last().innerText()).toBe('');
        await page.locator('#keep-link').focus();
        await page.keyboard.press('Space');
        await page.getByText('This browser keeps it now.').first().waitFor();
        await expect.poll(() => focused(page)).toBe('keep-link');
        await receiver.revoke(link);
        await page.locator('#change').click();
        await page.getByRole('button', { name: 'Change it' }).click();
        await page.locator('#sent-error', { hasText: 'This link has ended' }).waitFor();
        expect(await page.locator('#sent-terms').isVisible()).toBe(false);
      },
    ],
    [
      'files that are saved into a folder leave the focus on its button',
      async () => {
        const bytes = new Uint8Array(9);
        const page = await open(
          await receiver.share([
            { name: 'a', bytes },
            { name: 'b', bytes },
          ]),
        );
        await page.locator('#open-button').click();
        await shows(page, 'opened');
        await page.locator('#to-folder').press('Enter');
        await page.locator('#files [data-state=done]').nth(1).waitFor();
        await expect.poll(() => focused(page)).toBe('to-folder');
      },
    ],
    [
      'a kept link that is taken back by keyboard leaves the focus in its row',
      async () => {
        const page = await sender();
        const names = ['תקציב (1).pdf', 'b.txt'];
        const id = itemOf((await sent(page, names)).split('#1'), 1).slice(0, 22);
        await page.locator('#keep-link').check();
        await page.getByText('This browser keeps it now.').first().waitFor();
        await page.goto(`${receiver.root}links`);
        const take = page.locator('#kept-links .take');
        await take.waitFor();
        await take.focus();
        // No name turns what is around it.
        expect(await page.locator('#kept-links bdi').innerText()).toBe('\u2068תקציב (1).pdf\u2069, b.txt');
        await page.keyboard.press('Enter');
        await page.locator('#confirming-yes').press('Enter');
        await page.locator('#key-field').fill('sp_wrong');
        await page.keyboard.press('Enter');
        await page.getByRole('alert').getByText('This key does not belong to this service').waitFor();
        await page.locator('#key-field').fill(receiver.apiKey);
        await page.keyboard.press('Enter');
        await expect.poll(() => focused(page)).toBe(`forget-${id}`);
        await page.keyboard.press('Enter');
        await expect.poll(() => focused(page)).toBe('kept-title');
      },
    ],
  ];
  test.each(ci ? actions : actions.slice(0, 1))('%s', (_, act) => act());
});
