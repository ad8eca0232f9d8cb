/**
 * Every state of the pages, at each width, in each language and colour scheme: nothing stands
 * beside the page, and axe finds nothing. With `SEALPIN_PICTURES=<folder>` each one is drawn, also
 * in forced colours, to be looked at.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { long } from '../../../testkit/long-run.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { Receiver, violations } from '../receiver.ts';
import { Journey, type Look } from './journey.ts';
import { states } from './every-state.ts';

const folder = process.env['SEALPIN_PICTURES'];
const widths = [320, 768, 1280];

const looks: Look[] = (['en-GB', 'de-DE'] as const).flatMap((locale) =>
  (['light', 'dark'] as const).map((colorScheme) => ({ locale, colorScheme, forcedColors: 'none' as const })),
);
if (folder !== undefined) looks.push({ locale: 'en-GB', colorScheme: 'light', forcedColors: 'active' });

withProgram('chromium', { probe: ['--version'] }, () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });

  describe.runIf(long || folder !== undefined).each(looks)(
    '$locale, $colorScheme, forced colours: $forcedColors',
    (look) => {
      test.each(states)('$name', async ({ name, go }) => {
        const journey = await Journey.start(receiver, look);
        const { page } = journey;
        try {
          await go(journey);
          for (const width of widths) {
            // 320 px wide is also a screen of 1280 px at 400 %.
            await page.setViewportSize({ width, height: 800 });
            expect(await page.evaluate(() => document.documentElement.scrollWidth), `${width} px`).toBe(width);
            if (folder === undefined) continue;
            const kind = look.forcedColors === 'active' ? 'forced' : look.colorScheme;
            const path = join(folder, `${look.locale.slice(0, 2)}-${kind}-${width}`, `${name}.png`);
            await mkdir(join(path, '..'), { recursive: true });
            await page.screenshot({ path, fullPage: true, animations: 'disabled' });
          }
          expect(await violations(page)).toEqual([]);
        } finally {
          await journey.close();
        }
      });
    },
  );
});
