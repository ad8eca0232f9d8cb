/**
 * tus-js-client and Uppy in Chromium, in a page of another origin, with the API key in a header.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { withBrowser } from '../../../../testkit/browsers/browsers.ts';
import { startPage, type RunningPage } from '../../../../testkit/browsers/page.ts';
import { programPath } from '../../../../testkit/programs/programs.ts';
import { startService, type Service } from '../../../../testkit/service.ts';
import { startBreakingProxy } from './breaking-proxy.ts';
import type { Action, Outcome, PageOptions } from './page/actions.ts';
import { send } from './request.ts';
import { ourUploads, startTusd, startTusNode, type TusServer } from './servers.ts';
import { present } from '../../../../testkit/present.ts';
import { inCi, long } from '../../../../testkit/long-run.ts';

const chunkSize = 512_000;
const file = randomBytes(2 ** 21 + 54_321);

withBrowser('Chromium', () => {
  let running: RunningPage;
  let service: Service;
  beforeAll(async () => {
    running = await startPage(join(import.meta.dirname, 'page/tus-page.ts'), { files: { '/file': file } });
    service = await startService({ vars: { CORS_ORIGINS: running.origin } });
  });
  afterAll(async () => {
    await service.close();
    await running.close();
  });

  const ours: [string, () => Promise<TusServer>][] = [
    ['our service, encrypted', () => ourUploads(service, 'encrypted')],
  ];
  const others: typeof ours = [
    ['our service, plain', () => ourUploads(service, 'plain')],
    ['@tus/server', startTusNode],
    ...(programPath('tusd') === undefined ? [] : ([['tusd', startTusd]] satisfies typeof ours)),
  ];

  describe.each(long ? [...ours, ...others] : ours)('%s', (_, start) => {
    let server: TusServer;
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.close());

    describe.each(['tusJs', 'uppy'] as const)('%s in Chromium', (client) => {
      // Uppy uploads by tus-js-client, and so stands for both.
      const isLeading = long || client === 'uppy';
      const ask = (action: Action, options: Partial<PageOptions> = {}): Promise<Outcome> => {
        const { endpoint, headers } = server;
        const all = { endpoint, headers, chunkSize, retryDelays: [0, 50, 200, 500], ...options };
        return running.evaluate<Outcome>(`clients.${client}('${action}', ${JSON.stringify(all)})`);
      };
      const isStored = async ({ url, isFinished }: Outcome): Promise<void> => {
        expect(isFinished).toBe(true);
        expect((await server.stored(present(url))).equals(file)).toBe(true);
      };
      beforeEach(async () => {
        // What a client has uploaded it knows again.
        await running.evaluate('localStorage.clear()');
        await running.reload();
      });

      it('uploads a file', async () => {
        await isStored(await ask('upload', { chunkSize: 2 ** 30 }));
      });

      // What continues in a page that was loaded again was paused, too.
      it.runIf(long)('continues after a pause', async () => {
        expect(await ask('pause')).toMatchObject({ isFinished: false });
        await isStored(await ask('continue'));
      });

      it.runIf(isLeading)('continues in a page that was loaded again, from the URL that is kept there', async () => {
        const { url } = await ask('pause');
        await running.reload();
        // Uppy looks for an earlier upload of a file by itself.
        const outcome = await ask(client === 'uppy' ? 'upload' : 'continue');
        expect(outcome.url).toBe(url);
        await isStored(outcome);
      });

      it.runIf(isLeading)('terminates an upload', async () => {
        const { url } = await ask('terminate');
        const headers = { ...server.headers, 'Tus-Resumable': '1.0.0' };
        await expect.poll(async () => (await send('HEAD', present(url), headers)).status).toBe(404);
      });

      inCi('uploads a file though responses are lost and requests break', async () => {
        const { origin, pathname } = new URL(server.endpoint);
        const proxy = await startBreakingProxy(origin);
        try {
          let patches = 0;
          proxy.plan = ({ method }) => {
            if (method !== 'PATCH') return undefined;
            patches += 1;
            if (patches % 3 === 0) return undefined;
            return { cut: patches % 3 === 1 ? { of: 'response', bytes: 0 } : { of: 'body', bytes: 300_000 } };
          };
          const outcome = await ask('upload', { endpoint: `${proxy.origin}${pathname}` });
          await isStored({ ...outcome, url: `${origin}${new URL(present(outcome.url)).pathname}` });
          expect(patches).toBeGreaterThan(5);
        } finally {
          await proxy.close();
        }
      });
    });
  });
});
