/** The lists of the pages: what they show of many, and after something was deleted or has ended. */
import { isDeepStrictEqual } from 'node:util';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Locator, Page } from 'playwright-core';
import { connect, generateKeys, handOver, receive, type Connection } from '../../../client/index.ts';
import { parseRecipients } from '../../../shared/crypto/index.ts';
import { parseLinkOf, sealFileDetails } from '../../../shared/link/index.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { first, itemOf } from '../../../testkit/present.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { nothing, readStorage } from '../in-page.ts';
import { copiedLink, Receiver, violations, type Watched } from '../receiver.ts';

/** Runs in the page: the number of the row that has the focus, or the ID of what else has it. */
function focused(): number | string {
  const here = document.activeElement;
  const row = here?.closest('li');
  const rows = [...(row?.closest('main > section')?.querySelectorAll('li') ?? [])];
  return row ? rows.indexOf(row) : (here?.id ?? '');
}

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  /** Opens a page; whatever it complained about fails the test, but for refusals. */
  async function open(address: string): Promise<Watched> {
    const watched = await receiver.open(address);
    onTestFinished(async () => {
      await watched.close();
      expect(watched.complaints.filter((each) => !/status of (?:404|503)/.test(each))).toEqual([]);
    });
    return watched;
  }

  const shows = (page: Page, state: string): Promise<void> => page.locator(`#${state}:not([hidden])`).waitFor();

  async function account(): Promise<{ apiKey: string; connection: Connection }> {
    const { apiKey } = await receiver.service.account();
    return { apiKey, connection: connect({ service: receiver.root, apiKey }) };
  }

  async function signIn(path: string, apiKey: string): Promise<Page> {
    const { page } = await open(receiver.root + path);
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    return page;
  }

  type Deleting = { page: Page; connection: Connection; row(fileId: string): Locator };
  const remove = async (page: Page, row: Locator): Promise<void> => {
    await row.locator('.delete').click();
    await page.locator('#confirming-yes').click();
  };
  const idAt = async ({ connection }: Deleting, index: number): Promise<string> =>
    itemOf((await connection.list()).files, index).fileId;

  /** What takes files away, and where the focus is then. */
  const deletions: [string, number | string, (o: Deleting) => Promise<void>][] = [
    [
      'a delivery, whose files are on the next page',
      18,
      async (o) => {
        const row = o.row(await idAt(o, 19));
        expect(await row.innerText()).toMatch(/^A delivery to an inbox, .+\n+bafkrei\w+…\n/);
        await remove(o.page, row);
        expect(await o.page.locator('#confirming-text').textContent()).toContain('files that came with it are deleted');
      },
    ],
    [
      'a file, asked for while the list is read again after a delivery',
      3,
      async (o) => {
        const [delivery, file] = [o.row(await idAt(o, 19)), o.row(await idAt(o, 3))];
        const { promise: released, resolve: release } = Promise.withResolvers<void>();
        await o.page.route(/storage\?/, async (route) => {
          await released;
          await route.continue();
        });
        await remove(o.page, delivery);
        await delivery.waitFor({ state: 'detached' });
        await file.locator('.delete').click();
        await file.evaluate((row) => row.setAttribute('data-before', ''));
        release();
        await o.page.locator('[data-before]').waitFor({ state: 'detached' });
        await o.page.locator('#confirming-yes').click();
      },
    ],
    [
      'a file that is gone already',
      3,
      async (o) => {
        const id = await idAt(o, 3);
        await o.connection.delete(id);
        await remove(o.page, o.row(id));
      },
    ],
    [
      'nothing, but was to send on a file that is gone',
      'stored-title',
      async (o) => {
        const id = await idAt(o, 5);
        await o.connection.delete(id);
        await o.row(id).locator('.send-on').click();
        await o.page.locator('#compose-button').click();
        await o.page.locator('#compose-error', { hasText: 'The file is not there any more.' }).waitFor();
        await o.page.locator('#compose-back').click();
      },
    ],
    ['the last one', 20, async (o) => remove(o.page, o.row(await idAt(o, 21)))],
  ];
  test.each(ci ? deletions : deletions.slice(0, 1))(
    '/files shows what is stored after it has deleted %s',
    async (...o) => {
      const [, focus, act] = o;
      const { apiKey, connection } = await account();
      const { recipient } = await generateKeys();
      const { link } = await connection.inbox.create({ label: 'office', recipient });
      await handOver(link, [new File(['x'], 'x'), new File(['y'], 'y')], { from: 'Ann' });
      await Promise.all(
        Array.from({ length: 19 }, (_, count) => connection.put(String(count), { name: `${count}.txt` })),
      );
      const page = await signIn('files', apiKey);
      const shown = (): Promise<string[]> =>
        page.locator('#stored-files bdi').evaluateAll((all) => all.map(({ id }) => id.slice('stored-'.length)));
      await expect.poll(async () => (await shown()).length).toBe(20);
      await page.getByRole('button', { name: 'Show more' }).click();
      await expect.poll(async () => (await shown()).length).toBe(22);
      const row = (id: string): Locator =>
        page.locator('#stored-files li', { has: page.locator(`[id="stored-${id}"]`) });
      await act({ page, connection, row });
      const stored = async (): Promise<string[]> => (await connection.list()).files.map(({ fileId }) => fileId);
      await expect.poll(async () => isDeepStrictEqual(await shown(), await stored())).toBe(true);
      expect(await page.locator('.error:visible').count()).toBe(0);
      await expect.poll(() => page.evaluate(focused)).toBe(focus);
    },
  );

  /** Lists that come in pages: rows of a page, its request, and how one comes to two rows more. */
  const lists: [string, number, string, (rows: number) => Promise<{ page: Page; show(): Promise<void> }>][] = [
    [
      '/inbox',
      10,
      '**/v1/storage?*',
      async (rows) => {
        const { apiKey, connection } = await account();
        const { recipient, privateKey } = await generateKeys();
        const { link } = await connection.inbox.create({ label: 'office', recipient });
        for (let count = 0; count < rows; count += 1) await handOver(link, new File(['x'], 'x'), { from: 'Ann' });
        const page = await signIn('inbox', apiKey);
        await shows(page, 'reading');
        const key = { name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(privateKey) };
        return { page, show: () => page.locator('#private-key').setInputFiles(key) };
      },
    ],
    [
      '/files',
      20,
      '**/v1/storage?*',
      async (rows) => {
        const { apiKey, connection } = await account();
        for (let count = 0; count < rows; count += 1) await connection.put('x', { name: `${count}.txt` });
        const { page } = await open(`${receiver.root}files`);
        await page.locator('#api-key').fill(apiKey);
        return { page, show: () => page.keyboard.press('Enter') };
      },
    ],
    [
      'an invitation',
      20,
      '**/v1/shares?*',
      async (rows) => {
        const { connection } = await account();
        const { link } = await connection.invitation.create({ label: 'Ann' });
        const { service, apiKey } = parseLinkOf(link, 'invitation').link;
        const guest = connect({ service, apiKey });
        const expiresAt = new Date(Date.now() + 86_400_000);
        for (let count = 0; count < rows; count += 1) await guest.send(new File(['x'], 'x'), { expiresAt });
        const { page } = await open(link);
        await shows(page, 'compose');
        return { page, show: () => page.locator('#compose-back').click() };
      },
    ],
  ];
  inCi.each(lists)(
    'the list of %s shows all, a page at a time, also after a refusal, and gives the focus to what is new',
    async (_, rows, address, make) => {
      const { page, show } = await make(rows + 2);
      const refused = { status: 503, json: { type: '', title: '', status: 503, code: 'overloaded' } };
      await page.context().route(address, (route) => route.fulfill(refused), { times: 1 });
      await show();
      const more = page.getByRole('button', { name: 'Show more' });
      await page.locator('.error:visible', { hasText: 'The service is busy' }).waitFor();
      expect(await page.locator('section:visible > h1 + p').first().innerText()).toBe('');
      const count = (): Promise<number> => page.locator('.rows:visible li').count();
      for (const [shown, focus] of [
        [rows, 0],
        [rows + 2, rows],
      ] as const) {
        await more.focus();
        await page.keyboard.press('Enter');
        await expect.poll(count).toBe(shown);
        await expect.poll(() => page.evaluate(focused)).toBe(focus);
      }
      expect(await more.isVisible()).toBe(false);
    },
  );

  inCi('sealed names are shown to the private key that opens them, each beside its own file', async () => {
    const { apiKey } = await receiver.service.account();
    const connection = connect({ service: receiver.root, apiKey });
    const { privateKey, publicKey } = await generateKeys();
    const stored = [await connection.put('one', { mode: 'plain' }), await connection.put('two', { mode: 'plain' })];
    const details = await sealFileDetails(
      { cid: itemOf(stored, 1).cid, name: 'the plans.pdf' },
      { recipients: parseRecipients(publicKey) },
    );
    for (const { fileId } of stored)
      await fetch(`${receiver.root}v1/storage/${fileId}`, {
        method: 'PATCH',
        headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ details: Buffer.from(details).toString('base64') }),
      });
    const { page } = await open(`${receiver.root}files`);
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    const rows = page.locator('#stored-files li');
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByText('Show sealed names').click();
    expect(await violations(page)).toEqual([]);
    const give = (text: string): Promise<void> =>
      page.locator('#names-key').setInputFiles([{ name: 'private.key', mimeType: '', buffer: Buffer.from(text) }]);
    await give('no key');
    await page.locator('#names-error:not([hidden])').waitFor();
    await give(privateKey);
    await expect.poll(() => rows.first().innerText()).toContain('the plans.pdf');
    expect(await rows.last().innerText()).toMatch(/^3\sbytes, [^]*the name does not belong to this file/);
    expect(await page.evaluate(readStorage)).toEqual(nothing);
  });

  inCi('stored files are listed in pages, sent on, and deleted once it is confirmed', async () => {
    const { apiKey } = await receiver.service.account();
    const connection = connect({ service: receiver.root, apiKey });
    await Promise.all(
      Array.from({ length: 20 }, (_, count) => connection.put(String(count), { name: `${count}.txt` })),
    );
    const nameless = [
      await connection.put('sealed', { mode: 'plain' }),
      await connection.put('sealed, too', { mode: 'plain' }),
    ];
    const { page } = await open(`${receiver.root}files`);
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    const rows = page.locator('#stored-files li');
    await expect.poll(() => rows.count()).toBe(20);
    await page.getByRole('heading', { name: 'Today' }).waitFor();
    expect(await page.getByRole('button', { name: 'Send on' }).count()).toBe(18);
    const shown = nameless.map(({ cid }) => new RegExp(`^Delete \\d+\\sbytes, .* ${cid.slice(0, 16)}…`));
    for (const name of shown) expect(await page.getByRole('button', { name }).count()).toBe(1);
    expect(await rows.first().innerText()).toContain('stored as it came');
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Show more' }).click();
    await expect.poll(() => rows.count()).toBe(22);
    expect(await page.locator('#stored-files h2').count()).toBe(1);

    await page.getByRole('button', { name: 'Send on 7.txt' }).click();
    await page.getByRole('button', { name: 'Make the link' }).click();
    const link = await copiedLink(page);
    const { files } = await receive(link);
    expect(first(files).name).toBe('7.txt');
    expect(await (await first(files).open()).text()).toBe('7');
    await page.getByRole('button', { name: 'Back to your files' }).click();

    await page.getByRole('button', { name: 'Delete 7.txt' }).click();
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Keep it' }).click();
    expect(await rows.count()).toBe(22);
    await page.getByRole('button', { name: 'Delete 7.txt' }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await expect.poll(() => rows.count()).toBe(21);
    expect(await page.getByRole('status').innerText()).toBe('7.txt is deleted. Its key is destroyed.');
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
    expect((await connection.list({ limit: 100 })).files).toHaveLength(21);
  });
});
