/**
 * Destinations of tokens: over https: or to this machine, and the one for restoring to a service
 * for as long as it is restored.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { SealpinError } from '../../shared/errors.ts';
import { backupFormat } from '../../shared/api.ts';
import { checkCloudflare, checkPinning, checkService } from '../checks.ts';
import { faultsOf, readConfiguration, type Configuration } from '../configuration.ts';
import { linesOf } from '../finding.ts';
import { operatorApi } from '../operator-api.ts';
import { addressIn, parseOptions, type CommandName } from '../options.ts';
import { restoreService } from '../service-restore.ts';
import { wranglerWith, type Wrangler } from '../wrangler.ts';
import { startCloudflare } from './cloudflare.ts';
import { newFolder, processWith, refusal } from './deployment.ts';
import { long } from '../../testkit/long-run.ts';

type Request = { path: string; authorization: string | undefined; restore: string | undefined };
let seen: Request[] = [];
/** Statuses that the service returns for a page; the last one stays. */
let answers: number[] = [200];
let service: Awaited<ReturnType<typeof startLoopbackServer>>;
beforeAll(async () => {
  service = await startLoopbackServer((request, response) => {
    const { authorization, 'sealpin-restore': restore } = request.headers;
    seen.push({ path: `${request.method} ${request.url}`, authorization, restore: restore as string | undefined });
    const isPage = request.method === 'PUT';
    const status = isPage ? ((answers.length > 1 ? answers.shift() : answers[0]) ?? 200) : 200;
    const page = { accountId: 'a'.repeat(22), next: null, keys: 0, files: 0, unpinned: [] };
    const code = status === 404 ? 'not_found' : 'internal';
    const problem = { type: 'about:blank', title: 'x', status, code, requestId: 'r' };
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(status !== 200 ? problem : isPage ? page : { accounts: [] }));
  });
});
afterAll(() => service.close());
beforeEach(() => {
  seen = [];
  answers = [200];
});

describe('a token is not sent unencrypted to another machine', () => {
  // 0.0.0.0 is this machine, and not loopback: a request that is not refused arrives.
  const spellings = (): string[] => {
    const { port } = new URL(service.url);
    return [`http://0.0.0.0:${port}`, `HTTP://0.0.0.0:${port}/`, ` http://0.0.0.0:${port}`, `http:0.0.0.0:${port}`];
  };
  const hosts = [
    'http://files.acme.org',
    'http://127.evil.example',
    'http://localhost.evil.example',
    'http://10.0.0.1',
  ];
  const configurationOf = (vars: Record<string, string>): Configuration => ({
    name: 'sealpin',
    accountId: undefined,
    kvId: undefined,
    domain: undefined,
    buckets: [],
    vars,
  });

  test('by any command, from a flag or an answer', async () => {
    const commands: [CommandName, string][] = [
      ['setup', '--url'],
      ['setup', '--kubo-url'],
      ['doctor', '--url'],
      ['backup', '--url'],
      ['restore', '--url'],
    ];
    for (const [command, flag] of commands)
      for (const url of [...spellings(), ...hosts]) {
        const folder = command === 'backup' || command === 'restore' ? ['folder'] : [];
        const refused = await refusal(() => parseOptions(command, [flag, url, ...folder], '/'));
        expect(refused, `${command} ${flag} ${url}`).toEqual([
          'usage',
          expect.stringContaining('unencrypted'),
          'use https:',
        ]);
      }
    for (const url of [...spellings(), ...hosts])
      expect((await refusal(() => addressIn('the answer', url)))[1]).toContain('unencrypted');
    for (const url of ['https://files.acme.org', 'http://127.0.0.1:1', 'http://[::1]:1', 'http://localhost'])
      expect(addressIn('--url', url).origin).toBe(url);
  });

  test('by the checks and the client themselves', async () => {
    const token = 'a-token-of-the-test';
    for (const url of spellings()) {
      expect((await refusal(() => operatorApi(url, token)))[1]).toContain('unencrypted');
      for (const entry of [
        { type: 'kubo', url, tokenSecret: 'ONE' },
        { type: 'cluster', peers: [{ url: 'https://cluster.acme.org', ipfs: url }], tokenSecret: 'ONE' },
        { type: 'psa', url, tokenSecret: 'ONE' },
        { type: 'pinata', url, tokenSecret: 'ONE' },
      ]) {
        const first = { id: 'first', type: 'kubo', url: 'https://kubo.acme.org', tokenSecret: 'FIRST' };
        const PINNING_SERVICES = JSON.stringify([first, { id: 'one', ...entry }]);
        const configuration = configurationOf({ PINNING_SERVICES });
        expect(
          faultsOf(configuration)
            .map(({ what }) => what)
            .join(),
        ).toContain('in the clear');
        const findings = await checkPinning({ configuration, secretOf: () => token });
        expect(findings.flatMap(linesOf).join()).toContain('unencrypted');
      }
      const wrangler: Wrangler = () => Promise.reject(new Error('it is not asked'));
      const subject = { configuration: configurationOf({}), wrangler, url, secretOf: () => token };
      expect((await checkService(subject)).flatMap(linesOf).join()).toContain('unencrypted');
    }
    expect(seen).toEqual([]);
  });
});

test('a debugger is opened by no signal to what holds a token', async () => {
  const { scripts } = JSON.parse(await readFile(join(packageRoot(), 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  for (const [name, script] of Object.entries(scripts)) {
    expect(script, name).not.toMatch(/^wrangler /);
    for (const [, flag] of script.matchAll(/\bnode (\S+)/g)) expect(flag, name).toBe('--disable-sigusr1');
  }
  const [dir, folder] = [await temporaryDirectory(), await newFolder()];
  const probe = join(dir, 'probe.cjs');
  // wrangler starts itself a second time.
  const inTheSecond = `if (process.argv[1].endsWith('cli.js')) process.exit(console.log(process.execArgv.join()));`;
  await writeFile(probe, inTheSecond);
  const { env } = processWith(folder, { NODE_OPTIONS: `--require=${probe}` });
  expect((await wranglerWith(folder.config, env)([])).stdout).toContain('--disable-sigusr1');
});

describe('RESTORE_TOKEN', () => {
  let folder: Awaited<ReturnType<typeof newFolder>>;
  let dir: string;
  beforeEach(async () => {
    folder = await newFolder();
    dir = await temporaryDirectory();
    const account = 'a'.repeat(22);
    const manifest = { format: 'sealpin-backup/v1', service: service.url, createdAt: '', accounts: [account] };
    await writeFile(join(dir, 'backup.json'), JSON.stringify(manifest));
    const page = { format: backupFormat, accountId: account, pinsOf: 'a service' };
    const cursors = [null, 'a', 'b', null];
    const lines = [0, 1, 2].map((at) => JSON.stringify({ ...page, after: cursors[at], next: cursors[at + 1] }));
    await writeFile(join(dir, `${account}.ndjson`), `${lines.join('\n')}\n`);
  });

  /** Secrets as wrangler has them; what it was called with. */
  function fakeWrangler(o: { put?: boolean; delete?: boolean; onPut?: () => void } = {}) {
    const calls: string[] = [];
    const secrets = new Map<string, string>();
    const wrangler: Wrangler = (args, input = '') => {
      const [, verb = '', name = ''] = args;
      calls.push(`${verb} ${name}`);
      const ok = o[verb as 'put' | 'delete'] ?? true;
      if (ok && verb === 'put') secrets.set(name, input);
      if (ok && verb === 'delete') secrets.delete(name);
      if (verb === 'put') o.onPut?.();
      return Promise.resolve({ ok, stdout: '', stderr: ok ? '' : 'it does not work' });
    };
    return { calls, secrets, wrangler };
  }
  const both = ['put RESTORE_TOKEN', 'delete RESTORE_TOKEN'];

  test('is set, shown with each page, also while the service does not know it yet, and deleted', async () => {
    answers = [404, 404, 200];
    const { calls, secrets, wrangler } = fakeWrangler();
    const context = processWith(folder, {});
    expect(await restoreService({ url: service.url, token: 'admin', wrangler }, dir, context)).toBe(0);
    expect(calls).toEqual(both);
    expect(secrets.size).toBe(0);
    const pages = seen.filter(({ path }) => path.startsWith('PUT'));
    expect(pages).toHaveLength(5);
    expect(new Set(pages.map(({ restore }) => restore)).size).toBe(1);
    expect(pages[0]?.restore).toMatch(/^[0-9a-f]{64}$/);
    expect(seen.filter(({ path }) => !path.startsWith('PUT')).map(({ restore }) => restore)).toEqual([undefined]);
    expect(context.lines.join()).not.toContain(pages[0]?.restore);
  });

  test('is deleted after a failure of the service, of wrangler, and after a signal', async () => {
    const target = { url: service.url, token: 'admin' };
    answers = [200, 500];
    const failing = fakeWrangler();
    const context = processWith(folder, {});
    expect((await refusal(restoreService({ ...target, ...failing }, dir, context)))[0]).toBe('internal');
    expect(failing.calls).toEqual(both);
    expect(failing.secrets.size).toBe(0);

    const refusing = fakeWrangler({ put: false });
    expect((await refusal(restoreService({ ...target, ...refusing }, dir, context)))[1]).toContain('it does not work');
    expect(refusing.calls).toEqual(both);

    answers = [200];
    const aborted = new AbortController();
    const stopped = fakeWrangler({ onPut: () => aborted.abort(new SealpinError('interrupted')) });
    const interrupted = restoreService({ ...target, ...stopped }, dir, { ...context, signal: aborted.signal });
    expect((await refusal(interrupted))[0]).toBe('interrupted');
    expect(stopped.calls).toEqual(both);
    expect(stopped.secrets.size).toBe(0);

    // While it waits for the service to know the token.
    answers = [404];
    const waiting = new AbortController();
    const patient = fakeWrangler({ onPut: () => setTimeout(() => waiting.abort(new SealpinError('interrupted')), 50) });
    const given = restoreService({ ...target, ...patient }, dir, { ...context, signal: waiting.signal });
    expect((await refusal(given))[0]).toBe('interrupted');
    expect(patient.calls).toEqual(both);
    expect(patient.secrets.size).toBe(0);
  });

  test('that cannot be deleted is reported, and fails the command', async () => {
    const stuck = fakeWrangler({ delete: false });
    const context = processWith(folder, {});
    expect(await restoreService({ url: service.url, token: 'admin', ...stuck }, dir, context)).toBe(1);
    expect(context.lines.join()).toContain('npx wrangler secret delete RESTORE_TOKEN');
  });

  test('that was left is reported by doctor, as is a service without a token for metrics', async () => {
    const shown = async (...names: string[]): Promise<string> => {
      const wrangler: Wrangler = ([verb = '']) => {
        const said = verb === 'whoami' ? { loggedIn: true } : verb === 'secret' ? names.map((name) => ({ name })) : [];
        return Promise.resolve({ ok: true, stdout: JSON.stringify(said), stderr: '' });
      };
      const configuration = readConfiguration(folder.config);
      const findings = await checkCloudflare({ configuration, wrangler, url: undefined, secretOf: () => undefined });
      return findings.flatMap(linesOf).join('\n');
    };
    const whole = await shown('ADMIN_TOKEN', 'KUBO_TOKEN', 'METRICS_TOKEN');
    expect(whole).toContain('✓ secrets');
    expect(whole).not.toContain('✗');
    expect(await shown('ADMIN_TOKEN', 'KUBO_TOKEN')).toContain('– METRICS_TOKEN is not set');
    const left = await shown('ADMIN_TOKEN', 'KUBO_TOKEN', 'METRICS_TOKEN', 'RESTORE_TOKEN');
    expect(left).toContain('✗ RESTORE_TOKEN is set');
    expect(left).toContain('→ when no restoration runs: npx wrangler secret delete RESTORE_TOKEN');
  });

  test('is not set where nothing can be restored', async () => {
    const { calls, wrangler } = fakeWrangler();
    const context = processWith(folder, {});
    const empty = await temporaryDirectory();
    const target = { url: service.url, token: 'admin', wrangler };
    expect((await refusal(restoreService(target, empty, context)))[1]).toContain('no complete backup');
    expect((await refusal(restoreService({ ...target, url: 'http://127.0.0.1:9' }, dir, context)))[0]).toBe(
      'service_unreachable',
    );
    expect(calls).toEqual([]);
  });

  test.skipIf(!long)('is deleted by the command itself when it gets a signal (long form)', async () => {
    const cloudflare = await startCloudflare();
    try {
      const secrets = new Map([['ADMIN_TOKEN', 'x']]);
      cloudflare.workers.set(readConfiguration(folder.config).name, {
        bindings: [],
        secrets,
        deployments: 1,
        modules: [],
      });
      // It waits until the service knows the token.
      answers = [404];
      const args = ['deploy/index.ts', 'restore', '--config', folder.config, '--url', service.url, dir];
      const { env } = processWith(folder, { ...cloudflare.env, ADMIN_TOKEN: 'admin' });
      const child = spawn(process.execPath, args, { cwd: packageRoot(), env, stdio: 'pipe' });
      const ended = once(child, 'close');
      await expect.poll(() => seen.some(({ path }) => path.startsWith('PUT')), { timeout: 60_000 }).toBe(true);
      expect([...secrets.keys()]).toEqual(['ADMIN_TOKEN', 'RESTORE_TOKEN']);
      child.kill('SIGTERM');
      expect({ ended: await ended, keys: [...secrets.keys()] }).toEqual({ ended: [130, null], keys: ['ADMIN_TOKEN'] });
    } finally {
      await cloudflare.close();
    }
  });

  test.skipIf(!long)('goes through the real wrangler to Cloudflare and away again (long form)', async () => {
    const cloudflare = await startCloudflare();
    try {
      const secrets = new Map([['ADMIN_TOKEN', 'x']]);
      const { name } = readConfiguration(folder.config);
      cloudflare.workers.set(name, { bindings: [], secrets, deployments: 1, modules: [] });
      const context = processWith(folder, cloudflare.env);
      const wrangler = wranglerWith(folder.config, context.env);
      const target = { url: service.url, token: 'admin', wrangler };
      expect(await restoreService(target, dir, context)).toBe(0);
      expect(context.lines).toEqual(expect.any(Array));
      const path = `/accounts/0123456789abcdef0123456789abcdef/workers/scripts/${name}/secrets`;
      expect(cloudflare.requests).toContain(`PUT ${path}`);
      expect(cloudflare.requests).toContain(`DELETE ${path}/RESTORE_TOKEN`);
      expect([...secrets.keys()]).toEqual(['ADMIN_TOKEN']);
      expect(JSON.stringify([context.lines, cloudflare.requests])).not.toContain(seen.at(-1)?.restore);
    } finally {
      await cloudflare.close();
    }
  });
});
