/** A page of the service that sends a large file. */
import { randomBytes } from 'node:crypto';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { receive } from '../../../client/index.ts';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { launchChromium } from '../../../testkit/browsers/chromium.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first } from '../../../testkit/present.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { localPaths } from '../../local/state.ts';
import { temporaryDirectory } from '../environment.ts';
import { remove, startHere } from '../local/harness.ts';
import { uploadsTo } from './tus-uploads.ts';

withProgram('chromium', { probe: ['--version'] }, () => {
  inCi('what a page sends goes past the runtime', async () => {
    const service = await startHere();
    onTestFinished(() => remove(service));
    const path = join(await temporaryDirectory(), 'film');
    const bytes = randomBytes(18 * leafBytes);
    await writeFile(path, bytes);
    const browser = await launchChromium();
    onTestFinished(() => browser.close());
    const page = await browser.newPage();
    await page.goto(`${service.url}/send`);
    await page.locator('#api-key').fill(service.apiKey);
    await page.keyboard.press('Enter');
    await page.locator('#compose:not([hidden])').waitFor();
    await page.locator('#choose').setInputFiles(path);
    await page.locator('#compose-button').click();
    await page.locator('#sent:not([hidden])').waitFor();

    const sizes = { car: 0, part: 0 };
    for (const name of await uploadsTo(service).filesOnDisk()) {
      const { size } = await stat(join(localPaths(service.dataDir).ipfs, 'data', name));
      sizes[name.endsWith('.car') ? 'car' : 'part'] += size;
    }
    // What the runtime passes on arrives as a CAR, as the last node of the file does.
    expect(sizes.car).toBeLessThan(leafBytes);
    expect(sizes.part).toBeGreaterThanOrEqual(bytes.length);
    const { files } = await receive(await page.locator('#sent-link').inputValue());
    const back = await first(files).open();
    expect(Buffer.from(await back.bytes()).equals(bytes)).toBe(true);
  });
});
