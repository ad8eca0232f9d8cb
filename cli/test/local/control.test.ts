/** Tests of the questions to a local service, and of one that does not answer. */
import { mkdir, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Health } from '../../../shared/api.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { control, type Controls, listenForControl } from '../../local/control.ts';
import { markProcess } from '../../local/process.ts';
import { withSnapshot } from '../../local/snapshot/held-snapshot.ts';
import { loadSecrets, localPaths, writeState } from '../../local/state.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { someApiKey } from '../hostile.ts';
import { helper } from './harness.ts';

let dir: string;
beforeEach(async () => {
  dir = await temporaryDirectory();
});

const status = {
  url: 'http://127.0.0.1:1',
  port: 1,
  pid: 1,
  startedAt: 'now',
  version: '0',
  ipfs: 'none',
  running: 0,
};
const health: Health = { status: 'ok', version: '0', maxUploadBytes: null };
const calm: Controls = {
  address: async () => ({ url: status.url }),
  status: async () => status,
  health: async () => health,
  stop: async () => ({}),
  verify: async () => ({ blocks: 0, bytes: 0, bad: 0, first: [] }),
  rebuild: async () => ({ bytes: 1, ms: 1 }),
  snapshot: async () => ({ dir, takenAt: 'now', pausedMs: 0, files: [] }),
};

async function socketIn(dataDir: string): Promise<string> {
  const { local, control: path } = localPaths(dataDir);
  await mkdir(local, { recursive: true });
  return path;
}

test('answers its owner, also below a path that is longer than a socket may have', async () => {
  for (const folder of [join(dir, 's'), join(dir, 'long'.repeat(30), 'er'.repeat(20))]) {
    const path = await socketIn(folder);
    const controls = await listenForControl(path, {
      ...calm,
      rebuild: () => Promise.reject(new SealpinError('build_failed', 'no such file', { hint: 'fix it' })),
    });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await control({ dataDir: folder }, 'status')).toEqual(status);
    await expect(control({ dataDir: folder }, 'rebuild')).rejects.toMatchObject({
      code: 'build_failed',
      message: 'no such file',
      hint: 'fix it',
    });
    await controls.close();
    await expect(control({ dataDir: folder }, 'status')).rejects.toMatchObject({ code: 'not_running' });
  }
});

test('that a killed service left is replaced', async () => {
  const folder = join(dir, 'left');
  const path = await socketIn(folder);
  const left = await helper(
    `import { createServer } from 'node:http';
     createServer().listen(${JSON.stringify(path)}, () => console.log('up'))`,
  );
  const ended = new Promise((resolve) => left.once('exit', resolve));
  left.kill('SIGKILL');
  await ended;
  await expect(control({ dataDir: folder }, 'status')).rejects.toMatchObject({ code: 'not_running' });
  const controls = await listenForControl(path, calm);
  expect(await control({ dataDir: folder }, 'status')).toEqual(status);
  await controls.close();
});

test('a question goes on for as long as the service works on it', async () => {
  const dataDir = join(dir, 'works');
  const limitMs = 1_000;
  const rebuilt = { bytes: 2, ms: 2 * limitMs };
  const path = await socketIn(dataDir);
  const controls = await listenForControl(path, { ...calm, rebuild: () => sleep(rebuilt.ms, rebuilt) });
  expect(await control({ dataDir }, 'rebuild', { timeoutMs: limitMs })).toEqual(rebuilt);
  await controls.close();
});

test('a service whose runtime takes no requests is stopped, and does what it can without one', async () => {
  const dataDir = join(dir, 'stuck');
  const stuck = (): Promise<never> => Promise.reject(new SealpinError('service_unreachable', 'it takes no requests'));
  const controls = await listenForControl(await socketIn(dataDir), { ...calm, address: stuck, status: stuck });
  expect(await control({ dataDir }, 'stop')).toEqual({});
  expect(await control({ dataDir }, 'verify')).toMatchObject({ bad: 0 });
  await expect(control({ dataDir }, 'status')).rejects.toMatchObject({ code: 'service_unreachable' });
  await controls.close();
});

test.each([
  { code: 'ENOSPC', syscall: 'copyfile', path: '/state' },
  { code: 'ERR_SQLITE_ERROR', errcode: 13 },
])('a snapshot for which the service has no room names its disk (%j)', async (fields) => {
  const dataDir = join(dir, 'full');
  const controls = await listenForControl(await socketIn(dataDir), {
    ...calm,
    snapshot: () => Promise.reject(Object.assign(new Error('failed'), fields)),
  });
  await expect(withSnapshot({ dataDir }, {}, async () => undefined)).rejects.toMatchObject({
    code: 'disk_full',
    message: `${localPaths(dataDir).local} cannot be written: the disk is full`,
  });
  await controls.close();
});

const local = { id: 'local', status: 'ok' } as const;
const since = '2026-01-01T00:00:00.000Z';
test.each<{ part: Partial<Health>; exit: number; says: string }>([
  { part: { storage: 'ok', services: [local] }, exit: 0, says: 'ok' },
  { part: { storage: 'failing', services: [local] }, exit: 6, says: 'the databases do not respond' },
  {
    part: { services: [{ ...local, status: 'failing', code: 'pinning_timeout', hint: 'look there' }] },
    exit: 6,
    says: 'local is failing (pinning_timeout); look there',
  },
  {
    part: { services: [{ ...local, refuses: { code: 'disk_full', since, seenAt: since } }] },
    exit: 7,
    says: `local takes no new files since ${since} (disk_full)`,
  },
])('status says what the health of the service is: $says', async ({ part, exit, says }) => {
  const dataDir = join(dir, 'ill');
  const said: Health = { ...health, status: exit === 0 ? 'ok' : 'degraded', ...part };
  const controls = await listenForControl(await socketIn(dataDir), { ...calm, health: async () => said });
  const ran = await run(['status', '--data-dir', dataDir], dir);
  expect(ran.exit).toBe(exit);
  expect(ran.stdout).toContain(`\nhealth    ${says}\n`);
  const json = await run(['status', '--json', '--data-dir', dataDir], dir);
  expect(json.exit).toBe(exit);
  expect(JSON.parse(json.stdout)).toMatchObject({ health: part });
  await controls.close();
});

/** Commands that ask the local service, which is there. */
const asking = ['stop', 'status', 'rebuild', 'doctor', 'list', 'verify --local', 'service backup copy'];
const password = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };

async function dataDirOf(pid: number): Promise<string> {
  const dataDir = await temporaryDirectory();
  await mkdir(localPaths(dataDir).local);
  await loadSecrets(dataDir);
  const service = present(markProcess(pid));
  await writeState(dataDir, 'run', { v: 1, service, workerd: [], url: 'http://127.0.0.1:1', startedAt: 'now' });
  return dataDir;
}

test.each(asking)('an interruption ends the waiting of sealpin %s', async (words) => {
  const dataDir = await dataDirOf(process.pid);
  const stop = new AbortController();
  const silent = createServer().on('request', () =>
    stop.abort(new SealpinError('interrupted', 'interrupted by SIGINT')),
  );
  silent.listen(localPaths(dataDir).control);
  onTestFinished(() => void silent.close());
  const argv = [...words.split(' '), `--data-dir=${dataDir}`];
  const ran = await run(argv, dataDir, { env: password, signal: stop.signal });
  expect(ran).toMatchObject({ exit: 130, stdout: '' });
  expect(ran.stderr).toContain('sealpin: error: interrupted by SIGINT\n');
});

test('a command for another service does not ask the local one', async () => {
  const dataDir = await dataDirOf(process.pid);
  let isAsked = false;
  const local = createServer((_request, response) => {
    isAsked = true;
    response.writeHead(200).end(JSON.stringify({ url: status.url }));
  });
  local.listen(localPaths(dataDir).control);
  onTestFinished(() => void local.close());
  for (const service of ['http://127.0.0.1:2', status.url]) {
    isAsked = false;
    const ran = await run(['list', '--service', service, `--data-dir=${dataDir}`], dataDir, {
      env: { SEALPIN_API_KEY: someApiKey },
    });
    expect({ exit: ran.exit, isAsked }, ran.stderr).toEqual({ exit: 6, isAsked: service === status.url });
  }
});

inCi('each command that asks a suspended service says so, and which process it is', async () => {
  const suspended = await helper("console.log('up'); setInterval(() => {}, 1000)");
  onTestFinished(() => void suspended.kill('SIGKILL'));
  const pid = present(suspended.pid);
  const dataDir = await dataDirOf(pid);
  // Its connections are taken, as the kernel does for a process that is suspended.
  const silent = createServer().listen(localPaths(dataDir).control);
  onTestFinished(() => void silent.close());
  await Promise.all(
    asking.map(async (words) => {
      const ran = await run([...words.split(' '), `--data-dir=${dataDir}`], dataDir, { env: password });
      expect(ran.exit, words).toBe(6);
      expect(`${ran.stdout}${ran.stderr}`, words).toContain('the local service does not answer: nothing for 15 s');
      expect(`${ran.stdout}${ran.stderr}`, words).toContain(`kill -CONT ${pid} resumes it`);
    }),
  );
});
