/**
 * Every state of the pages in Chromium: accessible, by keyboard alone, in every language, and
 * without a trace of what was read.
 */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import { connect, generateKeys, handOver, type To } from '../../client/index.ts';
import { bundleWeb } from '../../cli/local/code/web-bundle.ts';
import { faultyProxy } from '../../testkit/faulty-proxy.ts';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { withSettings } from '../../testkit/service.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { nothing, readStorage } from './in-page.ts';
import { downloaded, Receiver, violations } from './receiver.ts';
import { ageFile } from './sender.ts';
import { itemOf, present } from '../../testkit/present.ts';
import { ci, inCi, long } from '../../testkit/long-run.ts';

const bytes = new TextEncoder().encode('canary of the plaintext');
const password = 'canary of the password';
const name = 'canary of the name.txt';

const { recipient, privateKey } = await generateKeys();

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  test.each(long ? (['light', 'dark'] as const) : (['dark'] as const))(
    'axe finds nothing in any state, %s',
    async (colorScheme) => {
      const link = await receiver.share(
        [
          { name, bytes },
          { name: 'second', bytes },
        ],
        { password, note: 'canary of the note', from: 'Ann' },
      );
      const cid = await receiver.storeContainer(bytes, {
        keys: 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj',
      });
      const { page, close, complaints } = await receiver.open(`${receiver.root}open`, {
        colorScheme,
        without: ['picker'],
      });
      onTestFinished(close);
      const isClean = async (state: string): Promise<void> => {
        await page.locator(`#${state}:not([hidden])`).waitFor();
        expect(await violations(page), state).toEqual([]);
      };
      await isClean('home');
      await page.goto(`${receiver.root}b#${cid}`);
      await isClean('asked');
      await page.goto(`${receiver.root}s#1abc`);
      await isClean('problem');
      await page.goto('about:blank');
      await page.goto(link.replace('#', '%23'));
      await isClean('asked');
      await page.locator('#password').fill('wrong');
      await page.keyboard.press('Enter');
      await page.locator('#open-error').waitFor();
      await isClean('asked');
      await page.locator('#password').fill(password);
      await page.keyboard.press('Enter');
      await isClean('opened');
      await downloaded(page, `Save ${name}`);
      await page.context().route('**/ipfs/**', () => undefined);
      await page.getByRole('button', { name: 'Save second' }).click();
      await page.getByText('Details').click();
      await page.locator('progress:not([hidden])').waitFor();
      await isClean('opened');
      expect(complaints).toEqual([]);
    },
  );

  const termsOf = (page: Page, id: string): Promise<string[]> => page.locator(`#${id} option`).allInnerTexts();

  inCi.each([
    [
      ci ? ['send', 'files'] : ['send'],
      { SHARE_MAX_DAYS: '3', SHARE_MAX_OPENS: '3' },
      ['in 1 hour', 'in 1 day', 'in 3 days'],
      ['once', '3 times'],
      'Expires in 3 days · opens 3 times · anyone with the link',
    ],
    [
      ci ? ['send', 'files'] : ['files'],
      { SHARE_MAX_DAYS: '60', SHARE_MAX_OPENS: '500' },
      ['in 1 hour', 'in 1 day', 'in 7 days', 'in 30 days', 'in 60 days'],
      ['once', '5 times', '20 times', '100 times', '500 times'],
      'Expires in 7 days · opens 5 times · anyone with the link',
    ],
  ])('an untouched form on %s sends where the service allows %o, and offers the most', async (...row) => {
    const [paths, settings, days, opens, line] = row;
    const { apiKey } = await receiver.service.account();
    await connect({ service: receiver.root, apiKey }).put('stored', { name });
    for (const path of paths) {
      const { page, close } = await receiver.open(receiver.root + path, { extraHTTPHeaders: withSettings(settings) });
      onTestFinished(close);
      await expect.poll(() => termsOf(page, 'expires')).toEqual(days);
      expect(await termsOf(page, 'opens')).toEqual(opens);
      await page.locator('#api-key').fill(apiKey);
      await page.keyboard.press('Enter');
      if (path === 'files') await page.getByRole('button', { name: 'Send on' }).first().click();
      else {
        await page.locator('#compose:not([hidden])').waitFor();
        await page.locator('#choose').setInputFiles([{ name, mimeType: '', buffer: Buffer.from(bytes) }]);
      }
      expect(await page.locator('#terms-line').innerText()).toBe(line);
      await page.locator('#compose-button').click();
      await page.locator('#sent:not([hidden])').waitFor();
    }
  });

  /** An account with a file and a delivery, both by this name; its API key. */
  async function accountWith(name: string): Promise<string> {
    const { apiKey } = await receiver.service.account();
    const connection = connect({ service: receiver.root, apiKey });
    await connection.put('x', { name });
    const { link } = await connection.inbox.create({ label: 'office', recipient });
    await handOver(link, { source: 'x', name: 'x' }, { from: name });
    return apiKey;
  }

  const row = (page: Page, name: string) => page.locator('li:visible', { hasText: name }).first();
  const giveKey = (page: Page): Promise<void> =>
    page
      .locator('#private-key')
      .setInputFiles({ name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(privateKey) });

  /** What asks the service, on each page, and what leads to the list of another account. */
  const uses = [
    { path: 'inbox', what: 'reads', use: giveKey },
    {
      path: 'files',
      what: 'deletes',
      use: async (page: Page) => {
        await row(page, 'before').locator('.delete').click();
        await page.locator('#confirming-yes').click();
      },
    },
    {
      path: 'files',
      what: 'sends on',
      use: async (page: Page) => {
        await row(page, 'before').locator('.send-on').click();
        await page.locator('#compose-button').click();
      },
    },
  ].slice(0, ci ? 3 : 1);
  test.each(uses)('/$path asks for another key where one has ended, and $what with that', async ({ path, use }) => {
    const [before, after] = [await accountWith('before'), await accountWith('after')];
    const { page, close } = await receiver.open(`${receiver.root}${path}`);
    onTestFinished(close);
    const enter = async (key: string): Promise<void> => {
      await page.locator('#api-key').fill(key);
      await page.keyboard.press('Enter');
    };
    await enter(before);
    await page.locator(`#${path === 'inbox' ? 'reading' : 'stored'}:not([hidden])`).waitFor();
    const refused = { status: 401, json: { type: '', title: '', status: 401, code: 'unauthorized' } };
    await page.context().route('**/v1/**', (route) => route.fulfill(refused));
    await use(page);
    await page.locator('#sign-in-error', { hasText: 'or it has ended' }).waitFor();
    await page.context().unroute('**/v1/**');
    await enter(after);
    await row(page, 'after').waitFor();
    expect(await row(page, 'before').count()).toBe(0);
  });

  const sending = ci ? ['', 'send', 'files'] : ['files'];
  test.each(sending)('a page says at once that the service makes no links: /%s', async (path) => {
    const { apiKey } = await receiver.service.account();
    await connect({ service: receiver.root, apiKey }).put('stored', { name });
    const headers = withSettings({ PUBLIC_GATEWAY: 'off' });
    const { page, requests, close } = await receiver.open(receiver.root + path, { extraHTTPHeaders: headers });
    onTestFinished(close);
    if (path === 'files') {
      await page.locator('#api-key').fill(apiKey);
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'Send on' }).click();
    }
    await page.getByText('The operator of this service has turned links off').waitFor();
    expect(await page.locator('#compose-form button:visible').allInnerTexts()).toEqual(
      path === 'files' ? ['Back'] : [],
    );
    if (ci || path === '') expect(await violations(page)).toEqual([]);
    expect(requests.filter((each) => each.startsWith('POST'))).toEqual([]);
  });

  for (const [way, declare, size, held] of [
    ['in one request', test, 100_000, /^POST \/v1\/storage\/plain/],
    ['in parts', inCi, 17 * 2 ** 20, /^PATCH \/v1\/uploads\//],
  ] as const)
    declare(`bytes that are sent count while they are on their way: ${way}`, async () => {
      const { url } = await faultyProxy(
        () => receiver.service.url,
        ({ method, path }) =>
          held.test(`${method} ${path}`) ? { kind: 'late', until: new Promise(() => undefined) } : undefined,
      );
      const { page, close } = await receiver.open(`${url}/send`);
      onTestFinished(close);
      await page.locator('#api-key').fill(receiver.apiKey);
      await page.keyboard.press('Enter');
      await page.locator('#compose:not([hidden])').waitFor();
      await page
        .locator('#choose')
        .setInputFiles([{ name: 'large', mimeType: 'text/plain', buffer: Buffer.alloc(size) }]);
      await page.locator('#compose-button').click();
      const progress = (): Promise<number> => page.evaluate(() => document.querySelector('progress')?.value ?? 0);
      await expect.poll(progress).toBeGreaterThan(0);
    });

  inCi('a share is opened and saved by keyboard alone, and the focus follows', async () => {
    const link = await receiver.share([{ name, bytes }], { password });
    const { page, close } = await receiver.open(`${receiver.root}open`);
    onTestFinished(close);
    const focused = (): Promise<string> => page.evaluate(() => document.activeElement?.id ?? '');
    const tabTo = async (target: string): Promise<void> => {
      for (let count = 0; count < 12 && (await focused()) !== target; count += 1) await page.keyboard.press('Tab');
      expect(await focused()).toBe(target);
    };
    await tabTo('link');
    await page.keyboard.type(link);
    await page.keyboard.press('Enter');
    await page.locator('#asked:not([hidden])').waitFor();
    expect(await focused()).toBe('asked-title');
    await tabTo('password');
    await page.keyboard.type('wrong');
    await tabTo('reveal');
    await page.keyboard.press('Space');
    expect(await page.locator('#password').getAttribute('type')).toBe('text');
    await tabTo('open-button');
    await page.keyboard.press('Enter');
    await page.locator('#open-error').waitFor();
    expect(await focused()).toBe('password');
    await page.keyboard.type(password);
    await page.keyboard.press('Enter');
    await page.locator('#opened:not([hidden])').waitFor();
    expect(await focused()).toBe('opened-title');
    await tabTo('save-0');
    await page.keyboard.press('Enter');
    await page.getByText('Saved and complete.', { exact: true }).waitFor();
    expect(await focused()).toBe('save-0');
    expect(await page.getByRole('status').innerText()).toBe(`${name}: Saved and complete.`);
  });

  test('secret, password, name, note and plaintext are in no request, log, address or storage', async () => {
    const link = await receiver.share([{ name, bytes }], { password, note: 'canary of the note' });
    const secret = itemOf(link.split('#1'), 1).slice(22, 65);
    const { page, requests, close } = await receiver.open(link, { without: ['picker'] });
    onTestFinished(close);
    await page.locator('#asked:not([hidden])').waitFor();
    expect(page.url()).toBe(`${receiver.root}s`);
    await page.locator('#password').fill(password);
    await page.keyboard.press('Enter');
    await page.locator('#opened:not([hidden])').waitFor();
    expect(present(await downloaded(page, `Save ${name}`)).bytes.toString()).toBe('canary of the plaintext');
    expect(await page.evaluate(readStorage)).toEqual(nothing);
    expect(await page.locator('#password').inputValue()).toBe('');
    expect(await page.context().cookies()).toEqual([]);
    expect(requests.length).toBeGreaterThan(5);
    const seen = [...requests.slice(1), ...receiver.service.log].join('\n');
    for (const canary of [secret, 'canary', encodeURIComponent(password), encodeURIComponent(name)])
      expect(seen).not.toContain(canary);
    // The browser itself keeps the address that was opened, and sends none of its fragment.
    expect(requests[0]).toMatch(/^GET \S+\/s(?:#\S+)? /);
    expect(requests.filter((each) => !each.includes(` ${receiver.root}`))).toEqual([]);
  });

  inCi('a narrow page in a language from right to left has no part beside it', async () => {
    const web = await bundleWeb({ words: new URL('words-rtl.ts', import.meta.url).pathname });
    const server = await startLoopbackServer(({ url = '/' }, response) => {
      const file = web.files.find(({ path }) => `/${path}` === url.split('?')[0]);
      response.setHeader('Content-Type', file?.type ?? 'text/html; charset=utf-8');
      const page = web.documents.find(({ paths }) => paths.some((path) => `/${path}` === url));
      response.end(file?.text ?? page?.html);
    });
    onTestFinished(() => server.close());
    const root = `${server.url}/`;
    const { page, close } = await receiver.open(`${root}open`, { viewport: { width: 320, height: 640 } });
    onTestFinished(close);
    const fits = async (): Promise<void> => {
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
      if (long) expect(await violations(page)).toEqual([]);
    };
    expect(await page.evaluate(() => document.documentElement.dir)).toBe('rtl');
    await fits();
    expect(await violations(page)).toEqual([]);
    const choose = async (to: To): Promise<void> => {
      const buffer = Buffer.from(await (await ageFile(bytes, to)).arrayBuffer());
      const mimeType = 'application/octet-stream';
      await page.locator('#container').setInputFiles({ name: `${'very-long-name'.repeat(9)}.age`, mimeType, buffer });
      await page.locator('#asked:not([hidden])').waitFor();
      await fits();
    };
    await choose({ keys: 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj' });
    await page.goto(`${root}open`);
    await choose({ password: 'pw' });
    await page.locator('#password').fill('pw');
    await page.keyboard.press('Enter');
    await page.locator('#opened:not([hidden])').waitFor();
    await fits();
    for (const [path, state] of [
      ['', 'compose'],
      ['send', 'signing'],
      ['inbox', 'signing'],
      ['drop', 'problem'],
    ]) {
      await page.goto(root + path);
      await page.locator(`#${state}:not([hidden])`).waitFor();
      await fits();
    }
  });

  test('speaks the language of its reader', async () => {
    const { page, close } = await receiver.open(receiver.root, { locale: 'de-AT' });
    onTestFinished(close);
    await page.getByRole('heading', { name: 'Dateien senden, die nur lesen kann, wer sie lesen soll' }).waitFor();
    expect(await page.evaluate(() => document.documentElement.lang)).toBe('de');
  });
});
