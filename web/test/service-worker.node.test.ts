/**
 * The service worker of `/dl/` in Chromium, behind a page that breaks the rules of the port, as a
 * broken engine would.
 */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Download, Page } from 'playwright-core';
import { type ProxyFault, faultyProxy } from '../../testkit/faulty-proxy.ts';
import { inCi } from '../../testkit/long-run.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import type { ToServiceWorker } from '../protocol.ts';
import { Receiver } from './receiver.ts';
import { present } from '../../testkit/present.ts';

/** Message over the port: so many bytes, or a word. */
type Answer = number | string;
type Rest<Message> = Message extends unknown ? Omit<Message, 'answer' | 'port'> : never;

/** Globals of the page that let it play the engine. */
type Player = typeof globalThis & {
  /** Words of the service worker over the port of each download. */
  said: Record<string, string[]>;
  /** Tells the service worker something, and gives its answer. */
  tell(message: Rest<ToServiceWorker>, port?: MessagePort): Promise<boolean>;
  /**
   * Offers a download. Each pull is answered with the next answer, and after the last with silence.
   */
  offer(id: string, size: number, answers: Answer[]): Promise<boolean>;
  /** Sends over the port of a download, whether it was asked or not. */
  send(id: string, answer: Answer): void;
};

/** Runs in the page. */
async function play(): Promise<void> {
  const page = globalThis as Player;
  const registration = await navigator.serviceWorker.register('dl/sw.js');
  const worker = registration.active ?? registration.waiting ?? registration.installing;
  if (worker === null) throw new Error('no service worker');
  while (worker.state !== 'activated')
    await new Promise((resolve) => worker.addEventListener('statechange', resolve, { once: true }));
  const ports = new Map<string, MessagePort>();
  page.said = {};
  page.tell = (message, port) =>
    new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.addEventListener('message', ({ data }: MessageEvent<boolean>) => resolve(data));
      port1.start();
      worker.postMessage({ ...message, port, answer: port2 }, port === undefined ? [port2] : [port, port2]);
    });
  page.send = (id, answer) => ports.get(id)?.postMessage(typeof answer === 'number' ? new Uint8Array(answer) : answer);
  page.offer = async (id, size, answers) => {
    const { port1, port2 } = new MessageChannel();
    ports.set(id, port1);
    const said: string[] = (page.said[id] = []);
    port1.addEventListener('message', ({ data }: MessageEvent<string>) => {
      said.push(data);
      const answer = data === 'pull' ? answers.shift() : undefined;
      if (answer !== undefined) page.send(id, answer);
    });
    port1.start();
    return page.tell({ kind: 'offer', id, name: `${id}.bin`, size }, port2);
  };
}

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  let page: Page;
  let close: () => Promise<void>;
  beforeAll(async () => {
    receiver = await Receiver.start();
    // The policy of the page admits no script of a test.
    ({ page, close } = await receiver.open(receiver.root, { bypassCSP: true }));
    await page.evaluate(play);
  });
  afterAll(() => close());

  const size = 100_000;
  const offer = (id: string, answers: Answer[]): Promise<boolean> =>
    page.evaluate(([id, size, answers]) => (globalThis as Player).offer(id, size, answers), [
      id,
      size,
      answers,
    ] as const);
  const send = (id: string, answer: Answer): Promise<void> =>
    page.evaluate(([id, answer]) => (globalThis as Player).send(id, answer), [id, answer] as const);
  const knows = (id: string): Promise<boolean> =>
    page.evaluate((id) => (globalThis as Player).tell({ kind: 'alive', id }), id);
  const said = (id: string): Promise<string[] | undefined> =>
    page.evaluate((id) => (globalThis as Player).said[id], id);
  /** Waits for words of the service worker, which come after what the browser shows. */
  const hears = (id: string, words: string[]): Promise<void> => expect.poll(() => said(id)).toEqual(words);
  /** Has a frame load the address of a download. */
  const load = (id: string): Promise<void> =>
    page.evaluate((id) => {
      const frame = document.createElement('iframe');
      frame.src = `dl/${id}`;
      document.body.append(frame);
    }, id);
  /** Begins a download. */
  async function begin(id: string, answers: Answer[]): Promise<Download> {
    expect(await offer(id, answers)).toBe(true);
    const download = page.waitForEvent('download', (each) => each.url().endsWith(`/dl/${id}`));
    await load(id);
    return download;
  }

  /**
   * Says over the port of a download that there is more to wait for, until something else has
   * happened.
   */
  async function keptWaiting<T>(id: string, event: Promise<T>): Promise<T> {
    const saying = setInterval(() => void send(id, 'wait'), 500);
    return await event.finally(() => clearInterval(saying));
  }

  test('a download has the bytes, the name and the headers that were given, and is told to be done', async () => {
    const answered = page.waitForResponse(`${receiver.root}dl/whole`);
    const download = await begin('whole', [60_000, 40_000, 'end']);
    expect(await download.failure()).toBe(null);
    expect(download.suggestedFilename()).toBe('whole.bin');
    expect((await readFile(await download.path())).length).toBe(size);
    await hears('whole', ['pull', 'pull', 'pull', 'done']);
    expect((await answered).headers()).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': String(size),
      'content-security-policy': "sandbox; default-src 'none'",
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    });
  });

  test.each<{ what: string; id: string; last: Answer }>([
    { what: 'ends early', id: 'short', last: 'end' },
    { what: 'has a byte too many', id: 'long', last: 40_001 },
    { what: 'fails', id: 'failed', last: 'failed' },
  ])('a file that $what is no download', async ({ id, last }) => {
    // What fails before the browser knows that it is a download never becomes one.
    const download = await begin(id, [60_000]);
    await send(id, last);
    expect(await download.failure()).not.toBeNull();
    await hears(id, ['pull', 'pull', 'broken']);
  });

  inCi('a download whose page is silent fails, and one whose page says that it must wait does not', async () => {
    const [silent, slow] = [await begin('silent', [1000]), await begin('slow', [1000])];
    expect(await keptWaiting('slow', silent.failure())).not.toBeNull();
    for (const answer of [size - 1000, 'end']) await send('slow', answer);
    expect(await slow.failure()).toBeNull();
    await hears('silent', ['pull', 'pull', 'broken']);
    await expect.poll(async () => present(await said('slow')).at(-1)).toBe('done');
  });

  test('a download that its page ends is forgotten, and fails', async () => {
    const download = await begin('ended', [1000]);
    expect(await knows('ended')).toBe(true);
    expect(await knows('never offered')).toBe(false);
    await page.evaluate(() => void (globalThis as Player).tell({ kind: 'gone', id: 'ended' }));
    expect(await keptWaiting('ended', download.failure())).not.toBeNull();
    expect(await knows('ended')).toBe(false);
  });

  test('a download that is cancelled in the browser tells the engine', async () => {
    const download = await begin('cancelled', [1000]);
    await hears('cancelled', ['pull', 'pull']);
    await download.cancel();
    await hears('cancelled', ['pull', 'pull', 'cancelled']);
  });

  inCi('a service worker that other pages of this address left ends once the service is itself again', async () => {
    const script = `oninstall = () => skipWaiting();
      addEventListener('fetch', (event) => event.request.mode === 'navigate' &&
        event.respondWith(new Response('other pages')));`;
    const html = `<script>navigator.serviceWorker.register('/v1/health/x.js', { scope: '/' })
      .then(() => navigator.serviceWorker.ready).then(() => document.title = 'caught')</script>`;
    const type = (text: string) => ({ 'content-type': `text/${text}`, 'service-worker-allowed': '/' });
    const other: Record<string, ProxyFault> = {
      '/s': { kind: 'answer', status: 200, headers: type('html'), body: html },
      '/v1/health/x.js': { kind: 'answer', status: 200, headers: type('javascript'), body: script },
    };
    let isItself = false;
    const { url } = await faultyProxy(
      () => receiver.root,
      ({ path }) => (isItself ? undefined : other[path]),
    );
    const { page: caught, close } = await receiver.open(`${url}/s`);
    await expect.poll(() => caught.title()).toBe('caught');
    isItself = true;
    // The browser still has it, and looks for a newer one meanwhile.
    await caught.goto(`${url}/s`);
    expect(await caught.innerText('body')).toBe('other pages');
    await expect
      .poll(() => caught.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length))
      .toBe(0);
    await caught.goto(`${url}/s`);
    expect(await caught.innerText('body')).toContain('Encrypted and decrypted in your browser');
    await close();
  });

  test('an address that was not offered, or was taken already, has no content', async () => {
    const taken = await begin('taken', [1000]);
    for (const id of ['taken', 'unknown']) {
      const again = page.waitForResponse(`${receiver.root}dl/${id}`);
      await load(id);
      expect((await again).status()).toBe(204);
    }
    for (const answer of [size - 1000, 'end']) await send('taken', answer);
    expect(await taken.failure()).toBeNull();
  });
});
