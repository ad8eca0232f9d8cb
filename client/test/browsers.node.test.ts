import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Outcome } from '../../testkit/browsers/page-suites.ts';
import { inEveryBrowser } from '../../testkit/browsers/browsers.ts';
import { startPage, type RunningPage } from '../../testkit/browsers/page.ts';
import { startService, type Service } from '../../testkit/service.ts';
import { ci, long } from '../../testkit/long-run.ts';

/** Timeout for a browser to start beside other tests. */
const startMs = 180_000;

inEveryBrowser((browser) => {
  let running: RunningPage;
  let service: Service;
  beforeAll(async () => {
    running = await startPage(fileURLToPath(new URL('suites-page.ts', import.meta.url)), { browser });
    service = await startService({ vars: { CORS_ORIGINS: running.origin } });
  }, startMs);
  afterAll(() => Promise.all([running.close(), service.close()]));

  // Sealing to a password is in the long form: no engine does it in a way of its own, and it costs
  // all that passwords cost.
  const suites = ['containers', 'endings', ...(long ? ['passwordSealing'] : []), 'requestBodies', 'sending'];
  test.each(suites)('%s', async (suite) => {
    const { passed, failed } = await running.evaluate<Outcome>(`sealpin.run('${suite}')`);
    expect(failed).toEqual([]);
    expect(passed.length).toBeGreaterThan(0);
  });

  test('stores files at a service of another origin, and reads them back', async () => {
    const { apiKey } = await service.account();
    // Parts cost Chromium a second, since Playwright gets a copy of them.
    const largeMib = ci ? 17 : 1;
    expect(await running.evaluate(`roundTrips('${service.url}', '${apiKey}', ${largeMib})`)).toEqual([]);
  });
});
