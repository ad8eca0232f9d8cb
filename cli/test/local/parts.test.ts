import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { bundle, bundleGuard } from '../../local/code/bundle.ts';
import { localService } from '../../local/control.ts';
import { openAccount } from '../../local/service.ts';
import { lock } from '../../io/lock.ts';
import { startWorkerd } from '../../local/miniflare.ts';
import { refusal } from '../../local/origin.ts';
import type { Workerd } from '../../local/miniflare.ts';
import { endProcess, isRunning, markProcess } from '../../local/process.ts';
import { freePort, onFreePort, untilReleased } from '../../local/port.ts';
import { loadSecrets, localPaths, makeLocal } from '../../local/state.ts';
import { temporaryDirectory } from '../environment.ts';
import { hostile } from '../hostile.ts';
import { helper } from './harness.ts';
import { present } from '../../../testkit/present.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sealpin-local-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

describe('the lock of a data directory', () => {
  const module = JSON.stringify(join(import.meta.dirname, '../../io/lock.ts'));

  test('is refused while another process holds it, and free once that one is killed', async () => {
    const path = join(dir, 'lock-a');
    const holder = await helper(
      `const { lock } = await import(${module});
       lock(${JSON.stringify(path)}); console.log('held'); setInterval(() => {}, 1000)`,
    );
    expect(() => lock(path)).toThrow(expect.objectContaining({ code: 'already_running' }));
    const ended = new Promise((resolve) => holder.once('exit', resolve));
    holder.kill('SIGKILL');
    await ended;
    lock(path).release();
  });

  test('can be taken again after it was released', () => {
    const path = join(dir, 'lock-b');
    lock(path).release();
    lock(path).release();
  });
});

describe('a marked process', () => {
  test('runs until it is ended', async () => {
    const child = await helper("console.log('up'); setInterval(() => {}, 1000)");
    const mark = present(markProcess(present(child.pid)));
    expect(isRunning(mark)).toBe(true);
    await endProcess(mark, 500);
    expect(isRunning(mark)).toBe(false);
  });

  test('that ignores SIGTERM is killed', async () => {
    const child = await helper("process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1000)");
    const mark = present(markProcess(present(child.pid)));
    await endProcess(mark, 100);
    expect(isRunning(mark)).toBe(false);
  });

  test('is not another one that has its pid now', async () => {
    const child = await helper("console.log('up'); setInterval(() => {}, 1000)");
    const mark = present(markProcess(present(child.pid)));
    const earlier = { ...mark, started: `${mark.started}0` };
    expect(isRunning(earlier)).toBe(false);
    await endProcess(earlier, 0);
    expect(isRunning(mark)).toBe(true);
    await endProcess(mark, 500);
  });
});

test.each([
  [201, '<html>'],
  [201, '{}'],
  [200, ''],
  [502, '<html>'],
])('an account that is answered with %i %j is an error of the service', async (status, body) => {
  const { url } = await hostile({
    'POST /v1/operator/accounts': (_request, response) => response.writeHead(status).end(body),
  });
  const dataDir = await temporaryDirectory();
  await makeLocal(dataDir);
  const opened = openAccount(url, dataDir, await loadSecrets(dataDir));
  await expect(opened).rejects.toMatchObject({ code: 'service_answer' });
});

describe('service.log', () => {
  const module = JSON.stringify(join(import.meta.dirname, '../../local/log-file.ts'));

  async function write(stderr: string, log: string, lines: number): Promise<void> {
    const code = `const { keepLog } = await import(${module}); const before = keepLog(${JSON.stringify(log)}, 100);
      for (let line = 0; line < ${lines}; line += 1) {
        before(); process.stderr.write('line ' + line + ' of twenty.\\n');
      }`;
    const fd = openSync(stderr, 'a');
    const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', code], {
      stdio: ['ignore', 'ignore', fd],
    });
    closeSync(fd);
    expect(await new Promise((resolve) => child.once('close', resolve))).toBe(0);
  }

  test('is kept aside at a start, and whenever it has grown too large', async () => {
    const log = join(dir, 'kept.log');
    await writeFile(log, 'the reason of the last crash\n');
    await write(log, log, 3);
    expect(await readFile(`${log}.1`, 'utf8')).toBe('the reason of the last crash\n');
    expect(await readFile(log, 'utf8')).toMatch(/^line 0 [^]*line 2 of twenty.\n$/);
    await write(log, log, 20);
    const [now, earlier] = await Promise.all([readFile(log, 'utf8'), readFile(`${log}.1`, 'utf8')]);
    expect(now).toMatch(/^(line \d+ of twenty.\n)+$/);
    expect(now.endsWith('line 19 of twenty.\n')).toBe(true);
    expect(Math.max(now.length, earlier.length)).toBeLessThan(150);
  });

  test('without room for the one before is emptied, and the service goes on', async () => {
    const log = join(dir, 'alone.log');
    await mkdir(`${log}.1/x`, { recursive: true });
    await writeFile(log, 'the reason of the last crash\n');
    await write(log, log, 3);
    expect(await readFile(log, 'utf8')).toMatch(/^the reason of the last crash\nline 0 [^]*line 2 of twenty.\n$/);
    await write(log, log, 20);
    expect(await readFile(log, 'utf8')).toMatch(/^(line \d+ of twenty.\n)+$/);
    expect((await readFile(log, 'utf8')).length).toBeLessThan(150);
  });

  test('of another service is left alone', async () => {
    const [log, own] = [join(dir, 'others.log'), join(dir, 'own.log')];
    await writeFile(log, 'the log of a service that runs\n'.repeat(10));
    await write(own, log, 20);
    expect(await readFile(log, 'utf8')).toBe('the log of a service that runs\n'.repeat(10));
  });
});

describe('the state of the local service', () => {
  test('keeps its secrets for its owner only, and the same ones', async () => {
    const data = join(dir, 'state-a');
    await makeLocal(data);
    const first = await loadSecrets(data);
    expect(await loadSecrets(data)).toEqual(first);
    expect((await stat(localPaths(data).secrets)).mode & 0o777).toBe(0o600);
    expect((await stat(localPaths(data).local)).mode & 0o777).toBe(0o700);
    expect(await localService({ dataDir: data })).toBeUndefined();
  });

  test('adds what the secrets of an earlier version lack, and keeps what they have', async () => {
    const data = join(dir, 'state-earlier');
    await makeLocal(data);
    const earlier = { v: 1, adminToken: 'a', rpcToken: 'b', account: 'c', apiKey: 'd' };
    await writeFile(localPaths(data).secrets, JSON.stringify(earlier));
    const secrets = await loadSecrets(data);
    expect(secrets).toMatchObject(earlier);
    expect(await loadSecrets(data)).toEqual(secrets);
    const { adminToken, metricsToken, rpcToken, serviceId } = secrets;
    expect(metricsToken.length).toBe(43);
    expect(serviceId.length).toBe(32);
    expect(new Set([adminToken, metricsToken, rpcToken]).size).toBe(3);
  });

  test.each([
    ['cut in the middle', '{"v":1,"adminTok', 'damaged'],
    ['of another shape', '{"v":1}', 'damaged'],
    ['empty', '', 'damaged'],
    ['of a newer version', '{"v":2,"adminToken":"a","rpcToken":"b"}', 'newer'],
  ])('S58: a file %s is told and left as it is', async (name, text, word) => {
    const data = join(dir, `state-${name}`);
    await makeLocal(data);
    await writeFile(localPaths(data).secrets, text);
    await expect(loadSecrets(data)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining(word),
    });
    expect(await readFile(localPaths(data).secrets, 'utf8')).toBe(text);
  });
});

describe('the guard before the Worker', () => {
  let workerd: Workerd;
  let port: number;
  const worker = `
    export class Account {} export class Pin {} export class Share {} export class Metrics {}
    let released;
    const release = async () => { while (!released) await scheduler.wait(10); };
    const slow = { async pull(c) { await release(); c.enqueue(new TextEncoder().encode('slow')); c.close(); } };
    function broken() {
      const { readable, writable } = new FixedLengthStream(100);
      const w = writable.getWriter();
      w.write(new Uint8Array(50)).then(() => w.abort(new Error('broken')));
      return new Response(readable, { headers: { 'content-length': '100' } });
    }
    export default { async fetch(request, env) {
      const { pathname } = new URL(request.url);
      if (pathname === '/hold') released = false;
      if (pathname === '/release') released = true;
      if (pathname === '/wait') await release();
      if (pathname === '/slow') return new Response(new ReadableStream(slow));
      if (pathname === '/broken') return broken();
      return new Response('through as ' + VERSION)
    } };
    const VERSION = 1`;
  beforeAll(async () => {
    port = await freePort(0);
    const code = { worker, guard: await bundleGuard() };
    workerd = await startWorkerd({
      stateDir: join(dir, 'guard-state'),
      tmpDir: dir,
      listen: port,
      code,
      vars: {},
      log: () => undefined,
    });
  });
  afterAll(() => workerd.close());

  function ask(headers: Record<string, string>, path = '/', method = 'GET'): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      request(
        { host: '127.0.0.1', port, path, method, headers: { host: `127.0.0.1:${port}`, ...headers }, agent: false },
        (answer) => {
          let body = '';
          answer.setEncoding('utf8').on('data', (text: string) => (body += text));
          answer.on('error', reject);
          answer.on('end', () => resolve({ status: present(answer.statusCode), body }));
        },
      )
        .on('error', reject)
        .end();
    });
  }

  test('lets its own hosts and origins through', async () => {
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`]) {
      expect(await ask({ host })).toEqual({ status: 200, body: 'through as 1' });
      expect(await ask({ origin: `http://${host}`, 'sec-fetch-site': 'same-origin' })).toMatchObject({ status: 200 });
    }
  });

  test('admits pages of every origin where all may call, and no foreign host', () => {
    const from = (name: string) =>
      refusal(new Headers({ host: name, origin: 'https://a.example' }), String(port), { origins: ['*'] })?.detail;
    expect(from(`127.0.0.1:${port}`)).toBeUndefined();
    expect(from('evil.example')).toContain('the Host header');
  });

  test.each([
    ['a foreign Host', { host: 'evil.example' }],
    ['a foreign Host with our port', { host: 'evil.example:PORT' }],
    ['a Host without our port', { host: '127.0.0.1' }],
    ['the port of another service', { host: '127.0.0.1:1' }],
    ['a foreign Origin', { origin: 'https://evil.example' }],
    ['an Origin of another port', { origin: 'http://127.0.0.1:1' }],
    ['the Origin null', { origin: 'null' }],
    ['a request of another site', { 'sec-fetch-site': 'cross-site' }],
    ['a header of Miniflare', { 'MF-Original-URL': 'http://127.0.0.1/' }],
    ['a wrong control token', { host: 'evil.example', 'sealpin-control': 'guess' }],
  ] as [string, Record<string, string>][])('refuses %s, and says what helps', async (name, headers) => {
    const own = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, value.replace('PORT', String(port))]),
    );
    const { status, body } = await ask(own);
    expect(status).toBe(403);
    const problem = JSON.parse(body) as { hint: string };
    expect(problem).toMatchObject({ code: 'forbidden', status: 403 });
    expect(problem.hint.includes('--cors-origin'), name).toEqual(/Origin|site/.test(name));
  });

  test('takes no part of the control token for it', async () => {
    const characters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const answers = Array.from(characters, (token) => ask({ host: 'evil.example', 'sealpin-control': token }));
    expect(new Set((await Promise.all(answers)).map(({ status }) => status))).toEqual(new Set([403]));
  });

  const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
  test('lets links on pages of other sites lead to its own pages', async () => {
    expect(await ask(link, '/s')).toEqual({ status: 200, body: 'through as 1' });
  });

  test.each([
    ['a frame', { 'sec-fetch-dest': 'iframe' }, 'GET'],
    ['a script', { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }, 'GET'],
    ['a request of a script', { 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }, 'GET'],
    ['a form', {}, 'POST'],
    ['a name that leads here', { host: 'evil.example' }, 'GET'],
  ] as [string, Record<string, string>, string][])('refuses %s of another site', async (_, headers, method) => {
    expect(await ask({ ...link, ...headers }, '/s', method)).toMatchObject({ status: 403 });
  });

  test.each(['/wait', '/slow'])('counts a request until its answer has ended: %s', async (path) => {
    expect(await workerd.running()).toBe(0);
    await ask({}, '/hold');
    const waiting = ask({}, path);
    await expect.poll(() => workerd.running()).toBe(1);
    await ask({}, '/release');
    expect(await waiting).toMatchObject({ status: 200 });
    expect(await workerd.running()).toBe(0);
  });

  test('lets a broken answer be seen as broken', async () => {
    await expect(ask({}, '/broken')).rejects.toThrow(/aborted|hang up/);
    expect(await workerd.running()).toBe(0);
  });

  test('stays in front when the Worker is replaced, on the same port', async () => {
    await workerd.replace({ worker: worker.replace('VERSION = 1', 'VERSION = 2'), guard: await bundleGuard() });
    expect(await ask({})).toEqual({ status: 200, body: 'through as 2' });
    expect(await ask({ host: 'evil.example' })).toMatchObject({ status: 403 });
    expect(workerd.processes).toHaveLength(1);
  });
});

describe('a port', () => {
  test('that another program has is told', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as { port: number };
    await expect(freePort(port)).rejects.toMatchObject({
      code: 'port_in_use',
      message: `port ${port} is in use by another program`,
    });
    await new Promise((resolve) => other.close(resolve));
    expect(await freePort(port)).toBe(port);
  });

  test('that a killed process still has is tried until it is free', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as { port: number };
    const tried = untilReleased(() => freePort(port));
    await expect(freePort(port)).rejects.toMatchObject({ code: 'port_in_use' });
    await new Promise((resolve) => other.close(resolve));
    expect(await tried).toBe(port);
    await expect(untilReleased(() => Promise.reject(new TypeError('other')))).rejects.toThrow(TypeError);
  });

  test('that was taken in between is tried again with another, unless it is the wanted one', async () => {
    const tried: number[] = [];
    const takenTwice = async (port: number): Promise<number> => {
      tried.push(port);
      if (tried.length < 3) throw new SealpinError('port_in_use');
      return port;
    };
    expect(await onFreePort(0, takenTwice)).toBe(tried[2]);
    expect(tried).toHaveLength(3);
    await expect(onFreePort(1234, () => Promise.reject(new SealpinError('port_in_use')))).rejects.toMatchObject({
      code: 'port_in_use',
    });
    await expect(onFreePort(0, () => Promise.reject(new SealpinError('port_in_use')))).rejects.toMatchObject({
      code: 'port_in_use',
    });
    await expect(onFreePort(0, () => Promise.reject(new TypeError('other')))).rejects.toThrow(TypeError);
  });
});

test('a Worker that does not build is reported with the line', async () => {
  await writeFile(join(dir, 'broken.ts'), 'export const a = ;\n');
  await expect(bundle(join(dir, 'broken.ts'))).rejects.toMatchObject({
    code: 'build_failed',
    message: expect.stringMatching(/Unexpected ";" \(.*broken\.ts:1\)/),
  });
});
