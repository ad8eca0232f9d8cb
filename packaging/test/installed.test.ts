/**
 * Both packed packages, installed globally into an empty prefix as by a new user, on the versions
 * of Node that they name.
 */
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { request } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { keptFile } from '../../cli/local/code/worker-code.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { ownCertificates } from '../../testkit/run-cache.ts';
import { startService } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { present } from '../../testkit/present.ts';
import { packed } from './packed.ts';
import { ci, long } from '../../testkit/long-run.ts';

const room = realpathSync(mkdtempSync(join(tmpdir(), 'sealpin-package-')));
afterAll(() => rmSync(room, { recursive: true, force: true }));

const readme = readFileSync(join(packageRoot(), 'README.md'), 'utf8');
const quiet = ['--silent', '--no-audit', '--no-fund', '--prefer-offline'];
const { engines } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as {
  engines: { node: string };
};
/** The oldest version that the packages take. */
const oldestNode = engines.node.replace('>=', '');
const strange = 'ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH';

/** A user's npm runs install scripts; ours does not in the checkout, and tells its children so. */
const npmEnv = (): NodeJS.ProcessEnv => ({
  ...process.env,
  NODE_EXTRA_CA_CERTS: process.env[ownCertificates],
  npm_config_loglevel: 'error',
  npm_config_ignore_scripts: 'false',
});

function npm(argv: readonly string[], cwd: string): string {
  const ran = spawnSync('npm', argv, { cwd, encoding: 'utf8', env: npmEnv() });
  if (ran.status !== 0) throw new Error(`npm ${argv.join(' ')}: ${ran.stdout}${ran.stderr}`);
  return ran.stdout.trim();
}

/** Runs a line of the README, beside a folder `dist`, for a prefix of its own. */
function typed(line: string): void {
  const ran = spawnSync('sh', ['-c', line.replace('-g', ['-g', ...quiet].join(' '))], {
    cwd: room,
    encoding: 'utf8',
    env: { ...npmEnv(), npm_config_prefix: join(room, 'prefix') },
  });
  if (ran.status !== 0) throw new Error(`${line}: ${ran.stdout}${ran.stderr}`);
}

/**
 * Installs the packages, and returns why that is impossible here, or undefined. Without a registry
 * there is nothing to install from.
 */
async function install(): Promise<string | undefined> {
  try {
    mkdirSync(join(room, 'dist/npm'), { recursive: true });
    for (const path of (await packed()).tarballs) copyFileSync(path, join(room, 'dist/npm', basename(path)));
    typed(present(/^npm run packages && (npm install -g \S+)/m.exec(readme)?.[1]));
    npm(['install', ...quiet, `--prefix=${join(room, 'node22')}`, `node@${oldestNode}`], room);
    return undefined;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (process.env['SEALPIN_REQUIRE_ALL'] === '1' || !new RegExp(strange).test(reason)) throw error;
    return 'the package registry cannot be reached';
  }
}

const missing = ci ? await install() : 'CI and the long form install them';
// Vitest calls no hook of a file whose tests are all left out.
if (missing !== undefined) rmSync(room, { recursive: true });
const sealpinPath = join(room, 'prefix', 'bin', 'sealpin');
const nodes = { 22: join(room, 'node22', 'node_modules', '.bin'), 24: dirname(process.execPath) };

type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

/** The installed command, on a Node of which only the directory is known. */
function installed(nodeDirectory: string, cwd: string, env: Record<string, string> = {}) {
  return async (...argv: string[]): Promise<Ran> => {
    const child = spawn(sealpinPath, argv, {
      cwd,
      env: {
        PATH: [nodeDirectory, '/usr/bin', '/bin'].join(delimiter),
        HOME: cwd,
        SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, stdout, stderr };
  };
}

describe.skipIf(missing !== undefined)(
  `installed from the tarballs${missing === undefined ? '' : ` (not run: ${missing})`}`,
  () => {
    // Node 24 runs the command line in every other test, too.
    test.each(long ? ([22, 24] as const) : ([22] as const))(
      'on Node %i: start, keygen, encrypt, decrypt, rebuild, stop',
      async (major) => {
        const directory = await temporaryDirectory();
        const version = spawnSync(join(nodes[major], 'node'), ['--version'], { encoding: 'utf8' }).stdout;
        expect(version).toMatch(major === 22 ? `v${oldestNode}\n` : /^v24\./);
        const sealpin = installed(nodes[major], directory);
        const done = async (...argv: string[]): Promise<string> => {
          const ran = await sealpin(...argv);
          expect(ran, argv.join(' ')).toMatchObject({ code: 0 });
          expect(ran.stderr, argv.join(' ')).not.toMatch(/Warning|^\s+at /m);
          return ran.stdout.trim();
        };
        await writeFile(join(directory, 'in'), 'as a new user would');
        const url = await done('start', '--detach', '--port', '0');
        onTestFinished(async () => void (await sealpin('stop')));
        expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
        const cached = async (): Promise<string[]> =>
          (await readdir(join(directory, '.local/share/sealpin/local/cache'), { recursive: true })).map((path) =>
            basename(path),
          );
        expect(await cached(), 'what the package brings is built').not.toContain(keptFile);
        expect(await done('keygen')).toMatch(/^age1tag1/);
        const blobId = await done('encrypt', 'in');
        if (long) expect(await done('decrypt', blobId, '-')).toBe('as a new user would');
        expect(await done('ecc-decrypt', await done('ecc-encrypt', 'in', '.local/share/sealpin/public.key'), '-')).toBe(
          'as a new user would',
        );
        await done('service', 'backup', 'backup', '--without-secrets');
        await done('service', 'restore', 'backup', '--without-secrets', '--data-dir', 'other');
        expect(await readdir(join(directory, 'other'))).toEqual(['local']);
        for (const name of ['backup', 'other']) rmSync(join(directory, name), { recursive: true });
        expect(JSON.parse(await done('rebuild', '--json'))).toMatchObject({ running: true });
        expect(await cached()).toContain(keptFile);
        expect(await done('decrypt', blobId, '-')).toBe('as a new user would');
        await done('stop');
        expect(await sealpin('status')).toMatchObject({ code: 6 });
        expect(await readdir(directory)).toEqual(['.local', 'in']);
      },
    );

    // A checkout has a Node of its own on Linux x64 only.
    test('on Node 22 the commands of a deployment in the checkout begin', () => {
      const argv = [join(packageRoot(), 'deploy/index.ts'), 'restore'];
      const ran = spawnSync(join(nodes[22], 'node'), argv, { encoding: 'utf8' });
      expect(ran).toMatchObject({ status: 2, stderr: expect.stringContaining('npm run restore') });
    });

    test('brings its page to man', async () => {
      expect(gunzipSync(await readFile(join(room, 'prefix/share/man/man1/sealpin.1.gz'))).toString()).toMatch(
        /^\.TH SEALPIN 1/im,
      );
    });

    test('brings no tests, benches or compiler settings', async () => {
      const folder = join(room, 'prefix', 'lib', 'node_modules', '@sealpin', 'local');
      const ours = (await readdir(folder, { recursive: true })).filter((path) => !path.startsWith('node_modules'));
      expect(ours).toContain(join('worker', 'index.ts'));
      expect(ours.filter((path) => /(?:^|\/)(?:test|testkit|bench|tsconfig\.json)(?:\/|$)/.test(path))).toEqual([]);
    });

    test('on an older Node: says what is needed and where to get it', async () => {
      const old = spawnSync('/usr/bin/env', ['-i', `PATH=/usr/local/bin:/usr/bin:/bin`, 'node', '--version'], {
        encoding: 'utf8',
      }).stdout;
      const directory = await temporaryDirectory();
      let where = '/usr/local/bin:/usr/bin:/bin';
      if (!/^v(1\d|20|21)\./.test(old)) {
        npm(['install', ...quiet, `--prefix=${join(room, 'node20')}`, 'node@20'], room);
        where = join(room, 'node20', 'node_modules', '.bin');
      }
      const ran = await installed(where, directory)('encrypt', 'in');
      expect(ran).toMatchObject({ code: 1, stdout: '' });
      expect(ran.stderr).toMatch(
        /^sealpin: error: sealpin needs Node 22\.\d+ or newer; this is Node [\d.]+\nsealpin: hint: install .*\n$/,
      );
    });

    withProgram('openssl', { probe: ['version'] }, () => {
      test.runIf(long)('against a service that is not local, over https with a certificate of its own', async () => {
        const directory = await temporaryDirectory();
        await writeFile(join(directory, 'in'), 'from afar');
        const service = await startService();
        onTestFinished(() => service.close());
        const { apiKey } = await service.account();
        const made = spawnSync(
          'openssl',
          [
            'req',
            '-x509',
            '-newkey',
            'ec',
            '-pkeyopt',
            'ec_paramgen_curve:P-256',
            '-nodes',
            '-keyout',
            'tls.key',
            '-out',
            'tls.crt',
            '-days',
            '2',
            '-subj',
            '/CN=localhost',
            '-addext',
            'subjectAltName=DNS:localhost',
          ],
          { cwd: directory },
        );
        expect(made.status).toBe(0);
        const [key, cert] = await Promise.all([
          readFile(join(directory, 'tls.key')),
          readFile(join(directory, 'tls.crt')),
        ]);
        // What stands before a deployed service ends TLS; here it passes everything on.
        const front = createServer({ key, cert }, (incoming, outgoing) => {
          const onward = request(
            new URL(incoming.url ?? '/', service.url),
            { method: incoming.method, headers: { ...incoming.headers, host: new URL(service.url).host } },
            (answer) => {
              outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
              answer.pipe(outgoing);
            },
          );
          incoming.pipe(onward);
        }).listen(0);
        await once(front, 'listening');
        onTestFinished(() => void front.close());
        const user = {
          SEALPIN_HOME: join(directory, 'user'),
          SEALPIN_SERVICE: `https://localhost:${(front.address() as AddressInfo).port}`,
          SEALPIN_API_KEY: apiKey,
        };
        const refused = await installed(nodes[24], directory, user)('encrypt', 'in');
        expect(refused).toMatchObject({ code: 6, stdout: '' });
        expect(refused.stderr).toContain('is not trusted');
        const sealpin = installed(nodes[24], directory, { ...user, NODE_EXTRA_CA_CERTS: join(directory, 'tls.crt') });
        const stored = await sealpin('encrypt', 'in');
        expect(stored).toMatchObject({ code: 0, stderr: '' });
        const blobId = stored.stdout.trim();
        expect(await sealpin('decrypt', blobId, '-')).toMatchObject({ code: 0, stdout: 'from afar' });
        expect((await sealpin('list')).stdout).toContain(blobId);
        expect(await sealpin('delete', blobId)).toMatchObject({ code: 0 });
      });
    });
  },
);
