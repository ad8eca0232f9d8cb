/** `open.html` from the disk: in Chromium and Firefox, without a network. */
import { mkdir, readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { bundleOpener } from '../../../cli/local/code/opener-bundle.ts';
import { generateKeys, seal } from '../../../client/index.ts';
import { launch, withBrowser, type BrowserName } from '../../../testkit/browsers/browsers.ts';
import type { RunningBrowser, Tab } from '../../../testkit/browsers/running-browser.ts';
import { backupVector, changedFolder } from '../../../testkit/backup-vector.ts';
import { long } from '../../../testkit/long-run.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { temporaryDirectory } from '../../../testkit/temporary-directory.ts';

const vector = backupVector;
const html = await bundleOpener();

describe('open.html', () => {
  test('is one file of at most 300 KB, the same each time, which names nothing outside', async () => {
    expect(Buffer.byteLength(html)).toBeLessThanOrEqual(300_000);
    expect(await bundleOpener()).toBe(html);
    expect(html).toContain("connect-src 'none'");
    expect(html.replaceAll(/http:\/\/www\.w3\.org\/\S+/g, '')).not.toMatch(
      /<(?:link|img|iframe|script)[^>]+(?:src|href)=/,
    );
    expect(html).not.toMatch(/innerHTML|\/(?:home|root|work)\//);
  });
});

/**
 * What runs before the page: it counts violations, and keeps what is saved, by picker or as a Blob.
 * `sums`: a picker that keeps no more than how many bytes there were, and their sum.
 */
const before = (hasPicker: boolean | 'sums') => `() => {
  globalThis.saved = {}; globalThis.violations = [];
  document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));
  const pick = async ({ suggestedName }) => ({ createWritable: async () => {
    const parts = [];
    return { write: async (bytes) => void parts.push(bytes.slice()), abort: async () => undefined,
      close: async () => void (saved[suggestedName] = new Blob(parts)) };
  } });
  const sum = async ({ suggestedName }) => ({ createWritable: async () => {
    const all = { bytes: 0, sum: 0 };
    const write = async (bytes) => { all.bytes += bytes.length; for (const byte of bytes) all.sum += byte; };
    return { write, abort: async () => undefined, close: async () => void (saved[suggestedName] = all) };
  } });
  globalThis.showSaveFilePicker = ${hasPicker === 'sums' ? 'sum' : hasPicker ? 'pick' : undefined};
  const { createObjectURL } = URL;
  const blobs = new Map();
  URL.createObjectURL = (blob) => { const url = createObjectURL.call(URL, blob); blobs.set(url, blob); return url; };
  HTMLAnchorElement.prototype.click = function () { saved[this.download] = blobs.get(this.href); };
}`;

function suites(name: BrowserName): void {
  let browser: RunningBrowser;
  beforeAll(async () => {
    browser = await launch[name]();
  });
  afterAll(() => browser.close());

  /** Opens it from a folder with these files. */
  async function opened(files: Record<string, Uint8Array>, o: { hasPicker?: boolean | 'sums' } = {}) {
    const directory = await temporaryDirectory();
    for (const [path, bytes] of Object.entries({ 'open.html': Buffer.from(html), ...files })) {
      await mkdir(dirname(join(directory, path)), { recursive: true });
      await writeFile(join(directory, path), bytes);
    }
    const tab = await browser.open(pathToFileURL(join(directory, 'open.html')).href, {
      before: before(o.hasPicker ?? false),
    });
    onTestFinished(() => tab.close());
    return { tab, path: (file: string) => join(directory, file) };
  }

  const shows = (tab: Tab, id: string): Promise<void> =>
    expect
      .poll(() => tab.evaluate<string>("document.querySelector('main > section:not([hidden])')?.id"), {
        timeout: 30_000,
      })
      .toBe(id);
  const text = (tab: Tab, selector: string): Promise<string> =>
    tab.evaluate<string>(`document.querySelector(${JSON.stringify(selector)}).innerText`);
  const type = (tab: Tab, password: string): Promise<unknown> =>
    tab.evaluate(`(() => { document.getElementById('password').value = ${JSON.stringify(password)};
      document.getElementById('open').requestSubmit(); })()`);
  const names = (tab: Tab): Promise<string[]> =>
    tab.evaluate<string[]>("[...document.querySelectorAll('#files bdi')].map((each) => each.textContent)");

  /** Saves a file of the list, and waits until it is whole. */
  async function save(tab: Tab, file: string): Promise<void> {
    const key = JSON.stringify(file);
    await tab.evaluate(`[...document.querySelectorAll('#files li')]
      .find((each) => each.querySelector('bdi').textContent === ${key}).querySelector('.save').click()`);
    // A file that cannot be saved says so, and its button is there again.
    const isOver = `${key} in saved || document.querySelector('#files .save:disabled') === null`;
    await expect.poll(() => tab.evaluate<boolean>(isOver), { timeout: 1_800_000 }).toBe(true);
    const state = await tab.evaluate<string>("document.getElementById('files').innerText");
    expect(await tab.evaluate<boolean>(`${key} in saved`), state).toBe(true);
  }

  /** Saves a file of the list. @returns it in hex */
  async function saved(tab: Tab, file: string): Promise<string> {
    await save(tab, file);
    const key = JSON.stringify(file);
    return tab.evaluate<string>(`(async () => (new Uint8Array(await saved[${key}].slice(0, 1e6).arrayBuffer()))
      .reduce((all, byte) => all + byte.toString(16).padStart(2, "0"), ""))()`);
  }

  test('opens a container with a password, after a wrong one, and a key file', async () => {
    const keys = await generateKeys();
    const bytes = crypto.getRandomValues(new Uint8Array(65_536));
    const own = await (await seal(bytes, { to: { keys: keys.recipient } })).bytes();
    const diary = present(vector.folder['blobs/bafkreifqnjgr35fotetknuye56nk3yzlzkno43d6qgokve7dhqn7ypkvh4.car']);
    const { tab, path } = await opened({
      'film.age': own,
      'key.txt': Buffer.from(keys.privateKey),
      'diary.car': diary,
    });
    await shows(tab, 'home');
    await tab.setFiles('#container', [path('film.age')]);
    await shows(tab, 'asked');
    await tab.setFiles('#key', [path('key.txt')]);
    await tab.evaluate("document.getElementById('open').requestSubmit()");
    await shows(tab, 'opened');
    expect(await saved(tab, 'film')).toBe(Buffer.from(bytes).toString('hex'));
    expect(await text(tab, '#files .state')).toMatch(/Complete and checked|Vollständig und geprüft/);
    await tab.setFiles('#container', [path('diary.car')]);
    await shows(tab, 'asked');
    await type(tab, 'wrong');
    await expect.poll(() => text(tab, '#open-error')).toMatch(/\w/);
    await type(tab, vector.password);
    await shows(tab, 'opened');
    expect(await saved(tab, 'diary')).toBe(Buffer.from('Dear diary\n').toString('hex'));
    expect(await tab.evaluate('violations')).toEqual([]);
  });

  test('opens the folder of a backup, and says which file has a password of its own', async () => {
    const folder = Object.fromEntries(Object.entries(vector.folder).map(([path, bytes]) => [`copy/${path}`, bytes]));
    const { tab, path } = await opened(folder, { hasPicker: true });
    await chooseFolder(tab, Object.keys(folder), path);
    await shows(tab, 'asked');
    await type(tab, vector.password);
    await shows(tab, 'opened');
    expect((await names(tab)).toSorted()).toEqual(
      [
        'diary.txt.sealpin',
        'empty',
        'letter ☃.txt',
        'notes.txt',
        'notes.txt',
        'sealed by me.age',
        'song.txt',
      ].toSorted(),
    );
    for (const file of ['letter ☃.txt', 'empty', 'song.txt'])
      expect(await saved(tab, file)).toBe(present(vector.opens[file]).toString('hex'));
    expect(await text(tab, '#files')).toMatch(/Encrypted by its owner|Vor dem Speichern vom Besitzer/);
    expect(await tab.evaluate('violations')).toEqual([]);
  });

  // The short form looks at them in `opener-files.test.ts`.
  test.runIf(long).each(vector.refused)('saves of a backup with $name all other files', async ({ change, lost }) => {
    const folder = Object.fromEntries(
      Object.entries(changedFolder(change)).map(([path, bytes]) => [`copy/${path}`, bytes]),
    );
    const { tab, path } = await opened(folder);
    await chooseFolder(tab, Object.keys(folder), path);
    const state = () =>
      tab.evaluate<string>(`document.querySelector('main > section:not([hidden])').id +
        document.getElementById('open-error').innerText`);
    await expect.poll(state, { timeout: 30_000 }).toMatch(/^asked$|^problem/);
    if ((await state()) === 'asked') await type(tab, vector.password);
    await expect.poll(state, { timeout: 30_000 }).toMatch(/^asked.|^problem|^opened/);
    const saved = (await state()).startsWith('opened') ? await saveAll(tab) : [];
    const all = Object.entries(vector.opens).map(([each, bytes]) => [each, bytes.toString('hex')] as const);
    const expected = all.filter(([each]) => !lost.includes(each)).map(([, hex]) => hex);
    const known = new Set(all.map(([, hex]) => hex));
    expect(saved.filter((each) => known.has(each)).toSorted()).toEqual(expected.toSorted());
  });

  /** Saves every file of the list, one after the other. @returns those that were saved, in hex */
  async function saveAll(tab: Tab): Promise<string[]> {
    return tab.evaluate<string[]>(`(async () => {
      const all = [];
      for (const button of document.querySelectorAll('#files .save')) {
        saved = {};
        button.click();
        while (button.disabled) await new Promise((resolve) => setTimeout(resolve, 10));
        const hexOf = (bytes) => bytes.reduce((hex, byte) => hex + byte.toString(16).padStart(2, '0'), '');
        for (const blob of Object.values(saved)) all.push(hexOf(new Uint8Array(await blob.arrayBuffer())));
      }
      return all;
    })()`);
  }

  /** Firefox takes no folder from a driver, so its files get their paths in the page. */
  async function chooseFolder(tab: Tab, files: readonly string[], path: (file: string) => string): Promise<void> {
    if (name === 'Chromium') return tab.setFiles('#folder', [path('copy')]);
    await tab.evaluate(
      "Object.assign(document.getElementById('folder'), { webkitdirectory: false, multiple: true }).id",
    );
    await tab.evaluate(`(() => { const paths = ${JSON.stringify(files)};
      const get = function () { return paths.find((each) => each.endsWith('/' + this.name)); };
      Object.defineProperty(File.prototype, 'webkitRelativePath', { get }); })()`);
    return tab.setFiles(
      '#folder',
      files.map((file) => path(file)),
    );
  }

  test('refuses damaged files and folders, saves nothing of them, and reaches nobody', async () => {
    const keys = await generateKeys();
    const sealed = await (await seal(new Uint8Array(200_000), { to: { keys: keys.recipient } })).bytes();
    const [, car] = present(Object.entries(vector.folder).find(([path]) => path.startsWith('blobs/')));
    const { tab, path } = await opened({
      'cut.age': sealed.slice(0, -20),
      'plain.txt': Buffer.from('hello'),
      'bad.car': car.with(car.length - 1, itemOf(car, -1) ^ 1),
      'key.txt': Buffer.from(keys.privateKey),
    });
    await tab.setFiles('#container', [path('plain.txt')]);
    await shows(tab, 'problem');
    await tab.setFiles('#container', [path('cut.age')]);
    await shows(tab, 'asked');
    await tab.setFiles('#key', [path('key.txt')]);
    await tab.evaluate("document.getElementById('open').requestSubmit()");
    await shows(tab, 'opened');
    await tab.evaluate("document.querySelector('#files .save').click()");
    await expect.poll(() => text(tab, '#files .state')).toMatch(/damaged|beschädigt/);
    await tab.setFiles('#container', [path('bad.car')]);
    await shows(tab, 'problem');
    expect(await tab.evaluate('Object.keys(saved)')).toEqual([]);
    const reached = await tab.evaluate<string>(
      "fetch('http://127.0.0.1:9/').then(() => 'reached', (error) => error.name)",
    );
    expect(reached).toBe('TypeError');
    expect(await tab.evaluate('violations')).toContain('connect-src');
  });

  test('says of a file that is too large for its memory that it is, before it opens it', async () => {
    const keys = await generateKeys();
    const { tab, path } = await opened({
      'film.age': await (await seal('x', { to: { keys: keys.recipient } })).bytes(),
      'key.txt': Buffer.from(keys.privateKey),
    });
    await truncate(path('film.age'), 1024 ** 3 + 1);
    await tab.setFiles('#container', [path('film.age')]);
    await shows(tab, 'asked');
    await tab.setFiles('#key', [path('key.txt')]);
    await tab.evaluate("document.getElementById('open').requestSubmit()");
    await shows(tab, 'opened');
    expect(await text(tab, '#files .state')).toMatch(/takes at most 1\.1\sGB|nimmt so höchstens 1,1\sGB/);
    expect(await tab.evaluate<boolean>("document.querySelector('#files .save').disabled")).toBe(true);
  });

  // Chromium has a picker for files from the disk. Its Blobs took 0.5 GB, where it had no time to
  // move them to the disk.
  test.runIf(long)('saves 1 GiB, as a Blob where there is no picker', async () => {
    const keys = await generateKeys();
    const bytes = Buffer.alloc(1024 ** 3 - 1024 ** 2, 7);
    const sealed = await (await seal(bytes, { to: { keys: keys.recipient } })).bytes();
    const files = { 'film.age': sealed, 'key.txt': Buffer.from(keys.privateKey) };
    const { tab, path } = await opened(files, { hasPicker: name === 'Chromium' && 'sums' });
    await tab.setFiles('#container', [path('film.age')]);
    await shows(tab, 'asked');
    await tab.setFiles('#key', [path('key.txt')]);
    await tab.evaluate("document.getElementById('open').requestSubmit()");
    await shows(tab, 'opened');
    const began = performance.now();
    let peak = await memoryBelow(browser.pid);
    const before = peak;
    const watch = setInterval(() => void memoryBelow(browser.pid).then((each) => (peak = Math.max(peak, each))), 500);
    await save(tab, 'film').finally(() => clearInterval(watch));
    const seconds = Math.round((performance.now() - began) / 1000);
    const [from, to] = [before, peak].map((each) => Math.round(each / 2 ** 20));
    // oxlint-disable-next-line no-console -- the long form is run for the figures
    console.log(`${name}: 1 GiB in ${seconds} s, from ${from} to ${to} MiB at most`);
    const summed = await tab.evaluate<{ bytes: number; sum: number }>(`(async () => {
      if (!(saved.film instanceof Blob)) return saved.film;
      const all = { bytes: saved.film.size, sum: 0 };
      for (let at = 0; at < all.bytes; at += 2 ** 26)
        for (const byte of new Uint8Array(await saved.film.slice(at, at + 2 ** 26).arrayBuffer())) all.sum += byte;
      return all;
    })()`);
    expect(summed).toEqual({ bytes: bytes.length, sum: 7 * bytes.length });
  });
}

/** Memory of a process and of all that descend from it, without what they share, in bytes. */
async function memoryBelow(pid: number): Promise<number> {
  const read = (path: string): Promise<string> => readFile(`/proc/${pid}/${path}`, 'utf8').catch(() => '');
  const own = 1024 * Number(/^Pss:\s+(\d+)/m.exec(await read('smaps_rollup'))?.[1] ?? 0);
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = await Promise.all(threads.map((thread) => read(`task/${thread}/children`)));
  const children = lists.flatMap((list) => list.split(' ')).filter((each) => each.trim() !== '');
  const below = await Promise.all(children.map((each) => memoryBelow(Number(each))));
  return below.reduce((sum, each) => sum + each, own);
}

withBrowser('Chromium', () => describe('Chromium', () => suites('Chromium')));
describe('Firefox', () => {
  if (long) withBrowser('Firefox', () => suites('Firefox'));
  else test.skip('Firefox: the long form runs it');
});
