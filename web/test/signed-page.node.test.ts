/** What the page says of a signature: six words, or the name that its reader gave to them. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { deliver } from '../../client/inboxes.ts';
import { connect, generateKeys } from '../../client/index.ts';
import { shareParcel } from '../../client/sharing.ts';
import { serviceHttp } from '../../client/service-http.ts';
import { encryptPayload, parcelSigner, parseRecipients } from '../../shared/crypto/index.ts';
import { encodeParcel, newShareId, parseLinkOf, printLink, type Parcel } from '../../shared/link/index.ts';
import type { Signing } from '../../shared/link/parcel-signature.ts';
import { keyPairOf } from '../../shared/crypto/keys/key-file.ts';
import { fingerprint } from '../../cli/keys/fingerprint.ts';
import { inCi } from '../../testkit/long-run.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { nothing, readStorage } from './in-page.ts';
import { Receiver, violations, type Watched } from './receiver.ts';

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  const signer = parcelSigner(new Uint8Array(32).fill(3));
  const other = parcelSigner(new Uint8Array(32).fill(4));
  const third = parcelSigner(new Uint8Array(32).fill(6));
  const { recipient: someRecipient } = keyPairOf(new Uint8Array(32).fill(5));

  async function signedLink(by = signer): Promise<string> {
    const file = await receiver.store({ name: 'plan.txt', bytes: new TextEncoder().encode('A house') });
    const http = serviceHttp({ service: receiver.root, apiKey: receiver.apiKey });
    const { link } = await shareParcel(
      http,
      { parcel: { files: [file], from: 'Ann' }, files: [] },
      {},
      { recipients: [], signer: by },
    );
    return link;
  }

  const open = async (locale = 'en-GB'): Promise<Watched> => {
    const watched = await receiver.open('about:blank', { locale });
    onTestFinished(watched.close);
    return watched;
  };

  async function shown({ page }: Watched, link: string): Promise<{ text: string; isWarning: boolean }> {
    await page.goto('about:blank');
    await page.goto(link);
    await page.locator('#open-button').click();
    await page.locator('#signed').waitFor();
    const text = await page.locator('#signed').innerText();
    return { text, isWarning: (await page.locator('#signed.warning').count()) > 0 };
  }

  test('shows the words of a signature, and warns where it does not count', async () => {
    const link = await signedLink();
    const words = await fingerprint(signer.text);
    const watched = await open();
    const valid = await shown(watched, link);
    expect(valid.isWarning).toBe(false);
    expect(valid.text).toContain(`Signed with the key ${words}`);
    expect(await violations(watched.page)).toEqual([]);
    expect((await shown(await open('de-DE'), link)).text).toContain(`Unterschrieben mit dem Schlüssel ${words}`);
    for (const [what, make] of Object.entries(tampered)) {
      const found = await shown(watched, await linkTo(make));
      expect(found.isWarning, what).toBe(true);
      expect(found.text).toContain(what);
    }
    expect(await violations(watched.page)).toEqual([]);
    expect(watched.complaints).toEqual([]);
  });

  /** What somebody else makes of a parcel, by what the page says of it. */
  const tampered: Record<string, (parcel: Parcel, signing: Signing) => Uint8Array> = {
    'the signature is not that of': (parcel, signing) =>
      Buffer.from(Buffer.from(encodeParcel(parcel, signing)).toString('latin1').replace('plan', 'plot'), 'latin1'),
    'signed it for another link': (parcel, signing) => encodeParcel(parcel, { ...signing, id: newShareId() }),
    'signed it for other recipients': (parcel, signing) =>
      encodeParcel(parcel, { ...signing, recipients: [someRecipient] }),
  };

  /** A link to a parcel that is tampered with. */
  async function linkTo(make: (parcel: Parcel, signing: Signing) => Uint8Array): Promise<string> {
    const file = await receiver.store({ name: 'plan.txt', bytes: new TextEncoder().encode('A house') });
    const [service, id] = [receiver.root, newShareId()];
    const parcel = Buffer.from(make({ files: [file], from: 'Ann' }, { service, id, signer, recipients: [] }));
    const { payload, fileKey: secret } = await encryptPayload(new Blob([parcel]).stream());
    const record = Buffer.from(await new Response(payload).arrayBuffer()).toString('base64');
    const made = await fetch(`${service}v1/shares`, {
      method: 'POST',
      headers: { authorization: `Bearer ${receiver.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ id, record, files: [], password: false }),
    });
    expect(made.status).toBe(201);
    return printLink({ kind: 'share', service, id, secret });
  }

  inCi('remembers the name of a sender, tells of another key under that name, and forgets both', async () => {
    const { page, complaints, close } = await receiver.open('about:blank');
    const line = page.locator('#signed');
    const open = async (link: string): Promise<string> => {
      await page.goto('about:blank');
      await page.goto(link);
      await page.locator('#open-button').click();
      await line.waitFor();
      return line.innerText();
    };
    const remember = async (name: string): Promise<void> => {
      if (!(await page.locator('#know-name').isVisible())) await page.getByText('I have compared them').click();
      await page.locator('#know-name').fill(name);
      await page.getByRole('button', { name: 'Remember' }).click();
    };
    expect(await open(await signedLink())).toContain('Signed with the key ');
    expect((await page.evaluate(readStorage)).databases).toEqual([]);
    await page.getByText('I have compared them').click();
    expect(await violations(page)).toEqual([]);
    for (const blank of ['   ', '\u200b', '\u3164\u00ad']) {
      await remember(blank);
      await expect.poll(() => page.locator('#know-name:focus').inputValue()).toBe('');
    }
    expect((await page.evaluate(readStorage)).databases).toEqual([]);
    await remember(' Ann ');
    await page.getByText('Signed by Ann, whose six words you have compared.').first().waitFor();
    expect(await page.getByText('I have compared them').isVisible()).toBe(false);
    expect(await open(await signedLink())).toBe('Signed by Ann, whose six words you have compared.');
    // The sender's own words claim to be Ann, too.
    expect(await open(await signedLink(other))).toMatch(/^This is not the key by which you know Ann\. Signed with /);
    expect(await page.locator('#signed.warning').count()).toBe(1);
    await remember('ANN');
    await page.locator('#know-error', { hasText: 'You know Ann by another key.' }).waitFor();
    expect(await violations(page)).toEqual([]);
    await remember('Ann');
    await page.getByText('Signed by Ann, whose six words you have compared.').first().waitFor();
    expect(await open(await signedLink())).toContain('This is not the key by which you know Ann.');
    await page.goto(`${receiver.root}links`);
    await page.getByText('Senders whose words you have compared: Ann.').waitFor();
    expect(await violations(page)).toEqual([]);
    // One that was kept without a name is none, and goes with the rest.
    await page.evaluate(
      (signers) =>
        new Promise((resolve) => {
          const request = indexedDB.open('sealpin-links');
          request.addEventListener('success', () => {
            const store = request.result.transaction('signer', 'readwrite').objectStore('signer');
            for (const each of signers) store.put({ signer: each, name: '' });
            store.transaction.addEventListener('complete', () => resolve(request.result.close()));
          });
        }),
      [signer.text, other.text],
    );
    expect(await open(await signedLink())).toMatch(/^Signed with the key /);
    await page.goto(`${receiver.root}links`);
    await page.locator('#forget').click();
    await page.locator('#confirming-yes').click();
    await expect.poll(() => page.locator('#kept-signers').isVisible()).toBe(false);
    expect(await page.evaluate(readStorage)).toMatchObject({ ...nothing, session: expect.anything() });
    expect(await open(await signedLink())).toMatch(/^Signed with the key /);
    expect(complaints).toEqual([]);
    await close();
  });

  inCi('knows the sender of a delivery to an inbox', async () => {
    const { apiKey } = await receiver.service.account();
    const owner = connect({ service: receiver.root, apiKey });
    const { recipient, privateKey } = await generateKeys();
    const { link, key } = await owner.inbox.create({ label: 'office', recipient });
    const file = await receiver.store({ name: 'x.txt', bytes: new Uint8Array(3) });
    for (const by of [third, signer, other])
      await deliver(
        serviceHttp(parseLinkOf(link, 'inbox').link),
        { files: [file], from: 'Ann' },
        {
          recipients: parseRecipients(recipient),
          names: undefined,
          signing: { signer: by, id: key.id },
          signal: undefined,
        },
      );
    const { page, complaints, close } = await receiver.open(`${receiver.root}inbox`);
    await page.locator('#api-key').fill(apiKey);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Your inbox' }).waitFor();
    await page
      .locator('#private-key')
      .setInputFiles({ name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(privateKey) });
    const open = async (index: number): Promise<string> => {
      await page.getByRole('button', { name: 'Open Ann' }).nth(index).click();
      await page.locator('#signed').waitFor();
      const text = await page.locator('#signed').innerText();
      return text;
    };
    expect(await open(1)).toContain(`Signed with the key ${await fingerprint(signer.text)}`);
    await page.getByText('I have compared them').click();
    await page.locator('#know-name').fill('Ann');
    await page.keyboard.press('Enter');
    await page.getByText('Signed by Ann').first().waitFor();
    const back = page.getByRole('button', { name: 'What people sent you' });
    await back.click();
    const taken = page.locator('#know-error', { hasText: 'You know Ann by another key.' });
    // What is said of one delivery is not yet said of the next one.
    for (const index of [0, 2, 0]) {
      expect(await open(index)).toContain('This is not the key by which you know Ann.');
      await page.getByText('I have compared them').click();
      expect(await taken.isVisible()).toBe(false);
      expect(await page.locator('#know-name').inputValue()).toBe('');
      await page.locator('#know-name').fill('Ann');
      await page.keyboard.press('Enter');
      await taken.waitFor();
      await back.click();
    }
    expect(await open(1)).toContain('Signed by Ann');
    expect(complaints).toEqual([]);
    await close();
  });

  test('says nothing of what is not signed', async () => {
    const { page, close } = await receiver.open(await receiver.share([{ name: 'a', bytes: new Uint8Array(3) }]));
    await page.locator('#open-button').click();
    await page.locator('#opened').waitFor();
    expect(await page.locator('#signed').isHidden()).toBe(true);
    await close();
  });
});
