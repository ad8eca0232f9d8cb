/** The service behind a real Caddy and a real nginx, by the lines of docs/self-hosting.md. */
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from '../../../testkit/browsers/chromium.ts';
import { endWithProcess } from '../../../testkit/end-with-process.ts';
import { freePort, isOpen } from '../../../testkit/loopback-server.ts';
import { installed, withProgram } from '../../../testkit/programs/programs.ts';
import { present } from '../../../testkit/present.ts';
import { sealpin, startLocal, type Running } from '../local/harness.ts';

const page = await readFile(join(import.meta.dirname, '../../../docs/self-hosting.md'), 'utf8');
const linesOf = (language: string): string =>
  present(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, 'm').exec(page)?.[1]);

/** A certificate for localhost, and the authority that signed it. */
function certificatesIn(dir: string): { ca: string; cert: string; key: string } {
  const at = (name: string): string => join(dir, name);
  const openssl = (...args: string[]): void => void execFileSync('openssl', args, { stdio: 'ignore' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-subj',
    '/CN=Authority of the tests',
    '-keyout',
    at('ca.key'),
    '-out',
    at('ca.pem'),
  );
  const names = ['-addext', 'subjectAltName=DNS:localhost', '-addext', 'basicConstraints=CA:FALSE'];
  openssl(
    'req',
    '-x509',
    '-CA',
    at('ca.pem'),
    '-CAkey',
    at('ca.key'),
    ...newKey,
    '-subj',
    '/CN=localhost',
    ...names,
    '-keyout',
    at('key.pem'),
    '-out',
    at('cert.pem'),
  );
  return { ca: at('ca.pem'), cert: at('cert.pem'), key: at('key.pem') };
}

type Proxy = { readonly args: string[]; readonly env?: Record<string, string> };
type Place = { dir: string; port: string; upstream: number; cert: string; key: string };

/** Changes lines of the page to what loopback needs; each must be there. */
function changed(text: string, changes: readonly [string, string][]): string {
  return changes.reduce((lines, [from, to]) => {
    if (!lines.includes(from)) throw new Error(`the page has no line with ${from}`);
    return lines.replaceAll(from, to);
  }, text);
}

const proxies: Record<string, (place: Place) => Promise<Proxy>> = {
  async caddy({ dir, port, upstream, cert, key }) {
    const file = changed(linesOf('caddyfile'), [
      ['files.example.com {', `https://localhost:${port} {\n\tbind 127.0.0.1\n\ttls ${cert} ${key}`],
      ['127.0.0.1:7420', `127.0.0.1:${upstream}`],
    ]);
    await writeFile(join(dir, 'Caddyfile'), `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${file}`);
    return {
      args: ['run', '--config', join(dir, 'Caddyfile')],
      env: { HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir },
    };
  },
  async nginx({ dir, port, upstream, cert, key }) {
    const server = changed(linesOf('nginx'), [
      ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
      ['/etc/letsencrypt/live/files.example.com/fullchain.pem', cert],
      ['/etc/letsencrypt/live/files.example.com/privkey.pem', key],
      ['127.0.0.1:7420', `127.0.0.1:${upstream}`],
    ]);
    const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map((of) => `${of}_temp_path ${dir}/${of};`)
      .join('\n');
    const http = `http {\naccess_log off;\n${folders}\n${server}}\n`;
    const config = `daemon off;\npid ${dir}/pid;\nerror_log stderr;\nevents {}\n${http}`;
    await writeFile(join(dir, 'nginx.conf'), config);
    return { args: ['-p', dir, '-e', 'stderr', '-c', 'nginx.conf'] };
  },
};

for (const name of Object.keys(proxies)) {
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
        const port = await freePort();
        origin = `https://localhost:${port}`;
        service = await startLocal({ args: [`--origin=${origin}`] });
        const place = { dir, port, upstream: service.port, cert, key };
        const { args, env: own } = await present(proxies[name])(place);
        const child = spawn(installed(name), args, { stdio: 'ignore', env: { ...process.env, ...own } });
        endWithProcess(child);
        const ended = new Promise((resolve) => child.once('exit', resolve));
        while (!(await isOpen(Number(port)))) {
          if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        end = async () => {
          child.kill('SIGTERM');
          await ended;
        };
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

      test('the command line sends a large file, and receives it by the link; a page opens it', async () => {
        const bytes = randomBytes(40_000_000);
        await writeFile(join(dir, 'film'), bytes);
        const link = await inHome(['send', join(dir, 'film')]);
        expect(link).toContain(`${origin}/s#`);
        await inHome(['receive', link, join(dir, 'received')]);
        expect((await readFile(join(dir, 'received/film'))).equals(bytes)).toBe(true);
        const browser = await launchChromium();
        try {
          const context = await browser.newContext({ ignoreHTTPSErrors: true });
          const tab = await context.newPage();
          await tab.goto(link);
          await tab.getByRole('button').first().waitFor();
          expect(await tab.textContent('body')).not.toContain('127.0.0.1');
        } finally {
          await browser.close();
        }
      });

      test('an inbox takes what somebody without an account sends, and its owner lists and opens it', async () => {
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

      test('the operator sees the service by its address', async () => {
        const { stdout, code } = await sealpin(['account', 'list', `--data-dir=${service.dataDir}`], env);
        expect(stdout).toContain('ann');
        expect(code).toBe(0);
      });
    });
  });
}
