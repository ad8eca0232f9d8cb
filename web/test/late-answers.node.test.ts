/** Tests of what comes late in a page: it concerns what it was asked for, and nothing shown since. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import { connect, generateKeys, handOver } from '../../client/index.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { Receiver, type OpenOptions, type Watched } from './receiver.ts';

/** Runs in a page: the texts of the files that it has saved. */
async function savedTexts(): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const folder = (await navigator.storage.getDirectory()) as unknown as AsyncIterable<[string, FileSystemFileHandle]>;
  for await (const [name, handle] of folder) found[name] = await (await handle.getFile()).text();
  return found;
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

  /** Holds requests up until it is told to let them pass. */
  async function held(page: Page, address: string | RegExp) {
    const { promise, resolve } = Promise.withResolvers<void>();
    await page.context().route(address, (route) => promise.then(() => route.continue()));
    return {
      asked: page.context().waitForEvent('request', (request) => !!request.url().match(address)),
      pass: resolve,
    };
  }

  test.each(['into a folder', 'by a dialog'])(
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
});
