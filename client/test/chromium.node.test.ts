import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startPage, type RunningPage } from '../../testkit/chromium.ts';
import type { Outcome } from '../../testkit/page-suites.ts';
import { withProgram } from '../../testkit/programs.ts';
import { startService, type Service } from '../../testkit/service.ts';

withProgram('chromium', { probe: ['--version'] }, () => {
  describe('the SDK in Chromium', () => {
    let running: RunningPage;
    let service: Service;
    beforeAll(async () => {
      running = await startPage(fileURLToPath(new URL('chromium-page.ts', import.meta.url)));
      service = await startService({ vars: { CORS_ORIGINS: running.origin } });
    });
    afterAll(() => Promise.all([running.close(), service.close()]));

    test.each(['containers', 'endings', 'passwordSealing', 'requestBodies'])('%s', async (suite) => {
      const { passed, failed } = await running.page.evaluate<Outcome>(`sealpin.run('${suite}')`);
      expect(failed).toEqual([]);
      expect(passed.length).toBeGreaterThan(0);
    });

    test('stores files at a service of another origin, and reads them back', async () => {
      const { apiKey } = await service.account();
      expect(await running.page.evaluate(`roundTrips('${service.url}', '${apiKey}')`)).toEqual([]);
    });
  });
});
