/**
 * The service behind a real Caddy and a real nginx, by the lines of docs/self-hosting.md: the short
 * form asks one of them what takes no path of its own through a proxy.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from '../../../testkit/browsers/chromium.ts';
import { freePort } from '../../local/port.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { present } from '../../../testkit/present.ts';
import { certificatesIn, startProxy } from './real-proxies.ts';
import { sealpin, startLocal, type Running } from '../local/harness.ts';

// In the short form the one that Debian has.
for (const name of ci ? (['caddy', 'nginx'] as const) : (['nginx'] as const)) {
  withProgram(name, { probe: name === 'nginx' ? ['-v'] : ['version'], isOptional: name === 'caddy' }, () => {
    describe(`behind ${name}`, () => {
      let dir: string;
      let service: Running;
      let origin: string;
      let end: () => Promise<void>;
      let env: Record<string, string>;
      beforeAll(async () => {
        dir = await mkdtemp(join(tmpdir(), `sealpin-${name}-`));
        const { ca, cert, key } = certificatesIn(dir);
        const port = String(await freePort(0));
        origin = `https://localhost:${port}`;
        service = await startLocal({ args: [`--origin=${origin}`] });
        end = await startProxy(name, { dir, port, upstream: `127.0.0.1:${service.port}`, cert, key });
        const made = await sealpin(['account', 'create', 'ann', `--data-dir=${service.dataDir}`], {
          NODE_EXTRA_CA_CERTS: ca,
        });
        env = { NODE_EXTRA_CA_CERTS: ca, SEALPIN_SERVICE: origin, SEALPIN_API_KEY: made.stdout.trim() };
      });
      afterAll(async () => {
        await end();
        await service.end();
        for (const folder of [dir, service.dataDir]) await rm(folder, { recursive: true, force: true });
      });

      const inHome = async (args: readonly string[]): Promise<string> => {
        const home = join(dir, 'home');
        await mkdir(home, { recursive: true });
        const { code, stdout, stderr } = await sealpin([...args, `--data-dir=${home}`], env);
        expect(stderr).not.toContain('error');
        expect(code).toBe(0);
        return stdout.trim();
      };

      inCi('the command line sends a large file, and receives it by the link; so does a page', async () => {
        const bytes = randomBytes(20_000_000);
        await writeFile(join(dir, 'film'), bytes);
        const link = await inHome(['send', join(dir, 'film')]);
        expect(link).toContain(`${origin}/s#`);
        await inHome(['receive', link, join(dir, 'received')]);
        expect((await readFile(join(dir, 'received/film'))).equals(bytes)).toBe(true);
        const browser = await launchChromium();
        try {
          const context = await browser.newContext({ ignoreHTTPSErrors: true });
          const tab = await context.newPage();
          // Nobody can drive the dialog of a picker.
          await tab.addInitScript(() => Object.assign(globalThis, { showSaveFilePicker: undefined }));
          await tab.goto(link);
          await tab.getByRole('button', { name: 'Open' }).click();
          const save = tab.getByRole('button', { name: 'Save film', exact: true });
          const [download] = await Promise.all([tab.waitForEvent('download'), save.click()]);
          expect((await readFile(await download.path())).equals(bytes)).toBe(true);
          expect(await tab.textContent('body')).not.toContain('127.0.0.1');
        } finally {
          await browser.close();
        }
      });

      test('the SDK sends and receives, and continues an upload that another connection began', async () => {
        const sdk = join(import.meta.dirname, '../../../client/index.ts');
        const program = `
          import { connect, receive } from ${JSON.stringify(sdk)};
          const { SEALPIN_SERVICE: service, SEALPIN_API_KEY: apiKey } = process.env;
          const bytes = crypto.getRandomValues(new Uint8Array(60_000));
          const { link } = await connect({ service, apiKey }).send({ source: 'the film', name: 'film' });
          const [file] = (await receive(link)).files;
          const back = await (await file.open()).text();
          const headers = { authorization: 'Bearer ' + apiKey, 'tus-resumable': '1.0.0' };
          const upload = await fetch(service + '/v1/uploads/plain', {
            method: 'POST',
            headers: { ...headers, 'upload-length': '60000', 'upload-metadata': 'filename bg==' },
          });
          const at = new URL(upload.headers.get('location'), service);
          const offsets = [];
          for (const [from, to] of [[0, 10_000], [10_000, 60_000]]) {
            const type = 'application/offset+octet-stream';
            const more = { 'content-type': type, 'upload-offset': String(from), connection: 'close' };
            const body = bytes.subarray(from, to);
            const sent = await fetch(at, { method: 'PATCH', headers: { ...headers, ...more }, body });
            offsets.push(sent.headers.get('upload-offset'));
          }
          console.log(JSON.stringify({ back, at: at.origin, offsets }));
        `;
        const args = ['--no-warnings', '--input-type=module', '-e', program];
        const child = spawn(process.execPath, args, { env: { ...process.env, ...env } });
        const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
        expect(stderr).toBe('');
        expect(JSON.parse(stdout)).toEqual({ back: 'the film', at: origin, offsets: ['10000', '60000'] });
      });

      const either = test.runIf(long || (ci && name === 'nginx'));

      either('an inbox takes what somebody without an account sends, and its owner lists and opens it', async () => {
        await inHome(['keygen']);
        const link = await inHome(['inbox', 'create', 'letters']);
        expect(link).toContain(`${origin}/drop#`);
        await writeFile(join(dir, 'letter'), 'for Ann alone');
        const home = join(dir, 'sender');
        await mkdir(home, { recursive: true });
        const anybody = { NODE_EXTRA_CA_CERTS: present(env['NODE_EXTRA_CA_CERTS']) };
        const sent = await sealpin(['send', '--inbox', link, join(dir, 'letter'), `--data-dir=${home}`], anybody);
        expect(sent).toMatchObject({ code: 0 });
        const { deliveries } = JSON.parse(await inHome(['inbox', 'list', '--json'])) as {
          deliveries: { id: string }[];
        };
        const [delivery] = deliveries;
        await inHome(['inbox', 'open', present(delivery).id, join(dir, 'opened')]);
        expect(await readFile(join(dir, 'opened/letter'), 'utf8')).toBe('for Ann alone');
      });

      either('the operator sees the service by its address', async () => {
        const { stdout, code } = await sealpin(['account', 'list', `--data-dir=${service.dataDir}`], env);
        expect(stdout).toContain('ann');
        expect(code).toBe(0);
      });

      either('the pages are found to be those of this version', () => inHome(['pages', 'verify', origin]));
    });
  });
}
