import { entry } from '../../../testkit/programs/command-line.ts';
/**
 * Files larger than a request may be, from end to end: the command line, a line that breaks, and
 * the service as it is deployed.
 */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { faultyProxy, type ProxyFault, type Passed } from '../../../testkit/faulty-proxy.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { present } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

const mib = 1024 * 1024;
const fileBytes = long ? 3 * 1024 * mib : 11 * mib + 3;
const limitBytes = long ? 95 * mib : 2 * mib;

let service: Service;
let unlimited: Service;
beforeAll(async () => {
  [service, unlimited] = await Promise.all([
    startService({ vars: { MAX_UPLOAD_BYTES: String(limitBytes) } }),
    startService(),
  ]);
});
afterAll(() => Promise.all([service.close(), unlimited.close()]));

const patches = (passed: readonly Passed[]): Passed[] => passed.filter(({ method }) => method === 'PATCH');
const posts = (passed: readonly Passed[]): Passed[] => passed.filter(({ method }) => method === 'POST');

/** A file of random bytes, of any size; its SHA-256. */
async function randomFile(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha256');
  const file = await open(path, 'w');
  for (let left = bytes; left > 0; left -= mib) {
    const piece = randomBytes(Math.min(left, mib));
    hash.update(piece);
    await file.write(piece);
  }
  await file.close();
  return hash.digest('hex');
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest('hex');
}

inCi('S50, S54, S69: over breaks, lost responses and kill -9 it arrives whole, and nothing is sent twice', async () => {
  const directory = await temporaryDirectory();
  const sha256 = await randomFile(join(directory, 'in'), fileBytes);
  let faults = true;
  const { url, passed } = await faultyProxy(
    () => service.url,
    ({ method }, before) => {
      if (!faults || method !== 'PATCH') return undefined;
      if (patches(before).length === 1) return { kind: 'break', afterBytes: limitBytes / 2 };
      return patches(before).length === 3 ? { kind: 'swallow' } : undefined;
    },
  );
  const env = {
    SEALPIN_SERVICE: url,
    SEALPIN_API_KEY: (await service.account()).apiKey,
    SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic',
    SEALPIN_HOME: join(directory, 'home'),
  };
  const child = spawn(process.execPath, [entry, 'encrypt', 'in'], {
    cwd: directory,
    env: { ...bareEnv(), HOME: directory, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const closed = once(child, 'close');
  while (child.exitCode === null && patches(passed).length < 5) await sleep(2);
  child.kill('SIGKILL');
  await closed;
  expect(stderr.match(/trying again, from where the service stopped/g)).toHaveLength(2);

  faults = false;
  const already = passed.length;
  const stored = await run(['encrypt', 'in'], directory, { env });
  expect(stored.exit).toBe(0);
  expect(stored.stderr).toMatch(/^sealpin: continuing the upload of in at /);
  expect(posts(passed)).toHaveLength(1);
  const sizes = patches(passed.slice(already)).map(({ headers }) => Number(headers['content-length']));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(fileBytes - limitBytes);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(limitBytes);

  const fetched = await run(['decrypt', stored.stdout.trim(), 'out'], directory, { env });
  expect(fetched.stderr).toMatch(/^sealpin: wrote out /);
  expect(await hashOf(join(directory, 'out'))).toBe(sha256);
  await rm(join(directory, 'out'));
  expect((await run(['delete', stored.stdout.trim()], directory, { env })).exit).toBe(0);
});

// What follows is the same for both.
test.each<[string, ProxyFault]>([
  // As a proxy says where the service behind it restarts.
  ['that a proxy ends with 502', { kind: 'answer', status: 502, body: '<h1>Bad Gateway</h1>' }],
  ...(long ? [['that breaks off', { kind: 'break', afterBytes: 8 * mib }] as [string, ProxyFault]] : []),
])('S69: a request %s continues as an upload, and arrives whole', async (_, fault) => {
  const directory = await temporaryDirectory();
  const sha256 = await randomFile(join(directory, 'in'), 17 * mib);
  const { url, passed } = await faultyProxy(
    () => unlimited.url,
    ({ path }) => (path.startsWith('/v1/storage/plain') ? fault : undefined),
  );
  const env = {
    SEALPIN_SERVICE: url,
    SEALPIN_API_KEY: (await unlimited.account()).apiKey,
    SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic',
    SEALPIN_HOME: join(directory, 'home'),
  };
  const stored = await run(['encrypt', 'in'], directory, { env });
  expect(stored.exit).toBe(0);
  expect(stored.stderr).toContain('it is stored by a resumable upload instead');
  expect(patches(passed)).toHaveLength(1);
  expect(await run(['decrypt', stored.stdout.trim(), 'out'], directory, { env })).toMatchObject({ exit: 0 });
  expect(await hashOf(join(directory, 'out'))).toBe(sha256);
});

inCi('a service that asks to wait gets the file after that time, in parts', async () => {
  const directory = await temporaryDirectory();
  const sha256 = await randomFile(join(directory, 'in'), 2 * mib);
  const busy = { kind: 'answer', status: 503, headers: { 'retry-after': '1' } } as const;
  const answered: number[] = [];
  const { url, passed } = await faultyProxy(
    () => unlimited.url,
    ({ path }) => {
      answered.push(performance.now());
      return path.startsWith('/v1/storage/plain') ? busy : undefined;
    },
  );
  const env = {
    SEALPIN_SERVICE: url,
    SEALPIN_API_KEY: (await unlimited.account()).apiKey,
    SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic',
    SEALPIN_HOME: join(directory, 'home'),
  };
  const stored = await run(['encrypt', 'in'], directory, { env });
  expect(stored).toMatchObject({ exit: 0 });
  expect(stored.stderr).toContain('says 503; it is stored by a resumable upload instead, in 1 second');
  const at = passed.findIndex(({ path }) => path.startsWith('/v1/storage/plain'));
  expect(passed[at + 1]?.path).toBe('/v1/uploads/plain');
  expect(present(answered[at + 1]) - present(answered[at])).toBeGreaterThan(990);
  expect(await run(['decrypt', stored.stdout.trim(), 'out'], directory, { env })).toMatchObject({ exit: 0 });
  expect(await hashOf(join(directory, 'out'))).toBe(sha256);
});
