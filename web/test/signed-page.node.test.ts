/** What the page says of a signature, in six words. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shareParcel } from '../../client/sharing.ts';
import { serviceHttp } from '../../client/service-http.ts';
import { parcelSigner } from '../../shared/crypto/index.ts';
import { parseLink, printLink } from '../../shared/link/index.ts';
import { fingerprint } from '../../cli/keys/fingerprint.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { Receiver, violations } from './receiver.ts';

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });
  afterAll(() => receiver.close());

  const signer = parcelSigner(new Uint8Array(32).fill(3));

  async function signedLink(): Promise<string> {
    const file = await receiver.store({ name: 'plan.txt', bytes: new TextEncoder().encode('A house') });
    const http = serviceHttp({ service: receiver.root, apiKey: receiver.apiKey });
    const { link } = await shareParcel(
      http,
      { parcel: { files: [file], from: 'Ann' }, files: [] },
      {},
      { recipients: [], signer },
    );
    return link;
  }

  async function shown(link: string, locale = 'en-GB') {
    const { page, complaints, close } = await receiver.open(link, { locale });
    await page.locator('#open-button').click();
    await page.locator('#signed').waitFor();
    const text = await page.locator('#signed').innerText();
    const isWarning = (await page.locator('#signed.warning').count()) > 0;
    const found = { text, isWarning, complaints, violations: await violations(page) };
    if (process.env['SEALPIN_SHOTS'] !== undefined)
      await page.screenshot({
        path: `${process.env['SEALPIN_SHOTS']}/signed-${locale}-${isWarning}.png`,
        fullPage: true,
      });
    await close();
    return found;
  }

  test('shows the words of a signature, and warns where it does not count', async () => {
    const link = await signedLink();
    const words = await fingerprint(signer.text);
    const valid = await shown(link);
    expect(valid).toMatchObject({ isWarning: false, complaints: [], violations: [] });
    expect(valid.text).toContain(`Signed with the key ${words}`);
    expect((await shown(link, 'de-DE')).text).toContain(`Unterschrieben mit dem Schlüssel ${words}`);
    // The same record at another share.
    const { id, secret } = parseLink(link).link as { id: string; secret: Uint8Array };
    const opened = await fetch(`${receiver.root}v1/shares/${id}/open`, { method: 'POST' });
    const { record } = (await opened.json()) as { record: string };
    const made = await fetch(`${receiver.root}v1/shares`, {
      method: 'POST',
      headers: { authorization: `Bearer ${receiver.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ record, files: [], password: false }),
    });
    const again = (await made.json()) as { id: string };
    const replayed = await shown(printLink({ kind: 'share', service: receiver.root, id: again.id, secret }));
    expect(replayed).toMatchObject({ isWarning: true, violations: [] });
    expect(replayed.text).toContain(`${words} signed it for another link`);
  });

  test('says nothing of what is not signed', async () => {
    const { page, close } = await receiver.open(await receiver.share([{ name: 'a', bytes: new Uint8Array(3) }]));
    await page.locator('#open-button').click();
    await page.locator('#opened').waitFor();
    expect(await page.locator('#signed').isHidden()).toBe(true);
    await close();
  });
});
