/** Tests of what the pages receive, in Chromium, from the real service. */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { generateKeys } from '../../client/index.ts';
import { equal } from '../../testkit/assertions.ts';
import { faultyProxy } from '../../testkit/faulty-proxy.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { downloaded, Receiver, type OpenOptions, type Watched } from './receiver.ts';
import { ageFile, png, wav } from './sender.ts';
import { present } from '../../testkit/present.ts';
import { ci, inCi, long } from '../../testkit/long-run.ts';

const noPicker = { without: ['picker'] } as const;
const pattern = (length: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, index) => (index * 31 + (index >> 10)) % 251);

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  const keys = generateKeys();
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  /** Opens an address; whatever the page complained about fails the test. */
  async function open(address: string, o: OpenOptions = noPicker): Promise<Watched> {
    const watched = await receiver.open(address, o);
    onTestFinished(async () => {
      await watched.close();
      expect(watched.complaints).toEqual([]);
    });
    return watched;
  }

  /** Loads an address as a new tab does, also where only its fragment is another one. */
  async function visit({ page }: Watched, address: string): Promise<void> {
    await page.goto('about:blank');
    await page.goto(address);
  }

  const title = ({ page }: Watched): Promise<string> =>
    page.locator('main > section:not([hidden], #wait) h1').innerText();
  const click = ({ page }: Watched, name: string): Promise<void> => page.getByRole('button', { name }).click();
  async function shows(watched: Watched, text: string): Promise<void> {
    await watched.page.getByText(text).first().waitFor();
  }

  const looks = [
    ['message.txt', 'pre'],
    ['dot.png', 'img'],
    ['tone.wav', 'audio'],
  ] as const;
  test.each(ci ? looks : looks.slice(0, 1))(
    '%s that the network keeps away says so, and is shown at the next try',
    async (name, shown) => {
      let isDown = true;
      const fault = { kind: 'answer', status: 503, headers: { 'Retry-After': '0' } } as const;
      const { url } = await faultyProxy(
        () => receiver.service.url,
        ({ path }) => (isDown && path.startsWith('/ipfs/') ? fault : undefined),
      );
      const bytes = { pre: pattern(9).map(() => 65), img: png, audio: wav() }[shown];
      const link = await receiver.share([{ name, bytes }]);
      const { page, close } = await receiver.open(link.replace(receiver.root, `${url}/`));
      onTestFinished(close);
      await page.locator('#open-button').click();
      const show = page.getByRole('button', { name: `Show ${name}` });
      // A message is shown by itself.
      if (shown !== 'pre') await show.click();
      await page.locator('.preview', { hasText: 'The service cannot be reached.' }).waitFor();
      isDown = false;
      await show.click();
      await page.locator(`.preview ${shown}`).waitFor();
    },
  );

  describe('a share', () => {
    test('opens by a click, and every file arrives under its name', async () => {
      const sent = [
        { name: 'report.pdf', bytes: pattern(1_200_000) },
        { name: 'empty', bytes: pattern(0) },
        { name: 'one.bin', bytes: pattern(1) },
        { name: '<img src=x onerror=alert(1)>.html', bytes: pattern(9) },
        { name: 'Übersicht "Straße" ‪.txt'.replace('‪', ''), bytes: pattern(10) },
      ];
      const link = await receiver.share(sent, { note: '<b>Here</b>\nthey are.', from: 'Anna' });
      const watched = await open(link);
      await shows(watched, 'This link can still be opened 5 times');
      expect(watched.requests.filter((each) => each.includes('/open'))).toEqual([]);
      await click(watched, 'Open');
      await shows(watched, '5 files for you');
      await shows(watched, '<b>Here</b>\nthey are.');
      for (const { name, bytes } of sent) {
        const file = await downloaded(watched.page, `Save ${name}`);
        equal(new Uint8Array(present(file).bytes), bytes);
        // Chromium keeps out of a file's name what file systems refuse.
        expect(present(file).name).toBe(name.replace(/[<>"]/g, '_'));
      }
      // The browser has a download before the page says so.
      const text = 'Complete and checked. Your browser is saving it now.';
      await expect.poll(() => watched.page.locator('.state', { hasText: text }).count()).toBe(sent.length);
    });

    test('is used up by opening it, and by nothing else', async () => {
      const link = await receiver.share([{ name: 'a', bytes: pattern(5) }], { opens: 1 });
      const watched = await open(link);
      for (let count = 0; count < (long ? 3 : 1); count += 1) {
        await shows(watched, 'This link can be opened once');
        expect(await watched.page.locator('nav a:visible').allInnerTexts()).toEqual(['Send', 'Open', 'Links']);
        await visit(watched, link);
      }
      await click(watched, 'Open');
      await shows(watched, 'A file for you');
      const other = await open(link);
      await other.page.locator('#problem:not([hidden])').waitFor();
      expect(await title(other)).toBe('This link is used up');
    });

    test('with a password takes wrong ones first, without another open', async () => {
      const link = await receiver.share([{ name: 'a', bytes: pattern(5) }], { opens: 1, password: 'violet anchor' });
      const watched = await open(link);
      for (const wrong of long ? ['no', 'violet'] : ['violet']) {
        await watched.page.getByLabel('Password', { exact: true }).fill(wrong);
        await watched.page.keyboard.press('Enter');
        await shows(watched, 'This password does not open it.');
      }
      await watched.page.getByLabel('Password', { exact: true }).fill('violet anchor');
      await watched.page.keyboard.press('Enter');
      await shows(watched, 'A file for you');
      equal(new Uint8Array(present(await downloaded(watched.page, 'Save a')).bytes), pattern(5));
      expect(watched.requests.filter((each) => each.includes('/open'))).toHaveLength(1);
    });

    inCi('that is sealed to a key asks for it, without another open', async () => {
      const pair = await keys;
      const link = await receiver.share([{ name: 'a', bytes: pattern(5) }], { opens: 1, keys: pair.publicKey });
      const watched = await open(link);
      await click(watched, 'Open');
      await shows(watched, 'The file has the key that it was encrypted to.');
      const buffer = Buffer.from(pair.privateKey);
      await watched.page.getByLabel('Private key').setInputFiles({ name: 'key.pem', mimeType: 'text/plain', buffer });
      await click(watched, 'Open');
      await shows(watched, 'A file for you');
    });

    inCi('whose files are saved at once names its tab by what it shows again', async () => {
      const files = [
        { name: 'a.bin', bytes: pattern(3_000_000) },
        { name: 'b.bin', bytes: pattern(5) },
      ];
      const watched = await open(await receiver.share(files));
      const { page } = watched;
      await click(watched, 'Open');
      await shows(watched, '2 files for you');
      const before = await page.title();
      await page.evaluate(() => {
        const title = document.querySelector('title');
        const other = document.querySelector<HTMLElement>('#save-1');
        if (title === null || other === null) throw new Error('the page has neither');
        const observer = new MutationObserver(() => {
          if (!document.title.includes('a.bin')) return;
          observer.disconnect();
          other.click();
        });
        observer.observe(title, { childList: true });
      });
      await click(watched, 'Save a.bin');
      await expect.poll(() => page.locator('#files [data-state=done]').count()).toBe(2);
      expect(await page.title()).toBe(before);
    });

    inCi.each([
      ['pinning_lost', 502, 'The service has lost this file.'],
      ['content_denied', 410, 'The operator of this service has blocked this file.'],
    ] as const)('whose file the service cannot give says why, and asks once: %s', async (code, status, words) => {
      const watched = await open(await receiver.share([{ name: 'a', bytes: pattern(5) }]));
      let asked = 0;
      await watched.page.route('**/ipfs/**', (route) => {
        asked += 1;
        const body = JSON.stringify({ type: 'about:blank', title: 'x', status, code });
        return route.fulfill({ status, contentType: 'application/problem+json', body });
      });
      await click(watched, 'Open');
      await click(watched, 'Save a');
      await watched.page.locator('.state', { hasText: words }).waitFor();
      expect(asked).toBe(1);
    });

    inCi('that ended, is unknown, incomplete or changed says so', async () => {
      const revoked = await receiver.share([{ name: 'a', bytes: pattern(5) }]);
      await receiver.revoke(revoked);
      const link = await receiver.share([{ name: 'a', bytes: pattern(5) }]);
      const unknown = 'http://x/s#1000SYW7RiJxkEgOGusQGwp003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf2IXq88';
      const titles: [string, string][] = [
        [revoked, 'This link was taken back'],
        [unknown.replace('http://x/', receiver.root), 'There is nothing behind this link'],
        [link.slice(0, -1), 'This link is incomplete or mistyped'],
        [`${receiver.root}s`, 'The key is missing'],
      ];
      const watched = await receiver.open(`${receiver.root}open`);
      onTestFinished(watched.close);
      for (const [address, expected] of titles) {
        await visit(watched, address);
        expect(await title(watched)).toBe(expected);
      }
      await visit(watched, `${link}&utm_source=mail`);
      await shows(watched, 'This link can still be opened 5 times');
      await visit(watched, link.replace('#', '%23'));
      await shows(watched, 'The # of this link had been turned into %23');
    });
  });

  describe('a blob', () => {
    inCi('of age opens by the file key in its link, by a password, and by a key file', async () => {
      const bytes = pattern(1_500_000);
      const pair = await keys;
      const byLink = await open(await receiver.blobLink(bytes, pair));
      await click(byLink, 'Open');
      const byPassword = await open(`${receiver.root}b#${await receiver.storeContainer(bytes, { password: 'pw' })}`);
      await byPassword.page.getByLabel('Password', { exact: true }).fill('pw');
      await click(byPassword, 'Open');
      const cid = await receiver.storeContainer(bytes, { keys: pair.publicKey });
      const byKey = await open(`${receiver.root}open`);
      await byKey.page.getByLabel('Link or blob ID').fill(` ipfs://${cid}\n`);
      await click(byKey, 'Open');
      await byKey.page.locator('#asked:not([hidden])').waitFor();
      await byKey.page.getByLabel('Private key').setInputFiles({
        name: 'key.pem',
        mimeType: 'text/plain',
        buffer: Buffer.from(pair.privateKey),
      });
      await click(byKey, 'Open');
      for (const watched of [byLink, byPassword, byKey]) {
        await shows(watched, 'A file for you');
        equal(
          new Uint8Array(
            present(await downloaded(watched.page, `Save ${await watched.page.locator('#name-0').innerText()}`)).bytes,
          ),
          bytes,
        );
      }
    });

    test('opens as age wrote it in armor', async () => {
      const plain = crypto.getRandomValues(new Uint8Array(65_536));
      const sealed = Buffer.from(await (await ageFile(plain, { password: 'pw' })).arrayBuffer()).toString('base64');
      const lines = ['-----BEGIN AGE ENCRYPTED FILE-----', ...(sealed.match(/.{1,64}/g) ?? [])];
      const { cid } = await receiver.connection.put(`${lines.join('\n')}\n-----END AGE ENCRYPTED FILE-----\n`, {
        mode: 'plain',
      });
      const watched = await open(`${receiver.root}b#${cid}`);
      await watched.page.getByLabel('Password', { exact: true }).fill('pw');
      await click(watched, 'Open');
      await shows(watched, 'A file for you');
      const name = await watched.page.locator('#name-0').innerText();
      equal(new Uint8Array(present(await downloaded(watched.page, `Save ${name}`)).bytes), plain);
    });

    test('that is not encrypted, or is not here, is refused', async () => {
      const { cid } = await receiver.connection.put('plain', { mode: 'plain' });
      const watched = await receiver.open(`${receiver.root}b#${cid}`);
      onTestFinished(watched.close);
      await shows(watched, 'These bytes are not encrypted');
      const absent = 'bafkreiaaaebagbafaydqqcikbmga2dqpcaireeyuculbogazdinryhi6d4';
      await visit(watched, `${receiver.root}b#${absent}`);
      expect(await title(watched)).toBe('There is nothing behind this link');
    });
  });

  describe('the page at /open', () => {
    inCi('opens a file of this device without a network', async () => {
      const sealed = await ageFile(new TextEncoder().encode('from this computer'), { password: 'pw' });
      const buffer = Buffer.from(await sealed.arrayBuffer());
      const watched = await open(`${receiver.root}open`);
      // What computes with keys is fetched as long as there is a network.
      await expect.poll(() => watched.requests.some((each) => each.includes('/web/curves-'))).toBe(true);
      await watched.page.context().setOffline(true);
      await watched.page
        .getByLabel('Choose an encrypted file')
        .setInputFiles({ name: 'letter.txt.age', mimeType: 'application/octet-stream', buffer });
      await watched.page.getByLabel('Password', { exact: true }).fill('wrong');
      await click(watched, 'Open');
      await shows(watched, 'This password does not open it.');
      await watched.page.getByLabel('Password', { exact: true }).fill('pw');
      await click(watched, 'Open');
      await shows(watched, 'letter.txt');
      const file = await downloaded(watched.page, 'Save letter.txt');
      expect(present(file).bytes.toString()).toBe('from this computer');
    });

    test('sends to where a link of another service is opened, and nothing to that service', async () => {
      const watched = await open(`${receiver.root}open`);
      const link = 'https://sealpin.example/s#1000SYW7RiJxkEgOGusQGwp003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf2IXq88';
      await watched.page.getByLabel('Link or blob ID').fill(`“${link}”`);
      await click(watched, 'Open');
      await shows(watched, 'It is opened at sealpin.example.');
      expect(await watched.page.getByRole('link', { name: 'Go to' }).getAttribute('href')).toBe(link);
      expect(watched.requests.filter((each) => each.includes('sealpin.example'))).toEqual([]);
      await click(watched, 'Open something else');
      await watched.page.getByLabel('Link or blob ID').fill('https://example.org/');
      await click(watched, 'Open');
      await shows(watched, 'This is not a link of Sealpin');
    });
  });
});
