import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Outcome } from '../../testkit/browsers/page-suites.ts';
import { inEveryBrowser } from '../../testkit/browsers/browsers.ts';
import { startPage, type RunningPage } from '../../testkit/browsers/page.ts';
import { inCi, long } from '../../testkit/long-run.ts';

const suites = [
  'apiKeys',
  'armoredForms',
  'cars',
  'cids',
  'containers',
  'detached',
  'details',
  'fileKeys',
  'files',
  'flow',
  'golden',
  'hashingStreams',
  'hostileHeaders',
  'hostilePayloads',
  'hostileStanzas',
  'hpke',
  'keys',
  'links',
  'parcels',
  'passwords',
  'postQuantum',
  'properties',
  'ranges',
  'recognition',
  'resumedPayloads',
  'rewrapping',
  'testkit',
  'trees',
  'writtenCars',
  'wycheproof',
];

/**
 * In the short form Node and workerd run these alone: they are long, or say little about an engine.
 */
const longSuites = new Set([
  'cars',
  'cids',
  'containers',
  'files',
  'hashingStreams',
  'hostilePayloads',
  'links',
  'properties',
  'testkit',
  'trees',
  'writtenCars',
  'wycheproof',
]);

/** CI runs these, too: what they say about an engine, those that are left say as well. */
const ciSuites = new Set([
  'armoredForms',
  'detached',
  'hostileHeaders',
  'parcels',
  'ranges',
  'recognition',
  'rewrapping',
]);

/** Timeout for a browser to start beside other tests. */
const startMs = 180_000;

inEveryBrowser((browser) => {
  let running: RunningPage;
  beforeAll(async () => {
    running = await startPage(fileURLToPath(new URL('suites-page.ts', import.meta.url)), { browser });
  }, startMs);
  afterAll(() => running.close());

  test('every suite of the folders is in the page', async () => {
    const folders = ['crypto/suites/', 'ipfs/suites/', 'link/suites/'].map((folder) =>
      readdir(new URL(folder, import.meta.url)),
    );
    const names = (await Promise.all(folders))
      .flat()
      .map((file) => file.replace('.ts', '').replace(/-(.)/g, (_, letter: string) => letter.toUpperCase()));
    expect(names.sort()).toEqual(suites);
    expect(await running.evaluate('Object.keys(sealpin.suites).length')).toBe(suites.length);
  });

  for (const suite of suites) {
    const declare = longSuites.has(suite) ? test.runIf(long) : ciSuites.has(suite) ? inCi : test;
    declare(suite, { timeout: 120_000 }, async () => {
      const { passed, failed, notes } = await running.evaluate<Outcome>(`sealpin.run('${suite}')`);
      // oxlint-disable-next-line no-console -- the counts of vectors are what the run is asked to show
      for (const note of notes) console.log(`${browser}, web provider: ${note}`);
      expect(failed).toEqual([]);
      expect(passed.length).toBeGreaterThan(0);
    });
  }
});
