/**
 * The pages in WebKitGTK, which has no storage for files: small ones come from memory, others
 * through the service worker.
 */
import { generateKeys } from '../../client/index.ts';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { equal } from '../../testkit/assertions.ts';
import { withBrowser } from '../../testkit/browsers/browsers.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { launchWebKit, type WebKit } from '../../testkit/browsers/webkit.ts';
import { Sender } from './sender.ts';
import { first } from '../../testkit/present.ts';
import { long } from '../../testkit/long-run.ts';

withBrowser('WebKitGTK', () => {
  let sender: Sender;
  let webkit: WebKit;
  beforeAll(async () => {
    if (long) [sender, webkit] = await Promise.all([Sender.start(), launchWebKit()]);
  });
  afterAll(() => webkit?.close());

  const isShown = (page: Awaited<ReturnType<WebKit['open']>>, state: string) =>
    expect.poll(() => page.evaluate(`document.getElementById('${state}').hidden`)).toBe(false);

  test.runIf(long)('WebKitGTK: what /drop hands over is opened by the owner of the inbox', async () => {
    const { recipient, privateKey } = await generateKeys();
    const { link } = await sender.connection.inbox.create({ label: 'Tax office Meier', recipient });
    const path = join(await temporaryDirectory(), 'letter.txt');
    await writeFile(path, 'from WebKitGTK');
    const page = await webkit.open(link);
    await isShown(page, 'compose');
    await page.setFiles('#choose', [path]);
    await page.click('#compose-button');
    await isShown(page, 'handed');
    const { deliveries } = await sender.connection.inbox.list();
    const { files } = await sender.connection.inbox.open(first(deliveries).id, { keys: privateKey });
    expect(first(files).name).toBe('letter.txt');
    expect(await (await first(files).open()).text()).toBe('from WebKitGTK');
  });

  test.runIf(long)('WebKitGTK: a share arrives, every file under its name', async () => {
    const sent = [
      { name: 'Übersicht.txt', bytes: new TextEncoder().encode('hello') },
      { name: 'film.mkv', bytes: new Uint8Array(34 * 1024 * 1024).map((_, index) => index * 31 + (index >> 10)) },
    ];
    const link = await sender.share(sent);
    const page = await webkit.open(link);
    const shows = (state: string) => isShown(page, state);
    await shows('asked');
    expect(await page.evaluate('location.href')).toBe(`${sender.root}s`);
    await page.click('#open-button');
    await shows('opened');
    for (const [index, { name, bytes }] of sent.entries()) {
      await page.click(`#save-${index}`);
      const state = (): Promise<string> =>
        page.evaluate(`document.querySelectorAll('#files > li')[${index}].dataset.state`);
      await expect.poll(state, { timeout: 50_000 }).toBe('done');
      const path = join(webkit.downloads, name);
      await expect.poll(async () => (await stat(path).catch(() => undefined))?.size).toBe(bytes.length);
      equal(new Uint8Array(await readFile(path)), bytes);
    }
    await page.click('#save-2');
    await expect
      .poll(() => page.evaluate("document.querySelector('#together > li').dataset.state"), { timeout: 50_000 })
      .toBe('done');
    const zip = join(webkit.downloads, 'files.zip');
    await expect.poll(async () => (await stat(zip).catch(() => undefined))?.size ?? 0).toBeGreaterThan(34_000_000);
    expect((await readFile(zip)).subarray(-22).readUInt16LE(10)).toBe(2);
    await rm(zip);
    await page.click('#look-0');
    await expect.poll(() => page.evaluate("document.querySelector('pre')?.textContent")).toBe('hello');
    expect((await readdir(webkit.downloads)).filter((name) => !name.startsWith('.')).sort()).toEqual(
      sent.map(({ name }) => name).sort(),
    );
  });
});
