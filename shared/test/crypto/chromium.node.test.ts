import { readdir } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Outcome } from './chromium-page.ts';
import { pathOf, withProgram } from '../../../testkit/programs.ts';

const suites = [
  'apiKeys',
  'containers',
  'detached',
  'fileKeys',
  'flow',
  'golden',
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
  'rewrapping',
  'testkit',
  'wycheproof',
];

withProgram('chromium', { probe: ['--version'] }, () => {
  describe('Chromium, web backend', () => {
    let server: Server;
    let browser: Browser;
    let page: Page;

    beforeAll(async () => {
      const { outputFiles } = await build({
        entryPoints: [fileURLToPath(new URL('chromium-page.ts', import.meta.url))],
        bundle: true,
        format: 'iife',
        target: 'chrome120',
        write: false,
      });
      const script = outputFiles[0]!.contents;
      // WebCrypto needs a secure context, which a page of the loopback address is.
      server = createServer((request, response) => {
        const isScript = request.url === '/suites.js';
        response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
        response.end(isScript ? script : '<!doctype html><meta charset="utf-8"><script src="/suites.js"></script>');
      });
      await new Promise<void>((resolve) => {
        server.listen(0, '127.0.0.1', resolve);
      });
      browser = await chromium.launch({
        executablePath: pathOf('chromium')!,
        args: [
          '--headless',
          '--no-sandbox',
          '--disable-gpu',
          '--disable-quic',
          '--no-first-run',
          '--disable-background-networking',
          '--disable-component-update',
          '--disable-sync',
        ],
      });
      page = await browser.newPage();
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    });

    afterAll(async () => {
      await browser.close();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    });

    test('every suite of the folders is in the page', async () => {
      const folders = ['suites/', '../link/suites/'].map((folder) => readdir(new URL(folder, import.meta.url)));
      const names = (await Promise.all(folders))
        .flat()
        .map((file) => file.replace('.ts', '').replace(/-(.)/g, (_, letter: string) => letter.toUpperCase()));
      expect(names.sort()).toEqual(suites);
      expect(await page.evaluate('Object.keys(sealpin.suites).length')).toBe(suites.length);
    });

    for (const suite of suites) {
      test(suite, { timeout: 120_000 }, async () => {
        const { passed, failed, notes } = await page.evaluate<Outcome>(`sealpin.run('${suite}')`);
        // oxlint-disable-next-line no-console -- the counts of vectors are what the run is asked to show
        for (const note of notes) console.log(`chromium, web backend: ${note}`);
        expect(failed).toEqual([]);
        expect(passed.length).toBeGreaterThan(0);
      });
    }
  });
});
