/** Tests of how saving ends in Chromium, by each way to the disk: only whole files are complete. */
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import { equal } from '../../testkit/assertions.ts';
import { faultyProxy, type ProxyFault } from '../../testkit/faulty-proxy.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import type { ParcelFile } from '../../shared/link/index.ts';
import { readPrivateFiles, touch, type Ability } from './in-page.ts';
import { downloaded, Receiver, type OpenOptions, type Watched } from './receiver.ts';
import { present } from '../../testkit/present.ts';
import { ci, inCi, long } from '../../testkit/long-run.ts';

/** Too large for memory, so that it takes the other ways. */
const bytes = new Uint8Array(33 * 1024 * 1024);
for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));

const ways: Record<'picked' | 'memory' | 'disk' | 'stream', readonly Ability[]> = {
  picked: [],
  memory: ['picker', 'disk', 'service worker'],
  disk: ['picker', 'service worker'],
  stream: ['picker'],
};

/** Texts of a row for a file that the browser has taken, and for one that it was only given. */
const inDownloads = 'Complete. It is in your downloads.';
const handedOver = 'Complete and checked. Your browser is saving it now.';

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  let large: ParcelFile;
  let small: ParcelFile;
  beforeAll(async () => {
    receiver = await Receiver.start();
    large = await receiver.store({ name: 'film.mkv', bytes });
    small = await receiver.store({ name: 'small.bin', bytes: bytes.slice(0, 3_000_000) });
  });

  /**
   * Opens a share in the page.
   * @param root another address of the service, such as that of a proxy
   */
  async function opened(files: ParcelFile | ParcelFile[], o: OpenOptions, root = receiver.root): Promise<Watched> {
    const link = await receiver.shareParcel({ files: [files].flat() });
    const watched = await receiver.open(link.replace(receiver.root, root), o);
    onTestFinished(() => watched.close());
    await watched.page.getByRole('button', { name: 'Open' }).click();
    await watched.page.locator('#opened:not([hidden])').waitFor();
    return watched;
  }

  const proxied = async (fault: (count: number, path: string) => ProxyFault | undefined): Promise<string> => {
    let count = 0;
    const { url } = await faultyProxy(
      () => receiver.service.url,
      ({ path }) => (path.startsWith('/ipfs/') ? fault((count += 1), path) : undefined),
    );
    return `${url}/`;
  };

  const privateFiles = (page: Page): Promise<Record<string, number>> => page.evaluate(readPrivateFiles);
  /** Waits for the first bytes of a file that is saved. */
  const hasBegun = async (page: Page): Promise<void> => {
    const progress = (): Promise<number> => page.evaluate(() => document.querySelector('progress')?.value ?? 0);
    await expect.poll(progress).toBeGreaterThan(0);
  };
  const failed = ({ page }: Watched): Promise<void> => page.locator('[data-state=failed]').waitFor();
  const nothingIsComplete = async ({ page }: Watched): Promise<void> => {
    expect(await page.getByText(/complete\b/i).count()).toBe(0);
  };

  test.runIf(long)('a picked file has all bytes', async () => {
    const { page } = await opened(large, { without: ways.picked });
    await page.getByRole('button', { name: 'Save film.mkv' }).click();
    await page.getByText('Saved and complete.', { exact: true }).waitFor();
    expect(await privateFiles(page)).toEqual({ 'picked film.mkv': bytes.length });
  });

  test.runIf(long).each(['disk', 'stream', 'memory'] as const)('%s: the download has all bytes', async (way) => {
    const watched = await opened(large, { without: ways[way] });
    const file = await downloaded(watched.page, 'Save film.mkv');
    equal(new Uint8Array(present(file).bytes), bytes);
    expect(present(file).name).toBe('film.mkv');
    await watched.page.getByText(way === 'stream' ? inDownloads : handedOver, { exact: true }).waitFor();
    expect(watched.requests.some((each) => each.includes('film'))).toBe(false);
    expect(watched.requests.some((each) => each.includes('/dl/'))).toBe(way === 'stream');
    expect(watched.complaints).toEqual([]);
  });

  test.runIf(long)('sizes around a part and 300 MB arrive as they were sent', async () => {
    const mebibyte = 1024 * 1024;
    for (const size of [16 * mebibyte - 1, 16 * mebibyte, 16 * mebibyte + 1, 300_000_000]) {
      const sent = new Uint8Array(size);
      for (let at = 0; at < size; at += bytes.length) sent.set(bytes.subarray(0, size - at), at);
      const { page } = await opened(await receiver.store({ name: 'a', bytes: sent }), { without: ways.stream });
      equal(new Uint8Array(present(await downloaded(page, 'Save a')).bytes), sent);
    }
  });

  test.runIf(long)('a file that this thread left behind is removed when the next page loads', async () => {
    const { page } = await opened(large, { without: ways.disk });
    await downloaded(page, 'Save film.mkv');
    expect(Object.values(await privateFiles(page))).toEqual([bytes.length]);
    await page.goto(receiver.root);
    await expect.poll(() => privateFiles(page)).toEqual({});
  });

  inCi('a download is whole although its service worker hears of it late and its connection breaks', async () => {
    const root = await proxied((count) => (count < 4 ? { kind: 'cut', afterBytes: 6_000_000 } : undefined));
    const { page } = await opened(large, { without: ways.stream }, root);
    await page.evaluate(() => {
      const post = ServiceWorker.prototype.postMessage as (...message: unknown[]) => void;
      ServiceWorker.prototype.postMessage = function (this: ServiceWorker, ...message: unknown[]) {
        setTimeout(() => post.apply(this, message), 500);
      } as typeof ServiceWorker.prototype.postMessage;
    });
    equal(new Uint8Array(present(await downloaded(page, 'Save film.mkv')).bytes), bytes);
    await expect.poll(() => page.locator('iframe').count()).toBe(0);
    await page.getByText(inDownloads, { exact: true }).waitFor();
    // This way comes before the private files, and uses none.
    expect(await privateFiles(page)).toEqual({});
  });

  inCi('a copy in the private files is told, and the page asks to stay as long as it is there', async () => {
    const { page } = await opened(large, { without: ways.disk });
    await downloaded(page, 'Save film.mkv');
    await page.getByText(/^Keep this page open a little longer \(2 minutes\)/).waitFor();
    expect(Object.values(await privateFiles(page))).toEqual([bytes.length]);
    const asked = page.waitForEvent('dialog');
    await page.evaluate(() => void setTimeout(() => location.reload()));
    expect((await asked).type()).toBe('beforeunload');
    await (await asked).dismiss();
  });

  /** Responses that stand between people and a service when something is wrong. */
  const instead = [
    { status: 502, body: 'Bad gateway' },
    { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<h1>Please sign in to this network</h1>' },
  ];

  inCi('an error of what is in front of the service, or its page, does not end a download', async () => {
    const root = await proxied((count) => {
      const answer = instead[count - 2];
      if (count === 1) return { kind: 'cut', afterBytes: 1_000_000 };
      return answer === undefined ? undefined : { kind: 'answer', ...answer };
    });
    const { page } = await opened(small, { without: ways.memory }, root);
    equal(new Uint8Array(present(await downloaded(page, 'Save small.bin')).bytes), bytes.subarray(0, 3_000_000));
  });

  test.each(long ? (['picked', 'memory', 'disk', 'stream'] as const) : (['stream'] as const))(
    '%s: a failure that lasts holds saving up, and trying again resumes where it stopped',
    async (way) => {
      let state: 'well' | 'down' | 'back' = 'well';
      /** Positions at which the requests for most of the file begin. */
      const starts: number[] = [];
      const root = await proxied((_, path) => {
        if (state === 'down') return { kind: 'answer', status: 503, headers: { 'Retry-After': '0' } };
        const start = /entity-bytes=(\d+)%3A34636\d{3}$/.exec(path)?.[1];
        if (start === undefined || Number(start) > 30_000_000) return undefined;
        starts.push(Number(start));
        if (state === 'back') return undefined;
        state = 'down';
        return { kind: 'cut', afterBytes: 6_000_000 };
      });
      const { page } = await opened(large, { without: ways[way] }, root);
      const download = way === 'picked' ? undefined : page.waitForEvent('download');
      await page.getByRole('button', { name: 'Save film.mkv' }).click();
      await page.locator('[data-state=stalled]', { hasText: 'Saving then continues where it stopped.' }).waitFor();
      expect(await page.getByRole('button', { name: 'Cancel film.mkv' }).isVisible()).toBe(true);
      state = 'back';
      await page.getByRole('button', { name: 'Try again film.mkv' }).click();
      if (download === undefined) await page.getByText('Saved and complete.', { exact: true }).waitFor();
      else equal(new Uint8Array(await readFile(await (await download).path())), bytes);
      expect(starts).toEqual([0, expect.any(Number)]);
      expect(starts[1]).toBeGreaterThan(1_000_000);
    },
  );

  inCi.each(long ? (['memory', 'disk', 'stream'] as const) : (['stream'] as const))(
    '%s: saving that is cancelled leaves no file, while it runs and while it waits',
    async (way) => {
      for (const fault of [
        { kind: 'stall', afterBytes: 8_000_000 },
        { kind: 'answer', status: 503, headers: { 'Retry-After': '0' } },
      ] as const) {
        const root = await proxied((count) => (count > 3 || fault.kind === 'answer' ? fault : undefined));
        const watched = await opened(large, { without: ways[way] }, root);
        const { page } = watched;
        let isDownloaded = false;
        page.on('download', (download) => void download.failure().then((failure) => (isDownloaded = failure === null)));
        await page.getByRole('button', { name: 'Save film.mkv' }).click();
        if (fault.kind === 'stall') await hasBegun(page);
        else await page.locator('[data-state=stalled]').waitFor();
        await page.getByRole('button', { name: 'Cancel film.mkv' }).click();
        await page.getByText('Cancelled. Nothing was kept.', { exact: true }).waitFor();
        expect(await privateFiles(page)).toEqual({});
        expect(await page.locator('iframe').count()).toBe(0);
        expect(isDownloaded).toBe(false);
        expect(await page.getByRole('button', { name: 'Save film.mkv' }).isVisible()).toBe(true);
      }
    },
  );

  inCi('a page that goes away tells its service worker, which fails the download at once', async () => {
    const root = await proxied((count) => (count > 3 ? { kind: 'stall', afterBytes: 8_000_000 } : undefined));
    const { page } = await opened(large, { without: ways.stream }, root);
    await page.evaluate(() => {
      const post = ServiceWorker.prototype.postMessage as (...message: unknown[]) => void;
      ServiceWorker.prototype.postMessage = function (this: ServiceWorker, ...message: unknown[]) {
        sessionStorage.setItem('told', (message[0] as { kind: string }).kind);
        post.apply(this, message);
      } as typeof ServiceWorker.prototype.postMessage;
    });
    await page.getByRole('button', { name: 'Save film.mkv' }).click();
    await hasBegun(page);
    page.on('dialog', (dialog) => void dialog.accept());
    await page.reload();
    expect(await page.evaluate(() => sessionStorage.getItem('told'))).toBe('gone');
  });

  inCi('the browser is asked to keep no copy of what is fetched', async () => {
    const { url, passed } = await faultyProxy(
      () => receiver.service.url,
      () => undefined,
    );
    const { page } = await opened(small, { without: ways.memory }, `${url}/`);
    await downloaded(page, 'Save small.bin');
    const fetched = passed.filter(({ path }) => path.startsWith('/ipfs/'));
    expect(fetched.map(({ headers }) => headers['cache-control'])).toEqual(fetched.map(() => 'no-cache'));
    expect(fetched.length).toBeGreaterThan(0);
  });

  test.each(long ? (['picked', 'disk', 'stream'] as const) : (['stream'] as const))(
    '%s: a gateway that lies in the middle leaves no file',
    async (way) => {
      // Of the leaf in which it lies it is asked for the block alone, too.
      const root = await proxied((_, path) => ({
        kind: 'flip',
        atByte: path.includes('format=raw') ? 100 : 3_000_000,
      }));
      const watched = await opened(large, { without: ways[way] }, root);
      const { page } = watched;
      await page.getByRole('button', { name: 'Save film.mkv' }).click();
      await failed(watched);
      await nothingIsComplete(watched);
      expect(await privateFiles(page)).toEqual({});
    },
  );

  test('a stored file that is damaged is refused, although its blob ID is right', async () => {
    const stored = await receiver.connection.put('sealpin/v1 detached\nnot what was sent', { mode: 'plain' });
    const watched = await opened({ ...small, cid: stored.cid }, { without: ways.memory });
    await watched.page.getByRole('button', { name: 'Save small.bin' }).click();
    await failed(watched);
    await nothingIsComplete(watched);
  });

  inCi('saving that is cancelled leaves nothing, and can begin again', async () => {
    let isOpen = false;
    const root = await proxied(() => (isOpen ? undefined : { kind: 'stall', afterBytes: 2_000_000 }));
    const watched = await opened(small, { without: ways.picked }, root);
    await watched.page.getByRole('button', { name: 'Save small.bin' }).click();
    await watched.page.getByRole('button', { name: 'Cancel small.bin' }).click();
    await watched.page.getByText('Cancelled. Nothing was kept.', { exact: true }).waitFor();
    expect(await privateFiles(watched.page)).toEqual({});
    isOpen = true;
    await watched.page.getByRole('button', { name: 'Save small.bin' }).click();
    await watched.page.getByText('Saved and complete.', { exact: true }).waitFor();
  });

  inCi('a dialog is shown after a click on its file alone, and closing it is no failure', async () => {
    const { page } = await opened([small, { ...small, name: 'other.bin' }], {});
    await page.evaluate(() => {
      const errors = [new DOMException('closed', 'AbortError'), new DOMException('not allowed', 'SecurityError')];
      const showSaveFilePicker = async (): Promise<never> => {
        throw errors.shift() ?? new Error('it was asked too often');
      };
      Object.assign(globalThis, { showSaveFilePicker });
    });
    const first = page.locator('[data-state]').first();
    const state = (): Promise<string | null> => first.getAttribute('data-state');
    await page.getByRole('button', { name: 'Save small.bin' }).click();
    await expect.poll(async () => [await state(), await first.locator('.state').isVisible()]).toEqual(['idle', false]);
    await page.getByRole('button', { name: 'Save small.bin' }).click();
    await expect.poll(state).toBe('failed');
  });

  async function saveIntoFolder(page: Page): Promise<void> {
    const all = page.getByRole('button', { name: 'Save into a folder' });
    await all.click();
    await expect.poll(() => all.isEnabled()).toBe(true);
  }

  inCi('a file that is being saved is not saved a second time into a folder, and none there is replaced', async () => {
    const held = Promise.withResolvers<undefined>();
    const { url } = await faultyProxy(
      () => receiver.service.url,
      ({ path }) => (path.startsWith('/ipfs/') ? held.promise : undefined),
    );
    const files = [small, { ...small, name: 'other.bin' }];
    const { page } = await opened(files, { without: ways.memory }, `${url}/`);
    const downloads: string[] = [];
    page.on('download', (download) => downloads.push(download.suggestedFilename()));
    await page.getByRole('button', { name: 'Save small.bin' }).click();
    await page.evaluate(touch, 'Other.bin');
    setTimeout(() => held.resolve(undefined), 500);
    await saveIntoFolder(page);
    expect(downloads).toEqual(['small.bin']);
    expect(await privateFiles(page)).toEqual({ 'Other.bin': 0, 'other (2).bin': small.size });
  });

  inCi('a folder gets the next file where one must wait, and that one at the next click', async () => {
    const other = await receiver.store({ name: 'other.bin', bytes: bytes.slice(0, 1000) });
    let isBack = false;
    const root = await proxied((_, path) =>
      isBack || !path.includes(small.cid)
        ? undefined
        : { kind: 'answer', status: 429, headers: { 'Retry-After': '0' } },
    );
    const { page } = await opened([small, other], { without: ways.memory }, root);
    const states = (): Promise<(string | null)[]> =>
      page.locator('#files > li').evaluateAll((all) => all.map((each) => each.getAttribute('data-state')));
    await saveIntoFolder(page);
    expect(await states()).toEqual(['stalled', 'done']);
    isBack = true;
    await saveIntoFolder(page);
    expect(await states()).toEqual(['done', 'done']);
  });

  inCi('a file goes to the disk if twice its size is free, and one that does not fit is not begun', async () => {
    const size = 300_000_000;
    const begun: boolean[] = [];
    for (const quota of [2 * size + 99, 2 * size + 100]) {
      const watched = await opened({ ...small, size }, { without: ways.memory });
      await watched.page.evaluate((quota) => {
        navigator.storage.estimate = async () => ({ quota, usage: 100 });
      }, quota);
      await watched.page.getByRole('button', { name: 'Save small.bin' }).click();
      await failed(watched);
      const text = await watched.page.locator('[data-state=failed] .state').innerText();
      // Where it begins, it fails because the parcel lies about the size.
      begun.push(!text.includes('no room for a file of this size'));
    }
    expect(begun).toEqual([false, true]);
  });

  const gone = ['without its service worker', ...(ci ? ['reloaded'] : []), ...(long ? ['left for another page'] : [])];
  test.each(gone)('a download whose page is %s fails', async (what) => {
    const root = await proxied((count) => (count > 3 ? { kind: 'stall', afterBytes: 8_000_000 } : undefined));
    const { page } = await opened(large, { without: ways.stream }, root);
    // It asks for its service worker every 10 s.
    if (what === 'without its service worker') await page.clock.install();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save film.mkv' }).click(),
    ]);
    await hasBegun(page);
    page.on('dialog', (dialog) => void dialog.accept());
    if (what === 'reloaded') await page.reload();
    else if (what === 'left for another page') await page.goto(`${root}v1/health`);
    else {
      const session = await page.context().newCDPSession(page);
      await session.send('ServiceWorker.enable');
      await session.send('ServiceWorker.stopAllWorkers');
      await page.clock.fastForward(10_000);
    }
    expect(await download.failure()).not.toBeNull();
    if (what === 'without its service worker') await page.locator('[data-state=failed]').waitFor();
  });

  test.runIf(long).each(['picked', 'disk', 'stream'] as const)(
    '%s: a page that crashes leaves no file, and the next one nothing in its storage',
    async (way) => {
      const root = await proxied((count) => (count > 3 ? { kind: 'stall', afterBytes: 8_000_000 } : undefined));
      const watched = await opened(large, { without: ways[way] }, root);
      const { page } = watched;
      const download = way === 'stream' ? page.waitForEvent('download') : undefined;
      await page.getByRole('button', { name: 'Save film.mkv' }).click();
      await hasBegun(page);
      const crashed = page.waitForEvent('crash');
      await page.goto('chrome://crash').catch(() => undefined);
      await crashed;
      if (download !== undefined) expect(await (await download).failure()).not.toBeNull();
      const next = await page.context().newPage();
      await next.goto(root);
      // The picker makes the file that the page then fills in one step.
      await expect.poll(() => privateFiles(next)).toEqual(way === 'picked' ? { 'picked film.mkv': 0 } : {});
    },
  );
});
