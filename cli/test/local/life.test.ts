import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { rootCertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { client } from '../../../testkit/api-client.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { isRunning } from '../../local/process.ts';
import { quoted } from '../../terminal/local-commands.ts';
import { localService } from '../../local/control.ts';
import { readState, localPaths } from '../../local/state.ts';
import { Collector, temporaryDirectory } from '../environment.ts';
import { health, hostile } from '../hostile.ts';
import { ask, endedAfterEach, here, sealpin, startHere, store } from './harness.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import type { RunningHere } from './harness.ts';
import { present } from '../../../testkit/present.ts';

const { started, startedHere } = endedAfterEach();

async function fetched(service: RunningHere, fileId: string): Promise<Buffer> {
  const answer = await ask(service, 'getFileContent', { fileId });
  expect(answer.status).toBe(200);
  return Buffer.from(await answer.arrayBuffer());
}

const bytes = (size: number, fill = 7): Uint8Array<ArrayBuffer> =>
  new Uint8Array(size).map((_, index) => (index * fill) & 0xff);

/** Remains of a stopped service: its data directory, its key, and a file in it. */
let left: { dataDir: string; apiKey: string; data: Uint8Array; fileId: string };
beforeAll(async () => {
  const service = await startHere();
  const data = bytes(2_500_000);
  const { fileId } = await store(service, 'encrypted', data);
  await service.end();
  left = { dataDir: service.dataDir, apiKey: service.apiKey, data, fileId };
});
afterAll(() => rm(left.dataDir, { recursive: true, force: true }));

/** A copy of it for one test. */
async function stopped(): Promise<string> {
  const dataDir = await temporaryDirectory();
  await cp(left.dataDir, dataDir, { recursive: true });
  return dataDir;
}

inCi('without the index of its node it starts, says so, reads every file, and deletes them', async () => {
  const dataDir = await stopped();
  const { ipfs } = localPaths(dataDir);
  for (const name of await readdir(ipfs)) if (name.startsWith('node.db')) await rm(join(ipfs, name));
  const service = await startedHere({ dataDir });
  expect(service.stderr()).toContain('node.db did not know 1 file in data/');
  expect((await fetched(service, left.fileId)).equals(Buffer.from(left.data))).toBe(true);
  const receipt = await ask(service, 'deleteFile', { fileId: left.fileId });
  expect(await receipt.json()).toMatchObject({ pins: [{ service: 'local', status: 'unpinned' }] });
  expect(await readdir(join(ipfs, 'data'))).toEqual([]);
});

inCi('its id for pins is made once, also in a data directory of an earlier version', async () => {
  const dataDir = await stopped();
  const { secrets } = localPaths(dataDir);
  const idIn = async () => (JSON.parse(await readFile(secrets, 'utf8')) as { serviceId?: string }).serviceId;
  const id = await idIn();
  expect(id).toMatch(/^[0-9a-f]{32}$/);
  const again = await startHere({ dataDir });
  expect(await idIn()).toBe(id);
  await again.end();
  const { serviceId, ...earlier } = JSON.parse(await readFile(secrets, 'utf8')) as Record<string, unknown>;
  await writeFile(secrets, JSON.stringify(earlier));
  const upgraded = await startedHere({ dataDir });
  expect(upgraded.apiKey).toBe(left.apiKey);
  expect(await idIn()).toMatch(/^[0-9a-f]{32}$/);
  expect(await idIn()).not.toBe(serviceId);
});

/** A port that another program listens on, and what a start there says. */
async function busyPort(): Promise<{ port: number; says: string }> {
  const other = await startLoopbackServer((_, response) => void response.end());
  onTestFinished(() => other.close());
  const port = Number(new URL(other.url).port);
  const says = `port ${port} is in use by another program\nsealpin: hint: choose another one with --port\n`;
  return { port, says: `sealpin: error: ${says}` };
}

describe('the local service', () => {
  test('goes on where the disk of its log is full, and ends with 0 after a signal; the next one has all', async () => {
    const full = '/dev/full';
    const first = await started(existsSync(full) ? { log: full } : {});
    const data = bytes(2 ** 20 + 5);
    const files = [await store(first, 'plain', data), await store(first, 'encrypted', data)];
    for (const { fileId } of files) expect(Buffer.compare(await fetched(first, fileId), data)).toBe(0);
    const run = present(await readState(first.dataDir, 'run'));
    expect(run.workerd).toHaveLength(1);
    expect(await first.end('SIGTERM')).toBe(0);
    expect(run.workerd.some(isRunning)).toBe(false);
    await expect(fetch(first.url)).rejects.toThrow();
    expect(await readState(first.dataDir, 'run')).toBeUndefined();
    const second = await (long ? started : startedHere)({ dataDir: first.dataDir });
    expect(second.apiKey).toBe(first.apiKey);
    for (const { fileId } of files) expect(Buffer.compare(await fetched(second, fileId), data)).toBe(0);
    expect(await second.end('SIGINT')).toBe(0);
  });

  test('that was killed leaves a workerd, which the next start ends; nothing stored is lost', async () => {
    const first = await started();
    const data = bytes(2 ** 20);
    const { fileId } = await store(first, 'encrypted', data);
    const [orphan] = present(await readState(first.dataDir, 'run')).workerd;
    await first.end('SIGKILL');
    expect(isRunning(present(orphan))).toBe(true);
    expect(await localService(first)).toBeUndefined();
    // Of the one that commands use, and of what is left here.
    const { url } = await hostile({ 'GET /v1/health': health() });
    const status = await here(['status', `--service=${url}`, `--data-dir=${first.dataDir}`]);
    expect(status).toMatchObject({ code: 0, stdout: expect.stringContaining(`service   ${url}/: ok`) as string });
    expect(status.stderr).toContain(`the runtime of a killed one still is: process ${present(orphan).pid}`);
    const second = await startedHere({ dataDir: first.dataDir });
    expect(isRunning(present(orphan))).toBe(false);
    expect(Buffer.compare(await fetched(second, fileId), data)).toBe(0);
  });

  test('says which port is busy, and leaves nothing running', async () => {
    const { port, says } = await busyPort();
    const dataDir = await temporaryDirectory();
    const ran = await sealpin(['start', `--port=${port}`, `--data-dir=${dataDir}`]);
    expect(ran).toMatchObject({ code: 1, stdout: '', stderr: says });
    expect(await readState(dataDir, 'run')).toBeUndefined();
  });

  inCi('without CA certificates says what to install, and runs with those in SSL_CERT_FILE', async (context) => {
    const directory = await temporaryDirectory();
    const empty = join(directory, 'empty');
    await mkdir(empty);
    await writeFile(join(directory, 'roots.pem'), rootCertificates.join('\n'));
    const ran = await onSmallDisk(context, {
      disk: empty,
      mebibytes: 1,
      script: `for folder in /etc/ssl /etc/pki; do [ ! -d $folder ] || mount --bind "$DISK" $folder || exit 77; done
        sealpin() { "$NODE" "$ENTRY" "$@"; }
        sealpin start --port 0; echo "exit $?"; ls "$SEALPIN_HOME/local"
        ${long ? 'SSL_CERT_FILE=$PWD/roots.pem sealpin start --port 0 --detach --quiet && sealpin stop --quiet' : ''}`,
      cwd: directory,
      env: { HOME: directory, ENTRY: entry, SEALPIN_HOME: join(directory, 'home') },
    });
    // The line before it is workerd's own.
    expect(ran.stderr.split('\n').slice(1)).toEqual([
      'sealpin: error: the Workers runtime found no CA certificates on this machine',
      'sealpin: hint: install the package ca-certificates, or name a file of certificates in SSL_CERT_FILE',
      '',
    ]);
    expect(ran.stdout).toMatch(long ? /^exit 1\n[^]*http:\S+\n$/ : /^exit 1\n/);
    // Neither the file of a service that runs nor its socket.
    expect(ran.stdout).not.toMatch(/run\.json|control\.sock/);
  });

  inCi('with a runtime that does not run here says so', async () => {
    const dataDir = await temporaryDirectory();
    const ran = await sealpin(['start', '--port=0', `--data-dir=${dataDir}`], { MINIFLARE_WORKERD_PATH: '/bin/false' });
    expect(ran).toMatchObject({ code: 1, stdout: '' });
    expect(ran.stderr).toContain('sealpin: error: the Workers runtime (workerd) does not run on this machine\n');
  });

  test('S58: does not start over secrets that are damaged, and leaves them as they are', async () => {
    const dataDir = await stopped();
    const { secrets } = localPaths(dataDir);
    await writeFile(secrets, '{"v":1');
    const ran = await here(['start', '--port=0', `--data-dir=${dataDir}`]);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain(`${secrets} is damaged`);
    expect(await readFile(secrets, 'utf8')).toBe('{"v":1');
  });

  test('S58: does not start over a damaged database of an account, and leaves it as it is', async () => {
    const dataDir = await stopped();
    const dir = join(localPaths(dataDir).state, 'do/sealpin-Account');
    const name = present((await readdir(dir)).find((each) => /^[0-9a-f]{64}\.sqlite$/.test(each)));
    const damaged = (await readFile(join(dir, name))).fill(0x5a, 0, 4096);
    await writeFile(join(dir, name), damaged);
    const ran = await here(['start', '--port=0', `--data-dir=${dataDir}`]);
    expect(ran).toMatchObject({ code: 1, stdout: '' });
    expect(ran.stderr).toContain(`${name} is damaged`);
    expect(Buffer.compare(await readFile(join(dir, name)), damaged)).toBe(0);
  });
});

describe('in the background', () => {
  test('start --detach, status, rebuild and stop work together', async () => {
    const dataDir = await temporaryDirectory();
    const flag = `--data-dir=${dataDir}`;
    const { log } = localPaths(dataDir);
    onTestFinished(async () => void (await here(['stop', flag])));
    const began = await sealpin(['start', '--detach', '--port=0', '--json', flag]);
    expect(began).toMatchObject({ code: 0, stderr: '' });
    const { url } = JSON.parse(began.stdout) as { url: string };
    const health = await client(url).ask('getHealth');
    expect(health.status).toBe(200);
    const status = await here(['status', '--json', flag]);
    expect(JSON.parse(status.stdout)).toMatchObject({ url, running: 0 });
    const stdout = Object.assign(new Collector(), { isTTY: true, columns: 40 });
    const narrow = (await here(['status', flag], {}, { stdout })).stdout.trimEnd().split('\n');
    expect(narrow.slice(0, 4)).toEqual(['service', `  ${url}`, 'health', '  ok']);
    expect(Math.max(...narrow.map((line) => line.length))).toBeLessThanOrEqual(40);
    expect((await stat(log)).mode & 0o777).toBe(0o600);

    // The log is kept by a second start, and by the next service as service.log.1.
    const id = present(health.headers.get('x-request-id'));
    await expect
      .poll(() => readFile(log, 'utf8'))
      .toMatch(new RegExp(`^sealpin: 20.*Z GET /v1/health 200, .* \\(request ${id}\\)$`, 'm'));
    const before = await readFile(log, 'utf8');
    // None is started twice on one data directory.
    for (const flags of [['--detach'], []]) {
      const again = await here(['start', ...flags, '--port=0', flag]);
      expect(again).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('already') as string });
    }
    expect(await readFile(log, 'utf8')).toBe(before);
    expect((await client(url).ask('getHealth')).status).toBe(200);

    if (long) {
      const rebuilt = await here(['rebuild', '--json', flag]);
      expect(JSON.parse(rebuilt.stdout)).toMatchObject({ running: true });
      expect((await client(url).ask('getHealth')).status).toBe(200);
    }
    const run = present(await readState(dataDir, 'run'));
    expect(await here(['stop', flag])).toMatchObject({ code: 0 });
    expect([run.service, ...run.workerd].some(isRunning)).toBe(false);
    for (const command of ['stop', 'status']) {
      const none = await here([command, flag]);
      expect(none.code).toBe(6);
      expect(none.stderr).toBe(
        'sealpin: error: no local service is running\n' +
          `sealpin: hint: start it with: sealpin start --data-dir ${quoted(dataDir)}\n`,
      );
    }
    if (long) {
      const built = await here(['rebuild', '--json', flag]);
      expect(JSON.parse(built.stdout)).toMatchObject({ running: false });
    }

    // Also where that does not get its port.
    const { port, says } = await busyPort();
    const refused = await sealpin(['start', '--detach', `--port=${port}`, '--cors-origin=http://localhost:1', flag]);
    expect(refused).toMatchObject({ code: 1, stdout: '', stderr: says });
    expect(await readState(dataDir, 'run')).toBeUndefined();
    expect(await readFile(`${log}.1`, 'utf8')).toContain(before);
    expect(await readFile(log, 'utf8')).not.toContain(id);
    expect((await stat(`${log}.1`)).mode & 0o777).toBe(0o600);
  });
});

inCi('rebuild waits for an upload that runs, which goes through', async () => {
  const service = await startedHere();
  const body = Buffer.from(bytes(256 * 1024));
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const upload = new Promise<{ status: number; fileId: string }>((resolve, reject) => {
    const outgoing = request(
      `${service.url}/v1/storage/plain`,
      {
        method: 'POST',
        agent: false,
        headers: {
          authorization: `Bearer ${service.apiKey}`,
          'content-type': 'application/octet-stream',
          'content-length': body.length,
        },
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.on('end', () =>
          resolve({ status: present(answer.statusCode), fileId: (JSON.parse(text) as { fileId: string }).fileId }),
        );
        answer.on('error', reject);
      },
    );
    outgoing.on('error', reject);
    outgoing.write(body.subarray(0, 1000));
    void released.then(() => outgoing.end(body.subarray(1000)));
  });
  const flag = `--data-dir=${service.dataDir}`;
  const running = async () =>
    (JSON.parse((await here(['status', '--json', flag])).stdout) as { running: number }).running;
  await expect.poll(running).toBe(1);
  let isRebuilt = false;
  const rebuild = here(['rebuild', '--json', flag]).finally(() => (isRebuilt = true));
  // It builds in about a second, and then waits.
  await sleep(1500);
  expect(isRebuilt).toBe(false);
  release();
  const rebuilt = await rebuild;
  expect(JSON.parse(rebuilt.stdout)).toMatchObject({ running: true });
  const { status, fileId } = await upload;
  expect(status).toBe(201);
  expect(Buffer.compare(await fetched(service, fileId), body)).toBe(0);
});
