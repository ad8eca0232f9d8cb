/**
 * Every journey as on a small phone: 320 px wide, in the long form with a CPU six times slower, and
 * 2 GiB of memory for the whole browser, in Chromium.
 */
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, onTestFinished } from 'vitest';
import type { Page } from 'playwright-core';
import { connect, generateKeys, handOver } from '../../client/index.ts';
import { equal } from '../../testkit/assertions.ts';
import { inCi, long } from '../../testkit/long-run.ts';
import { present } from '../../testkit/present.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { downloaded, Receiver } from './receiver.ts';

/** In the long form large enough that no way to the disk holds all of it in memory by chance. */
const fileBytes = long ? 300_000_000 : 4_000_000;
const memoryBytes = 2 * 1024 ** 3;
/** Chromium slows a page down by waiting in a loop, 15 s of CPU in the short form. */
const slower = long ? 6 : 1;

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  async function openPhone(address: string): Promise<Page> {
    const { page, close, complaints } = await receiver.open(address, {
      viewport: { width: 320, height: 640 },
      isMobile: true,
      hasTouch: true,
      without: ['picker'],
    });
    const session = await page.context().newCDPSession(page);
    await session.send('Emulation.setCPUThrottlingRate', { rate: slower });
    onTestFinished(async () => {
      await close();
      expect(complaints).toEqual([]);
    });
    return page;
  }

  const shows = async (page: Page, state: string): Promise<void> => {
    await page.locator(`#${state}:not([hidden])`).waitFor({ timeout: 120_000 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
  };

  /** Memory of all processes of the browser, without what they share. */
  async function memory(): Promise<number> {
    const session = await receiver.browser.newBrowserCDPSession();
    const { processInfo } = await session.send('SystemInfo.getProcessInfo');
    await session.detach();
    const sizes = processInfo.map(async ({ id }) => {
      const text = await readFile(`/proc/${id}/smaps_rollup`, 'utf8').catch(() => '');
      return 1024 * Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0);
    });
    return (await Promise.all(sizes)).reduce((sum, each) => sum + each, 0);
  }

  /** The most memory while something runs. */
  async function peakOf(work: () => Promise<void>): Promise<number> {
    let peak = 0;
    const watch = setInterval(() => void memory().then((each) => (peak = Math.max(peak, each))), 500);
    await work().finally(() => clearInterval(watch));
    return Math.max(peak, await memory());
  }

  inCi('sending and receiving, one by one and all at once, stay within the memory', async () => {
    const { apiKey } = await receiver.service.account();
    const bytes = new Uint8Array(fileBytes).map((_, index) => (index * 31 + (index >> 10)) % 251);
    const sender = await openPhone(receiver.root);
    await shows(sender, 'compose');
    // More than 50 MB do not go through the driver, and are made in the page.
    await sender.evaluate((size) => {
      const large = new Uint8Array(size).map((_, index) => (index * 31 + (index >> 10)) % 251);
      const data = new DataTransfer();
      data.items.add(new File([large], 'film.mkv'));
      data.items.add(new File(['small'], 'small.txt'));
      const input = document.querySelector<HTMLInputElement>('#choose');
      if (input !== null) input.files = data.files;
      input?.dispatchEvent(new Event('change'));
    }, fileBytes);
    const sending = await peakOf(async () => {
      await sender.getByRole('button', { name: 'Encrypt and send' }).click();
      await sender.locator('#api-key').fill(apiKey);
      await sender.keyboard.press('Enter');
      await shows(sender, 'sending');
      await shows(sender, 'sent');
    });
    const link = await sender.locator('#sent-link').inputValue();
    await sender.close({ runBeforeUnload: false });

    const reader = await openPhone(link);
    await shows(reader, 'asked');
    await reader.getByRole('button', { name: 'Open', exact: true }).click();
    await shows(reader, 'opened');
    const receiving = await peakOf(async () => {
      equal(new Uint8Array(present(await downloaded(reader, 'Save film.mkv')).bytes), bytes);
      const zip = present(await downloaded(reader, 'Save all Both files, as one ZIP'));
      expect(zip.bytes.length).toBeGreaterThan(fileBytes);
      expect(zip.bytes.includes(Buffer.from('small'))).toBe(true);
      await reader.getByRole('button', { name: 'Show small.txt' }).click();
      await reader.locator('pre').waitFor();
    });
    // oxlint-disable-next-line no-console -- the long form is run for the figures
    if (long) console.log(`peaks in MiB: sending ${sending >> 20}, receiving ${receiving / 2 ** 20}`);
    expect(Math.max(sending, receiving)).toBeLessThan(memoryBytes);
  });

  inCi('giving to an inbox and reading it, a password, and an account', async () => {
    const { apiKey } = await receiver.service.account();
    const owner = connect({ service: receiver.root, apiKey });
    const { recipient, privateKey } = await generateKeys();
    const { link } = await owner.inbox.create({ label: 'A very long name of an inbox, at last', recipient });
    const giver = await openPhone(link);
    await shows(giver, 'compose');
    await giver.getByLabel('Message').fill('Nothing but words');
    await giver.getByRole('button', { name: 'Encrypt and send' }).click();
    await shows(giver, 'handed');
    await handOver(link, [new File(['a'], 'very-long-name'.repeat(9))], { from: 'Ann' });

    const inbox = await openPhone(`${receiver.root}inbox`);
    await inbox.locator('#api-key').fill(apiKey);
    await inbox.keyboard.press('Enter');
    await shows(inbox, 'reading');
    await inbox
      .locator('#private-key')
      .setInputFiles({ name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(privateKey) });
    await inbox.getByRole('button', { name: 'Open From somebody who gave no name' }).click();
    await inbox.locator('pre', { hasText: 'Nothing but words' }).waitFor();
    await shows(inbox, 'opened');

    const secret = await receiver.share([{ name: 'a', bytes: new Uint8Array(5) }], { password: 'pw' });
    const reader = await openPhone(secret);
    await reader.locator('#password').fill('pw');
    await reader.keyboard.press('Enter');
    await shows(reader, 'opened');

    const files = await openPhone(`${receiver.root}files`);
    await files.locator('#api-key').fill(apiKey);
    await files.keyboard.press('Enter');
    await shows(files, 'stored');
  });
});
