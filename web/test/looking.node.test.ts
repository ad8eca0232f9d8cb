/**
 * What people do with a page beside saving files one by one: all at once, a look, a text without a
 * file, a folder, an inbox; in Chromium, to the real service.
 */
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import { connect, generateKeys, handOver, receive } from '../../client/index.ts';
import { parseLinkOf } from '../../shared/link/index.ts';
import { sealedParcelType } from '../../shared/link/index.ts';
import { inCi } from '../../testkit/long-run.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { first, present } from '../../testkit/present.ts';
import { nothing, readStorage } from './in-page.ts';
import { png, wav } from './sender.ts';
import { downloaded, Receiver, violations, type OpenOptions, type Watched } from './receiver.ts';

const utf8 = (value: string) => new TextEncoder().encode(value);
/** Runs in a page: not every browser asks before it lets a page write. */
function refuseClipboard(): void {
  navigator.clipboard.writeText = () => Promise.reject(new DOMException('refused', 'NotAllowedError'));
}

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  /** Opens a page; whatever it complained about fails the test. */
  async function open(address: string, o: OpenOptions = {}): Promise<Watched> {
    const watched = await receiver.open(address, { without: ['picker'], ...o });
    onTestFinished(async () => {
      await watched.close();
      expect(watched.complaints).toEqual([]);
    });
    return watched;
  }

  const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();

  async function opened(sent: readonly { name: string; bytes: Uint8Array<ArrayBuffer> }[], o: OpenOptions = {}) {
    const watched = await open(await receiver.share(sent), o);
    await watched.page.getByRole('button', { name: 'Open', exact: true }).click();
    await shows(watched.page, 'opened');
    return watched;
  }

  inCi('all files are saved as one archive, and with it the link is done', async () => {
    const sent = [
      { name: 'a.txt', bytes: utf8('first') },
      { name: 'A.txt', bytes: utf8('second') },
      { name: 'film.mkv', bytes: new Uint8Array(40_000_000).map((_, index) => index % 251) },
    ];
    const { page } = await opened(sent);
    const { name, bytes } = present(await downloaded(page, 'Save all All 3 files, as one ZIP'));
    expect(name).toBe('files.zip');
    const path = join(await temporaryDirectory(), name);
    await writeFile(path, bytes);
    const script = [
      'import hashlib, json, sys, zipfile',
      'z = zipfile.ZipFile(sys.argv[1])',
      'print(json.dumps([[i.filename, hashlib.sha256(z.read(i)).hexdigest()] for i in z.infolist()]))',
    ].join('\n');
    const digest = async (each: Uint8Array<ArrayBuffer>): Promise<string> =>
      Buffer.from(await crypto.subtle.digest('SHA-256', each)).toString('hex');
    expect(JSON.parse(execFileSync('python3', ['-c', script, path], { encoding: 'utf8' }))).toEqual(
      await Promise.all(
        ['a.txt', 'A (2).txt', 'film.mkv'].map(async (each, index) => [each, await digest(present(sent[index]).bytes)]),
      ),
    );
    expect(await page.evaluate(readStorage)).toEqual(nothing);
  });

  inCi('an archive with a file that is not there is no download, and the others can still be saved', async () => {
    const gone = await receiver.store({ name: 'gone.bin', bytes: utf8('gone') });
    const here = await receiver.store({ name: 'here.bin', bytes: utf8('here') });
    const { page } = await open(await receiver.shareParcel({ files: [here, { ...gone, size: 5 }] }));
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await page.locator('#together .save').click();
    await page.locator('#together [data-state=failed]').waitFor();
    expect(present(await downloaded(page, 'Save here.bin')).bytes.toString()).toBe('here');
  });

  inCi('images, sounds and texts are shown, and what is not what it is called is not', async () => {
    const { page, complaints } = await opened([
      { name: 'dot.png', bytes: png },
      { name: 'tone.wav', bytes: wav() },
      { name: 'note.md', bytes: utf8('# Hello\n<img src=x onerror=alert(1)>') },
      { name: 'page.png', bytes: utf8('<!doctype html><script>alert(1)</script>') },
      { name: 'fake.wav', bytes: png },
      { name: 'raw.txt', bytes: new Uint8Array([65, 0, 66]) },
      { name: 'drawing.svg', bytes: utf8('<svg xmlns="http://www.w3.org/2000/svg"/>') },
      { name: 'page.html', bytes: utf8('<p>') },
      // A browser would draw it, whatever it is called.
      { name: 'fake.jpg', bytes: png },
    ]);
    const look = async (index: number): Promise<string> => {
      const row = page.locator('#files > li').nth(index);
      await row.getByRole('button', { name: /^Show/ }).click();
      await row.locator('.preview :not(p.state:text("Opening …"))').first().waitFor();
      await expect.poll(() => row.locator('.preview').innerText()).not.toContain('Opening');
      expect(await row.getAttribute('data-state')).toBeNull();
      return row.locator('.preview > :first-child').evaluate((each) => each.tagName);
    };
    expect(await look(0)).toBe('IMG');
    expect(await page.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth)).toBe(1);
    expect(await look(1)).toBe('AUDIO');
    const player = page.locator('audio');
    await expect.poll(() => player.evaluate((each: HTMLAudioElement) => each.duration)).toBeCloseTo(1, 2);
    // It plays to its end, and goes back: each jump asks for another range.
    await player.evaluate(async (each: HTMLAudioElement) => {
      each.muted = true;
      each.currentTime = 0.9;
      await each.play();
      await new Promise((resolve) => each.addEventListener('ended', resolve, { once: true }));
      each.currentTime = 0.1;
      await new Promise((resolve) => each.addEventListener('seeked', resolve, { once: true }));
    });
    expect(await look(2)).toBe('PRE');
    expect(await page.locator('pre').innerText()).toContain('<img src=x onerror');
    for (const index of [3, 4, 5, 8]) {
      expect(await look(index)).toBe('P');
      expect(await page.locator('#files > li').nth(index).innerText()).toContain('This cannot be shown here');
    }
    for (const index of [6, 7])
      expect(await page.locator('#files > li').nth(index).getByRole('button', { name: /^Show/ }).count()).toBe(0);
    expect(await violations(page)).toEqual([]);
    await page.locator('#files > li').nth(0).getByRole('button', { name: /^Hide/ }).click();
    expect(await page.locator('img').count()).toBe(0);
    // Nothing stays of what answered the player.
    expect(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length)).toBe(0);
    expect(complaints).toEqual([]);
  });

  test('a text is sent without a file from the first page, and its receiver reads and copies it', async () => {
    const { apiKey } = await receiver.service.account();
    const { page } = await open(receiver.root);
    await shows(page, 'compose');
    await page.getByLabel('Message').fill('The code of the door is 4711.');
    await page.locator('#opens').evaluate((select: HTMLSelectElement) => (select.value = '1'));
    await page.getByRole('button', { name: 'Encrypt and send' }).click();
    await shows(page, 'signing');
    await page.getByRole('button', { name: 'Back' }).click();
    await page.getByRole('button', { name: 'Encrypt and send' }).click();
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    await shows(page, 'sent');
    expect(await page.title()).toBe('Your link is ready – Sealpin');
    const link = await page.locator('#sent-link').inputValue();
    const selected = (from: Page): Promise<string> => from.evaluate(() => String(getSelection()));
    await page.evaluate(refuseClipboard);
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.locator('.error', { hasText: 'Copy it with the keyboard.' }).waitFor();
    expect(await selected(page)).toBe(link);
    const reader = await open(link, { permissions: ['clipboard-read', 'clipboard-write'] });
    await reader.page.getByRole('button', { name: 'Open', exact: true }).click();
    await reader.page.getByRole('heading', { name: 'A message for you' }).waitFor();
    await reader.page.locator('pre', { hasText: 'The code of the door is 4711.' }).waitFor();
    await reader.page.getByRole('button', { name: 'Copy' }).click();
    expect(await reader.page.evaluate(() => navigator.clipboard.readText())).toBe('The code of the door is 4711.');
    await reader.page.evaluate(refuseClipboard);
    await reader.page.getByRole('button', { name: 'Hide' }).click();
    await reader.page.getByRole('button', { name: 'Show' }).click();
    await reader.page.getByRole('button', { name: 'Copy' }).click();
    await reader.page.getByRole('button', { name: 'Copy it with the keyboard.' }).waitFor();
    expect(await selected(reader.page)).toBe('The code of the door is 4711.');
    expect(await violations(reader.page)).toEqual([]);
  });

  inCi('a message that is too long beside a file says how long it may be', async () => {
    const { page } = await open(receiver.root);
    await page.locator('#choose').setInputFiles([{ name: 'a', mimeType: 'text/plain', buffer: Buffer.from('a') }]);
    await page.getByLabel('Message').fill('ä'.repeat(2049));
    await page.getByRole('button', { name: 'Encrypt and send' }).click();
    expect(await page.locator('#compose-error').innerText()).toContain('4098 bytes, and may have 4096');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('note');
  });

  inCi('a folder that is dropped anywhere is shown where it goes, and arrives as an archive', async () => {
    const { apiKey } = await receiver.service.account();
    const { page } = await open(`${receiver.root}send`);
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    await shows(page, 'compose');
    const drag = (type: string): Promise<void> =>
      page.evaluate((type) => {
        // What a browser makes of a folder cannot be made by a script.
        const file = (name: string, content: string) => ({
          name,
          isDirectory: false,
          file: (done: (file: File) => void) => done(new File([content], name)),
        });
        type Fails = (error: Error) => void;
        const broken = (name: string) => ({
          ...file(name, ''),
          file: (_: unknown, fails: Fails) => fails(new Error()),
        });
        // One that ends in a failure, after its entries.
        const folder = (name: string, entries: object[], fails?: Error) => ({
          name,
          isDirectory: true,
          createReader: () => ({
            readEntries: (done: (batch: object[]) => void, failed: Fails) =>
              entries.length === 0 && fails !== undefined ? failed(fails) : done(entries.splice(0, 1)),
          }),
        });
        const item = (entry: object, own: File | null = null) => ({
          kind: 'file',
          webkitGetAsEntry: () => entry,
          getAsFile: () => own,
        });
        const sea = folder('sea', [file('b.txt', 'two'), file('CON', 'three')], new Error());
        const items = [
          item(folder('trip', [broken('lost'), file('a.txt', 'one'), sea])),
          item(folder('nothing', [])),
          item(folder('closed', [], new Error())),
          item(file('c.txt', ''), new File(['four'], 'c.txt')),
        ];
        const event = new DragEvent(type, { bubbles: true, cancelable: true });
        Object.defineProperty(event, 'dataTransfer', { value: { types: ['Files'], items, files: [] } });
        document.body.dispatchEvent(event);
      }, type);
    await drag('dragenter');
    expect(await page.locator('#overlay').isVisible()).toBe(true);
    await drag('drop');
    await page.getByText('a folder with 3 files, as a ZIP').waitFor();
    const left = 'Left out, empty or not readable: ';
    const paths = (await page.locator('#compose-error').innerText()).slice(left.length).split(', ');
    expect(new Set(paths)).toEqual(new Set(['trip/lost', 'trip/sea', 'nothing', 'closed']));
    expect(await page.locator('#status').innerText()).toMatch(/^2 files chosen\. Left out, /);
    await page.getByRole('button', { name: 'Remove c.txt' }).click();
    expect(await page.locator('#overlay').isVisible()).toBe(false);
    await page.locator('#compose-button').click();
    await shows(page, 'sent');
    const { files } = await receive(await page.locator('#sent-link').inputValue());
    expect(files).toMatchObject([{ name: 'trip.zip', type: 'application/zip' }]);
    const path = join(await temporaryDirectory(), 'trip.zip');
    await writeFile(path, await (await first(files).open()).bytes());
    const script =
      'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print([(n, z.read(n)) for n in z.namelist()])';
    expect(execFileSync('python3', ['-c', script, path], { encoding: 'utf8' }).trim()).toBe(
      "[('trip/a.txt', b'one'), ('trip/sea/b.txt', b'two'), ('trip/sea/_CON', b'three')]",
    );
  });

  inCi('a folder is chosen without a pointer, where the browser can, and goes as an archive', async () => {
    const folder = join(await temporaryDirectory(), 'trip');
    await mkdir(join(folder, 'sea'), { recursive: true });
    for (const name of ['a.txt', 'sea/b.txt']) await writeFile(join(folder, name), name);
    const { page } = await open(receiver.root);
    await page.locator('#choose').focus();
    await page.keyboard.press('Tab');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('choose-folder');
    await page.locator('#choose-folder').setInputFiles(folder);
    await page.getByText('a folder with 2 files, as a ZIP').waitFor();
    expect(await page.locator('#chosen bdi').allInnerTexts()).toEqual(['trip.zip']);
    expect(await violations(page)).toEqual([]);
    await page.addInitScript(() => Reflect.deleteProperty(HTMLInputElement.prototype, 'webkitdirectory'));
    await page.reload();
    await page.getByText('Choose files').waitFor();
    expect(await page.getByText('Choose a folder').isVisible()).toBe(false);
  });

  inCi('the screen stays on while a file is saved, also once the page was hidden', async () => {
    const { page } = await opened([{ name: 'a', bytes: utf8('x') }]);
    await page.context().route('**/ipfs/**', () => undefined);
    await page.evaluate(() => {
      const state = Object.assign(globalThis, { locks: 0 });
      const request = (): Promise<object> =>
        Promise.resolve({ release: () => (state.locks -= 1), was: (state.locks += 1) });
      Object.defineProperty(navigator, 'wakeLock', { value: { request } });
    });
    const locks = (): Promise<number> => page.evaluate(() => (globalThis as unknown as { locks: number }).locks);
    await page.getByRole('button', { name: 'Save a' }).click();
    await expect.poll(locks).toBe(1);
    // The browser ends a lock when it hides a page.
    await page.evaluate(() => {
      Object.assign(globalThis, { locks: 0 });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    expect(await locks()).toBe(1);
    await page.getByRole('button', { name: 'Cancel a' }).click();
    await expect.poll(locks).toBe(0);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    expect(await locks()).toBe(0);
  });

  inCi(
    'an inbox shows what came before much that does not open, also after refusals, some of it at a time',
    async () => {
      const { apiKey } = await receiver.service.account();
      const owner = connect({ service: receiver.root, apiKey });
      const { recipient, privateKey } = await generateKeys();
      const { link } = await owner.inbox.create({ label: 'office', recipient });
      await handOver(link, [new File(['x'], 'x')], { from: 'Ann' });
      const stranger = connect({ service: receiver.root, apiKey: parseLinkOf(link, 'inbox').link.apiKey });
      for (let count = 0; count < 15; count += 1)
        await stranger.put(`junk ${count}`, { mode: 'plain', type: sealedParcelType });

      const { page, requests } = await open(`${receiver.root}inbox`);
      const refuse = (address: string, status: number, code: string) =>
        page
          .context()
          .route(
            address,
            (route) =>
              route.fulfill({ status, headers: { 'Retry-After': '1' }, json: { type: '', title: '', status, code } }),
            { times: 1 },
          );
      await page.locator('#api-key').fill(apiKey);
      await page.keyboard.press('Enter');
      await shows(page, 'reading');
      await refuse('**/v1/storage?*', 503, 'overloaded');
      await refuse('**/content', 429, 'rate_limited');
      await page
        .locator('#private-key')
        .setInputFiles({ name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(privateKey) });
      await page.locator('#deliveries-error:not([hidden])').waitFor();
      expect(await page.locator('#deliveries-text').innerText()).toBe('');
      const rows = page.locator('#delivery-list li');
      const more = page.getByRole('button', { name: 'Show more' });
      await more.click();
      await expect.poll(() => rows.count()).toBe(10);
      await more.click();
      await expect.poll(() => rows.last().innerText()).toMatch(/^Ann/);
      expect(await rows.count()).toBe(16);
      const read = requests.filter((each) => /\/content |\/ipfs\//.test(each));
      expect(read).toHaveLength(17);
      expect(read.filter((each) => !each.includes(apiKey))).toEqual([]);
    },
  );

  inCi('an inbox says what it takes, and is read with a private key that stays in the page', async () => {
    const { apiKey } = await receiver.service.account();
    const owner = connect({ service: receiver.root, apiKey });
    const { recipient, privateKey } = await generateKeys();
    const { link } = await owner.inbox.create({ label: 'office', recipient, limits: { files: 9, bytes: 1e6 } });
    const giver = await open(link);
    await shows(giver.page, 'compose');
    expect(await giver.page.locator('#chosen-total').innerText()).toMatch(
      /^Room for 8 more files, 1\sMB altogether, until \d+\s/,
    );
    await handOver(link, [new File(['canary of a receipt'], 'receipt.txt')], { from: 'Ann', note: 'As agreed' });
    const stranger = await owner.inbox.create({ label: 'other', recipient: (await generateKeys()).recipient });
    await handOver(stranger.link, [new File(['x'], 'x')], { from: 'Eve' });
    // Anyone with the link can store what is no delivery.
    const { apiKey: theirs } = parseLinkOf(link, 'inbox').link;
    const noDelivery = { mode: 'plain', type: sealedParcelType } as const;
    await connect({ service: receiver.root, apiKey: theirs }).put('age-encryption.org/v1\n-> X\n', noDelivery);
    const { fileId } = await connect({ service: receiver.root, apiKey: theirs }).put('gone', noDelivery);

    const { page, requests } = await open(`${receiver.root}inbox`);
    await page
      .context()
      .route(`**/v1/storage/${fileId}/content`, (route) =>
        route.fulfill({ status: 404, json: { type: '', title: '', status: 404, code: 'not_found' } }),
      );
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    await shows(page, 'reading');
    expect(await violations(page)).toEqual([]);
    const choose = (text: string): Promise<void> =>
      page
        .locator('#private-key')
        .setInputFiles({ name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(text) });
    await choose('no key at all');
    await page.locator('.error', { hasText: 'This is not a private key' }).waitFor();
    await choose(privateKey);
    await shows(page, 'deliveries');
    const rows = page.locator('#delivery-list li');
    await expect
      .poll(async () => (await rows.allInnerTexts()).map((each) => each.split('\n')[0]))
      .toEqual(['It is not stored any more', 'This cannot be opened', 'Encrypted for another key', 'Ann']);
    expect(await rows.nth(3).innerText()).toMatch(/^Ann\n+.* · 1 file · 19\sbytes/);
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Open Ann' }).click();
    await shows(page, 'opened');
    expect(await page.locator('#note').innerText()).toBe('As agreed');
    expect(present(await downloaded(page, 'Save receipt.txt')).bytes.toString()).toBe('canary of a receipt');
    await page.getByRole('button', { name: 'What people sent you' }).click();
    await shows(page, 'deliveries');
    const secret = privateKey.split('\n').find((line) => /^[A-Za-z0-9+/=-]{20,}$/.test(line)) ?? privateKey;
    for (const canary of ['canary', secret.trim()]) expect(requests.join('\n')).not.toContain(canary);
    expect(await page.evaluate(readStorage)).toEqual(nothing);
  });
});
