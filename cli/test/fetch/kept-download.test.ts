import { entry } from '../../../testkit/programs/command-line.ts';
/** Downloads that break off: the same blob continues at the byte that was verified. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, open, readdir, readFile, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { faultyProxy, type ProxyFault, type Passed } from '../../../testkit/faulty-proxy.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { localService } from '../local.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { snapshotOf } from '../snapshot.ts';
import { long } from '../../../testkit/long-run.ts';

const local = localService();
const mib = 1024 * 1024;
const bytes = 16 * mib;
const env = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };
/** As it would stand in a file that has plaintext in it. */
const canary = 'CANARY-of-the-plaintext';

type Stored = { readonly data: Buffer; readonly blobId: string };

/** Stores a file. */
async function store(size = bytes): Promise<Stored> {
  const data = randomBytes(size);
  for (let at = 0; at + 100 < size; at += 10_000) data.write(canary, at);
  const stored = await run(['encrypt', '-', '--data-dir', local.dataDir], '/', { env, stdin: data });
  expect(stored.exit).toBe(0);
  return { data, blobId: stored.stdout.trim() };
}

/** Blob for the tests that do not need one of their own. */
let shared: Stored;
beforeAll(async () => {
  shared = await store();
});

/** Somebody who fetches a blob, and a proxy in front of its service. */
async function scene({ data, blobId } = shared) {
  const directory = await temporaryDirectory();
  const line: { fault: (request: Passed) => ProxyFault | undefined } = { fault: () => undefined };
  const { url, passed } = await faultyProxy(
    () => local.url,
    (request) => line.fault(request),
  );
  const home = join(directory, 'home');
  const argv = ['decrypt', blobId, 'out', '--service', url, '--data-dir', home];
  const decrypt = (overrides: Overrides = {}, words = argv): Promise<Ran> =>
    run(words, directory, { env, ...overrides });
  const kept = (): Promise<string[]> => readdir(join(home, 'downloads')).catch(() => []);
  const keptFile = join(home, 'downloads', blobId, 'blocks.car');
  const isWhole = async (): Promise<boolean> => (await readFile(join(directory, 'out'))).equals(data);
  return { directory, url, passed, line, home, argv, decrypt, kept, keptFile, isWhole };
}
type Scene = Awaited<ReturnType<typeof scene>>;

/**
 * The first byte of the file that each request for blocks asks for; that of the root asks for all.
 */
const starts = (passed: readonly Passed[]): number[] =>
  passed.map(({ path }) => Number(/entity-bytes=([0-9]+)/.exec(path)?.[1] ?? 0));

/** Breaks the line for good after so many bytes, so that the download fails. */
async function brokenOff(on: Scene, afterBytes = 10 * mib): Promise<Ran> {
  on.line.fault = ({ path }) => ({ kind: 'cut', afterBytes: starts([{ path } as Passed])[0] === 0 ? afterBytes : 0 });
  const ran = await on.decrypt();
  on.line.fault = () => undefined;
  on.passed.length = 0;
  return ran;
}

const continued = /^sealpin: continuing the download at [1-9]\d*\.0 MiB of 16\.0 MiB\n/;

describe('a download', () => {
  test('S63: that broke off for good continues at the byte that was verified, and nothing is kept then', async () => {
    const on = await scene();
    const failed = await brokenOff(on);
    expect(failed).toMatchObject({ exit: 6, stdout: '' });
    expect((await stat(on.keptFile)).mode & 0o777).toBe(0o600);
    expect((await readFile(on.keptFile)).includes(canary)).toBe(false);
    expect((await readdir(on.directory)).toSorted()).toEqual(['home']);
    const ran = await on.decrypt();
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toMatch(continued);
    expect(Math.max(...starts(on.passed))).toBeGreaterThanOrEqual(8 * mib);
    expect(await on.isWhole()).toBe(true);
    expect(await on.kept()).toEqual([]);
  });

  test('leaves alone what is in a folder of the same name that is not of this program', async () => {
    const on = await scene();
    const cid = `bafkrei${'a'.repeat(52)}`;
    for (const name of ['holiday', cid]) {
      await mkdir(join(on.home, 'downloads', name), { recursive: true, mode: 0o700 });
      await writeFile(join(on.home, 'downloads', name, 'photo.jpg'), 'a photo');
    }
    await writeFile(join(on.home, 'downloads', 'notes.txt'), 'notes');
    const before = await snapshotOf(join(on.home, 'downloads'));
    expect(await on.decrypt()).toMatchObject({ exit: 0 });
    const after = await snapshotOf(join(on.home, 'downloads'));
    before.delete('');
    for (const [name, about] of before) expect(after.get(name), name).toEqual(about);
  });

  test('S50: that was killed continues, too', async () => {
    const on = await scene();
    on.line.fault = () => ({ kind: 'stall', afterBytes: 10 * mib });
    const child = spawn(process.execPath, [entry, ...on.argv], {
      cwd: on.directory,
      env: { ...bareEnv(), HOME: on.directory, ...env },
      stdio: 'ignore',
    });
    const closed = once(child, 'close');
    const size = (): Promise<number> =>
      stat(on.keptFile).then(
        (found) => found.size,
        () => 0,
      );
    while (child.exitCode === null && (await size()) < 8 * mib) await sleep(5);
    child.kill('SIGKILL');
    await closed;
    on.line.fault = () => undefined;
    const ran = await on.decrypt();
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toMatch(continued);
    expect(await on.isWhole()).toBe(true);
    expect((await readdir(on.directory)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  test('S52: Ctrl-C keeps what was verified', async () => {
    const on = await scene();
    const stop = new AbortController();
    on.line.fault = () => ({ kind: 'stall', afterBytes: 10 * mib });
    const interrupted = on.decrypt({ signal: stop.signal });
    while ((await stat(on.keptFile).catch(() => ({ size: 0 }))).size < 8 * mib) await sleep(5);
    stop.abort(new DOMException('stop'));
    expect((await interrupted).exit).toBe(1);
    on.line.fault = () => undefined;
    expect((await on.decrypt()).stderr).toMatch(continued);
    expect(await on.isWhole()).toBe(true);
  });

  test.each(
    [
      {
        title: 'a flipped bit',
        damage: async (path: string) => {
          const file = await open(path, 'r+');
          await file.write(Buffer.from([1, 2, 3]), 0, 3, 4 * mib + 17);
          await file.close();
        },
        from: 3 * mib,
      },
      { title: 'a lost end', damage: (path: string) => truncate(path, 5 * mib + 1000), from: 4 * mib },
      { title: 'a lost beginning', damage: (path: string) => writeFile(path, Buffer.alloc(6 * mib)), from: 0 },
    ].filter((_, index) => long || index < 1),
  )('S50: what was kept is verified again: $title', async ({ damage, from }) => {
    const on = await scene();
    await brokenOff(on);
    await damage(on.keptFile);
    expect((await on.decrypt()).exit).toBe(0);
    expect(Math.max(...starts(on.passed))).toBe(from);
    expect(await on.isWhole()).toBe(true);
  });

  test.runIf(long)('that broke off twice continues at the second place', async () => {
    const on = await scene();
    await brokenOff(on, 6 * mib);
    // What it asks for next, the rest of the file or single blocks, breaks off at once.
    let isFirst = true;
    on.line.fault = ({ path }) => {
      const isPart = path.includes('entity-bytes');
      const afterBytes = isPart && isFirst ? 6 * mib : 1000;
      if (isPart) isFirst = false;
      return { kind: 'cut', afterBytes };
    };
    expect((await on.decrypt()).exit).toBe(6);
    on.line.fault = () => undefined;
    on.passed.length = 0;
    expect((await on.decrypt()).exit).toBe(0);
    expect(Math.max(...starts(on.passed))).toBeGreaterThanOrEqual(9 * mib);
    expect(await on.isWhole()).toBe(true);
  });

  test.runIf(long)('of another blob starts afresh; into another file it continues', async () => {
    const on = await scene();
    await brokenOff(on);
    const other = await scene(await store());
    const words = [...other.argv.slice(0, 6), on.home];
    expect((await other.decrypt({}, words)).stderr).not.toContain('continuing');
    const elsewhere = on.argv.map((word) => (word === 'out' ? 'elsewhere' : word));
    expect((await on.decrypt({}, elsewhere)).stderr).toMatch(continued);
  });

  test('keeps nothing of a small blob, nor when what is wrong is not the line', async () => {
    const small = await scene(await store(8 * mib));
    small.line.fault = () => ({ kind: 'cut', afterBytes: mib });
    expect((await small.decrypt()).exit).toBe(6);
    expect(await small.kept()).toEqual([]);
    const on = await scene();
    expect((await on.decrypt({ env: { SEALPIN_PASSWORD: 'another one' } })).exit).toBe(4);
    expect(await on.kept()).toEqual([]);
  });

  test('that broke off stays kept until one has the file, whatever else fails meanwhile', async () => {
    const on = await scene();
    await brokenOff(on);
    const { size } = await stat(on.keptFile);
    const fails: { exit: number; words?: string[]; overrides?: Overrides }[] = [
      { exit: 4, overrides: { env: { SEALPIN_PASSWORD: 'another one' } } },
      { exit: 5, words: [...on.argv, '--extract'] },
      { exit: 5, words: [...on.argv, '--path', 'x'] },
    ];
    for (const { exit, words, overrides } of fails) {
      expect(await on.decrypt(overrides, words)).toMatchObject({ exit });
      expect((await stat(on.keptFile)).size).toBeGreaterThanOrEqual(size);
      expect(await readdir(on.directory)).toEqual(['home']);
    }
    expect((await on.decrypt()).stderr).toMatch(continued);
    expect(await on.isWhole()).toBe(true);
    expect(await on.kept()).toEqual([]);
  });

  test('keeps nothing of what the local service has', async () => {
    const directory = await temporaryDirectory();
    const ran = await run(['decrypt', shared.blobId, 'out', '--data-dir', local.dataDir], directory, { env });
    expect(ran.exit).toBe(0);
    expect((await readFile(join(directory, 'out'))).equals(shared.data)).toBe(true);
    await expect(readdir(join(local.dataDir, 'downloads'))).rejects.toThrow('ENOENT');
  });

  test.runIf(long)('S59: two at once of one blob: both get it, one of them keeps', async () => {
    const on = await scene();
    const other = on.argv.map((word) => (word === 'out' ? 'other' : word));
    const both = await Promise.all([on.decrypt(), on.decrypt({}, other)]);
    expect(both.map(({ exit }) => exit)).toEqual([0, 0]);
    expect(await on.isWhole()).toBe(true);
    expect(await on.kept()).toEqual([]);
  });

  test.runIf(long)('removes what nobody continued for 7 days', async () => {
    const on = await scene();
    await brokenOff(on);
    const long = (Date.now() - 8 * 24 * 3600 * 1000) / 1000;
    await utimes(on.keptFile, long, long);
    const other = await scene(await store());
    expect((await other.decrypt({}, [...other.argv.slice(0, 6), on.home])).exit).toBe(0);
    expect(await on.kept()).toEqual([]);
  });
});
