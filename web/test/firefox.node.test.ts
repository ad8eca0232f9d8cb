/**
 * The pages in Firefox, which has no save dialog, stops idle service workers, and calls a download
 * complete that was cut off.
 */
import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { connect, generateKeys, receive } from '../../client/index.ts';
import type { ParcelFile } from '../../shared/link/index.ts';
import { equal } from '../../testkit/assertions.ts';
import { faultyProxy, type ProxyFault } from '../../testkit/faulty-proxy.ts';
import { launchFirefox, type Firefox } from '../../testkit/browsers/firefox.ts';
import { withBrowser } from '../../testkit/browsers/browsers.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { downloadsOf, removeDownloads, Visit } from './firefox.ts';
import { nothing, readPrivateFiles, readStorage, type Ability } from './in-page.ts';
import { png, Sender, wav } from './sender.ts';
import { first, itemOf, present } from '../../testkit/present.ts';
import { inCi, long } from '../../testkit/long-run.ts';

const mebibyte = 1024 * 1024;
const patient = { timeout: 20_000 };

/** Too large for memory, so that it takes the other ways. */
const bytes = new Uint8Array(33 * mebibyte);
for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));

const ways: Record<'memory' | 'disk' | 'stream', readonly Ability[]> = {
  memory: ['disk', 'service worker'],
  disk: [],
  stream: ['disk'],
};
const eachWay = Object.keys(ways) as (keyof typeof ways)[];

withBrowser('Firefox', () => {
  let sender: Sender;
  let firefox: Firefox;
  let large: ParcelFile;
  beforeAll(async () => {
    [sender, firefox] = await Promise.all([Sender.start(), launchFirefox({ keepsRequests: true })]);
    if (long) large = await sender.store({ name: 'film.mkv', bytes });
  });
  afterAll(() => firefox.close());

  async function open(address: string, without: readonly Ability[] = [], browser = firefox): Promise<Visit> {
    const visit = await Visit.open(browser, address, without);
    onTestFinished(async () => {
      await removeDownloads(browser);
      await visit.end();
    });
    return visit;
  }

  /**
   * Opens a share of one file in the page.
   * @param root another address of the service, such as that of a proxy
   */
  async function opened(file: ParcelFile, way: keyof typeof ways, root = sender.root, browser = firefox) {
    const link = await sender.shareParcel({ files: [file] });
    const visit = await open(link.replace(sender.root, root), ways[way], browser);
    await visit.openShare();
    return visit;
  }

  const proxied = async (fault: (count: number, path: string) => ProxyFault | undefined): Promise<string> => {
    let count = 0;
    const { url } = await faultyProxy(
      () => sender.service.url,
      ({ path }) => (path.startsWith('/ipfs/') ? fault((count += 1), path) : undefined),
    );
    return `${url}/`;
  };

  const failed = (visit: Visit): Promise<void> => visit.until(`document.querySelector('[data-state=failed]') !== null`);
  async function nothingIsComplete({ page }: Visit): Promise<void> {
    expect(await page.evaluate('document.body.innerText')).not.toMatch(/complete\b/i);
  }

  inCi('a share with a password arrives, every file under its name, and leaves no trace', async () => {
    const text = new TextEncoder().encode('canary of the plaintext');
    const sent = [
      { name: 'canary of the name.txt', bytes: text },
      { name: 'empty', bytes: new Uint8Array() },
      { name: 'one.bin', bytes: bytes.slice(0, 1) },
      { name: '<img src=x onerror=alert(1)>.html', bytes: bytes.slice(0, 9) },
      { name: 'Übersicht "Straße".txt', bytes: bytes.slice(0, 2_500_000) },
    ];
    const password = 'canary of the password';
    const link = await sender.share(sent, { password, note: 'canary of the note', from: 'Anna', opens: 1 });
    const visit = await open(link);
    const { page } = visit;
    await visit.shows('asked');
    for (const attempt of long ? ['wrong', password] : [password]) {
      await visit.fill('#password', attempt);
      await visit.click('#open-button');
      if (attempt === 'wrong') await visit.says('This password does not open it.');
    }
    await visit.shows('opened');
    await visit.says('canary of the note');
    for (const [index, { name, bytes }] of sent.entries()) {
      await visit.click(`#save-${index}`);
      const { name: saved, path } = await page.downloaded();
      expect(saved).toBe(name.replace(/[<>"]/g, '_'));
      equal(new Uint8Array(await readFile(present(path))), bytes);
    }
    await visit.until(`document.querySelectorAll('[data-state=done]').length === ${sent.length}`);
    expect(await page.evaluate('location.href')).toBe(`${sender.root}s`);
    expect(await visit.run(readStorage)).toEqual(nothing);
    expect(page.requests.length).toBeGreaterThan(5);
    // The browser itself knows the address that was opened, and sends none of its fragment.
    const seen = [...page.requests.slice(1), ...sender.service.log];
    const canaries = [
      'canary',
      encodeURIComponent(password),
      encodeURIComponent(first(sent).name),
      link.slice(-49, -6),
    ];
    expect(seen.filter((each) => canaries.some((canary) => each.includes(canary)))).toEqual([]);
    expect(page.requests.filter((each) => !each.includes(` ${sender.root}`))).toEqual([]);
  });

  inCi('a page keeps no link before it is told to, and forgets those that are kept', async () => {
    const { id } = (await sender.connection.share({ fileId: (await sender.connection.put('x', { name: 'x' })).fileId }))
      .share;
    const visit = await open(`${sender.root}links`);
    await visit.says('This browser remembers no links.');
    expect(await visit.run(readStorage)).toEqual(nothing);
    // As the tick beside a new link does it.
    await visit.page.evaluate(`new Promise((resolve, reject) => {
      const request = indexedDB.open('sealpin-links', 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore('link', { keyPath: 'shareId' });
        request.result.createObjectStore('credential');
      };
      request.onsuccess = () => {
        const link = { shareId: '${id}', files: [{ name: 'x', size: 1 }], createdAt: '2030-01-01T00:00:00Z', opens: 5 };
        const { transaction } = request.result.transaction('link', 'readwrite').objectStore('link').put(link);
        transaction.oncomplete = () => { request.result.close(); resolve(); };
        transaction.onabort = reject;
      };
    })`);
    await visit.page.evaluate('void location.reload()');
    await visit.says('Opens 5 more times, until ');
    await visit.click('#forget');
    await visit.click('#confirming-yes');
    await visit.says('This browser remembers no links.');
    expect(await visit.run(readStorage)).toEqual(nothing);
  });

  test.runIf(long)('what /send seals opens elsewhere, and nothing else leaves the page', async () => {
    const { apiKey } = await sender.service.account();
    const directory = await temporaryDirectory();
    const paths = ['canary of the name.txt', 'large.bin'].map((name) => join(directory, name));
    await writeFile(first(paths), 'canary of the plaintext');
    await writeFile(itemOf(paths, 1), bytes);
    const visit = await open(`${sender.root}send`);
    await visit.fill('#api-key', apiKey);
    await visit.click('#signing button');
    await visit.shows('compose');
    await visit.page.setFiles('#choose', paths);
    await visit.click('#compose-button');
    await visit.shows('sent');
    const link = await visit.page.evaluate<string>(`document.querySelector('#sent-link').value`);
    const { files } = await receive(link);
    expect(files.map(({ name }) => name)).toEqual(['canary of the name.txt', 'large.bin']);
    expect(await (await first(files).open()).text()).toBe('canary of the plaintext');
    equal(await (await itemOf(files, 1).open()).bytes(), bytes);
    expect(await visit.run(readStorage)).toEqual(nothing);
    expect(visit.page.requests.join('\n')).not.toContain('canary');
    await visit.click('#take-back');
    await visit.shows('taken');
    expect((await connect({ service: sender.root, apiKey }).list()).files).toEqual([]);
  });

  test.runIf(long)('what /drop hands over is opened by the owner of the inbox', async () => {
    const { recipient, privateKey } = await generateKeys();
    const { link } = await sender.connection.inbox.create({ label: 'Tax office Meier', recipient });
    const path = join(await temporaryDirectory(), 'canary.txt');
    await writeFile(path, 'canary of the plaintext');
    const visit = await open(link);
    await visit.says('Files for “Tax office Meier”');
    await visit.page.setFiles('#choose', [path]);
    await visit.click('#compose-button');
    await visit.says('has arrived, complete.');
    const { deliveries } = await sender.connection.inbox.list();
    const { files } = await sender.connection.inbox.open(first(deliveries).id, { keys: privateKey });
    expect(first(files).name).toBe('canary.txt');
    expect(await (await first(files).open()).text()).toBe('canary of the plaintext');
    expect(visit.page.requests.slice(1).join('\n')).not.toContain('canary');
    expect(await visit.run(readStorage)).toEqual(nothing);
  });

  test.runIf(long).each(eachWay)('%s: the download has all bytes', async (way) => {
    const visit = await opened(large, way);
    await visit.click('#save-0');
    const { name, path } = await visit.page.downloaded();
    expect(name).toBe('film.mkv');
    equal(new Uint8Array(await readFile(present(path))), bytes);
    const handedOver = 'Complete and checked. Your browser is saving it now.';
    await visit.says(way === 'stream' ? 'Complete. It is in your downloads.' : handedOver);
    if (way === 'disk') await visit.says('Keep this page open a little longer');
    const mayClose = "dispatchEvent(new Event('beforeunload', { cancelable: true }))";
    expect(await visit.page.evaluate(mayClose)).toBe(way !== 'disk');
    expect(visit.page.requests.some((each) => each.includes('/dl/'))).toBe(way === 'stream');
    expect(visit.page.requests.join('\n')).not.toContain('film');
    await visit.page.goto(sender.root);
    await expect.poll(() => visit.run(readPrivateFiles), patient).toEqual({});
  });

  test.runIf(long)('sizes around a part and 300 MB arrive as they were sent, by either way', async () => {
    for (const size of [16 * mebibyte - 1, 16 * mebibyte, 16 * mebibyte + 1, 300_000_000]) {
      const sent = new Uint8Array(size);
      for (let at = 0; at < size; at += bytes.length) sent.set(bytes.subarray(0, size - at), at);
      const file = await sender.store({ name: `${size} bytes`, bytes: sent });
      for (const way of ['disk', 'stream'] as const) {
        const visit = await opened(file, way);
        await visit.click('#save-0');
        const { path } = await visit.page.downloaded();
        equal(new Uint8Array(await readFile(present(path))), sent);
        await removeDownloads(firefox);
      }
    }
  });

  test.runIf(long).each(eachWay)('%s: a connection that breaks is continued where it stopped', async (way) => {
    const root = await proxied((count) => (count < 3 ? { kind: 'cut', afterBytes: 6_000_000 } : undefined));
    const visit = await opened(large, way, root);
    await visit.click('#save-0');
    const { path } = await visit.page.downloaded();
    equal(new Uint8Array(await readFile(present(path))), bytes);
  });

  test.runIf(long).each(eachWay)('%s: a failure that lasts holds saving up, until it is tried again', async (way) => {
    let state: 'well' | 'down' | 'back' = 'well';
    const root = await proxied((_, path) => {
      if (state === 'down') return { kind: 'answer', status: 503, headers: { 'Retry-After': '0' } };
      if (state === 'back' || !/entity-bytes=0%3A34636\d{3}$/.test(path)) return undefined;
      state = 'down';
      return { kind: 'cut', afterBytes: 6_000_000 };
    });
    const visit = await opened(large, way, root);
    await visit.click('#save-0');
    await visit.says('Saving then continues where it stopped.');
    await nothingIsComplete(visit);
    state = 'back';
    await visit.click('#save-0');
    const { path } = await visit.page.downloaded();
    equal(new Uint8Array(await readFile(present(path))), bytes);
  });

  test.runIf(long).each(eachWay)('%s: a gateway that lies in the middle leaves no file', async (way) => {
    // Of the leaf in which it lies it is asked for the block alone, too.
    const root = await proxied((_, path) => ({ kind: 'flip', atByte: path.includes('format=raw') ? 100 : 10_000_000 }));
    const visit = await opened(large, way, root);
    await visit.click('#save-0');
    await failed(visit);
    await nothingIsComplete(visit);
    if (way === 'stream') expect(await visit.page.downloaded()).toEqual({ name: 'film.mkv' });
    expect(await downloadsOf(firefox)).toEqual({});
    expect(await visit.run(readPrivateFiles)).toEqual({});
  });

  test.runIf(long).each(eachWay)('%s: all files are saved as one archive', async (way) => {
    const small = { name: 'a.txt', bytes: new TextEncoder().encode('first') };
    const files = [await sender.store(small), await sender.store({ ...small, name: 'A.txt' }), large];
    const visit = await open(await sender.shareParcel({ files }), ways[way]);
    await visit.openShare();
    await visit.click('#together .save');
    const { name, path } = await visit.page.downloaded();
    expect(name).toBe('files.zip');
    const script = 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.testzip(), z.namelist())';
    const zip = present(path);
    const listed = execFileSync('python3', ['-c', script, zip], { encoding: 'utf8' });
    expect(listed.trim()).toBe("None ['a.txt', 'A (2).txt', 'film.mkv']");
    const member = 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("film.mkv"))';
    equal(new Uint8Array(execFileSync('python3', ['-c', member, zip], { maxBuffer: 64 * mebibyte })), bytes);
    await visit.until(`document.querySelector('#together [data-state=done]') !== null`);
  });

  test.runIf(long)('images, sounds and texts are shown, a player goes back and forth, and nothing stays', async () => {
    const visit = await open(
      await sender.share([
        { name: 'dot.png', bytes: png },
        { name: 'tone.wav', bytes: wav() },
        { name: 'note.md', bytes: new TextEncoder().encode('# Hello\n<img src=x onerror=alert(1)>') },
        { name: 'page.png', bytes: new TextEncoder().encode('<!doctype html><script>alert(1)</script>') },
      ]),
    );
    await visit.openShare();
    const row = (index: number): string => `#files > li:nth-child(${index + 1})`;
    for (const [index, kind] of ['img', 'audio', 'pre', 'p'].entries()) {
      await visit.click(`${row(index)} .look`);
      await visit.until(`document.querySelector('${row(index)} .preview > ${kind}') !== null &&
        !document.querySelector('${row(index)} .preview').innerText.includes('Opening')`);
    }
    await visit.until("document.querySelector('img').naturalWidth === 1");
    await visit.until("Math.abs(document.querySelector('audio').duration - 1) < 0.01");
    const seen = await visit.page.evaluate<number[]>(`(async () => {
      const player = document.querySelector('audio');
      player.muted = true;
      const seen = [];
      for (const time of [0.9, 0.1, 0.5]) {
        const moved = new Promise((resolve) => player.addEventListener('seeked', resolve, { once: true }));
        player.currentTime = time;
        await moved;
        seen.push(player.currentTime);
      }
      const ended = new Promise((resolve) => player.addEventListener('ended', resolve, { once: true }));
      await player.play();
      await ended;
      return seen;
    })()`);
    expect(seen.map((each) => Math.round(each * 10))).toEqual([9, 1, 5]);
    expect(await visit.page.evaluate(`document.querySelector('pre').innerText`)).toContain('<img src=x onerror');
    await visit.says('This cannot be shown here. You can save it.');
    await nothingIsComplete(visit);
    const registrations = '(async () => (await navigator.serviceWorker.getRegistrations()).length)()';
    expect(await visit.page.evaluate(registrations)).toBe(0);
  });

  test.runIf(long).each(['reloaded', 'left', 'closed'])('a download whose page is %s is no file', async (what) => {
    const root = await proxied((count) => (count > 3 ? { kind: 'stall', afterBytes: 8_000_000 } : undefined));
    const visit = await opened(large, 'stream', root);
    await visit.click('#save-0');
    await visit.until(`document.querySelector('progress').value > 0`);
    if (what === 'reloaded') await visit.page.reload();
    else if (what === 'left') await visit.page.goto(`${root}send`);
    else await visit.page.leave();
    expect(await visit.page.downloaded()).toEqual({ name: 'film.mkv' });
    expect(await downloadsOf(firefox)).toEqual({});
  });

  test.runIf(long)('files that a closed page left in its storage are removed by the next', async () => {
    const root = await proxied(() => ({ kind: 'stall', afterBytes: 8_000_000 }));
    const visit = await opened(large, 'disk', root);
    await visit.click('#save-0');
    await expect.poll(async () => Object.keys(await visit.run(readPrivateFiles)), patient).toHaveLength(1);
    await visit.page.goto(root);
    await expect.poll(() => visit.run(readPrivateFiles), patient).toEqual({});
  });

  test.runIf(long)('a page whose service worker was stopped does not call the file complete', async () => {
    // Firefox waits 30 s for it.
    const impatient = await launchFirefox({ more: { 'dom.serviceWorkers.idle_timeout': 500 } });
    onTestFinished(() => impatient.close());
    const root = await proxied((count) => (count > 3 ? { kind: 'stall', afterBytes: 8_000_000 } : undefined));
    const visit = await opened(large, 'stream', root, impatient);
    await visit.click('#save-0');
    await failed(visit);
    await nothingIsComplete(visit);
  });
});
