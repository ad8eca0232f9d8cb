import { entry } from '../../../testkit/programs/command-line.ts';
/** Large files and broken uploads: they go by tus, and the same command continues them. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { faultyProxy, type ProxyFault, type Passed } from '../../../testkit/faulty-proxy.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { hasTusd, noTusd, startTusdService, type TusdService } from '../../../testkit/programs/tusd.ts';
import { someApiKey } from '../hostile.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { present } from '../../../testkit/present.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';

const mib = 1024 * 1024;
const limitBytes = 2 * mib;
const env = { SEALPIN_API_KEY: someApiKey, SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };

const patches = (passed: readonly Passed[]): Passed[] => passed.filter(({ method }) => method === 'PATCH');
const created = (passed: readonly Passed[]): Passed[] => passed.filter(({ method }) => method === 'POST');
const ended = (passed: readonly Passed[]): Passed[] => passed.filter(({ method }) => method === 'DELETE');
const offsetsOf = (passed: readonly Passed[]): number[] =>
  patches(passed).map(({ headers }) => Number(headers['upload-offset']));

describe.runIf(hasTusd())('by a resumable upload', () => {
  let service: TusdService;
  beforeAll(async () => {
    service = await startTusdService({ maxUploadBytes: limitBytes });
  });
  afterAll(() => service.close());

  type Fault_ = (
    request: Passed,
    before: readonly Passed[],
  ) => ProxyFault | undefined | Promise<ProxyFault | undefined>;

  /** A directory with the file `in`, and a proxy whose fault the test may change. */
  async function scene(bytes = 5 * mib) {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), randomBytes(bytes));
    const line: { fault: Fault_ } = { fault: () => undefined };
    const { url, passed } = await faultyProxy(
      () => service.url,
      (request, before) => line.fault(request, before),
    );
    const home = join(directory, 'home');
    const argv = ['encrypt', 'in', '--service', url, '--data-dir', home];
    const encrypt = (overrides: Overrides = {}, words = argv): Promise<Ran> =>
      run(words, directory, { env, ...overrides });
    const spools = (): Promise<string[]> => readdir(join(home, 'uploads')).catch(() => []);
    return { directory, url, passed, line, home, argv, encrypt, spools };
  }
  type Scene = Awaited<ReturnType<typeof scene>>;

  /** Runs the command as a process and kills it as soon as the condition holds. */
  async function killed(
    { argv, directory }: Scene,
    when: () => boolean | Promise<boolean>,
    words = argv,
  ): Promise<void> {
    const child = spawn(process.execPath, [entry, ...words], {
      cwd: directory,
      env: { ...bareEnv(), HOME: directory, ...env },
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    const closed = once(child, 'close');
    while (child.exitCode === null && !(await when())) await sleep(2);
    expect(child.exitCode).toBeNull();
    child.kill('SIGKILL');
    await closed;
  }

  /**
   * Leaves an upload whose first part is at the service: by `kill -9`, or by Ctrl-C, which takes no
   * process.
   */
  async function interrupted(
    on: Scene,
    words = on.argv,
    by: 'kill' | 'Ctrl-C' = 'Ctrl-C',
    now = Date.now,
  ): Promise<void> {
    const stop = new AbortController();
    // The second part gets no response: that is the moment.
    on.line.fault = async (_, before) => {
      if (patches(before).length < 1 || before.at(-1)?.method === 'DELETE') return undefined;
      stop.abort(new DOMException('stop'));
      await sleep(60_000, undefined, { ref: false });
      return undefined;
    };
    if (by === 'kill') await killed(on, () => patches(on.passed).length > 1, words);
    else expect((await on.encrypt({ signal: stop.signal, now }, words)).exit).toBe(1);
    on.line.fault = () => undefined;
    on.passed.length = 0;
  }

  test('goes what is larger than one request may be, and nothing of it stays on the disk', async () => {
    const { encrypt, spools, passed, home } = await scene();
    const ran = await encrypt();
    expect(ran.stderr).toBe(
      'sealpin: encrypting into a copy of 5.0 MiB on this disk, so that the upload can continue after a break\n',
    );
    expect(ran).toMatchObject({ exit: 0, stdout: expect.stringMatching(/^bafybei\S+\n$/) as unknown });
    expect(offsetsOf(passed)).toEqual([0, 2 * mib, 4 * mib]);
    expect(await spools()).toEqual([]);
    expect(await readFile(join(home, 'history'), 'utf8')).toContain(ran.stdout.trim());
  });

  test('goes without a change to a folder of the same form that is not of this program', async () => {
    const { encrypt, spools, home } = await scene(3 * mib);
    const folder = '0123456789abcdef'.repeat(2);
    await mkdir(join(home, 'uploads', folder), { recursive: true, mode: 0o700 });
    await writeFile(join(home, 'uploads', folder, 'letter'), 'Dear Ann');
    expect((await encrypt()).exit).toBe(0);
    expect(await spools()).toEqual([folder]);
    expect(await readdir(join(home, 'uploads', folder))).toEqual(['letter']);
  });

  test('S69: continues over breaks and lost responses, and says so once for each', async () => {
    const { encrypt, line, passed } = await scene();
    line.fault = ({ method }, before) => {
      if (method !== 'PATCH') return undefined;
      if (patches(before).length === 1) return { kind: 'break', afterBytes: mib };
      return patches(before).length === 2 ? { kind: 'swallow' } : undefined;
    };
    const ran = await encrypt();
    expect(ran.exit).toBe(0);
    expect(ran.stderr.match(/trying again, from where the service stopped/g)).toHaveLength(2);
    expect(offsetsOf(passed)[2]).toBeGreaterThan(2 * mib);
  });

  test('S50: after kill -9 the same command continues, and sends nothing twice', async () => {
    const on = await scene();
    await interrupted(on, on.argv, 'kill');
    const [spool] = await on.spools();
    const kept = join(on.home, 'uploads', present(spool));
    expect((await stat(join(kept, 'container'))).mode & 0o777).toBe(0o600);
    const state = await readFile(join(kept, 'state.json'), 'utf8');
    for (const secret of Object.values(env)) expect(state).not.toContain(secret);
    const ran = await on.encrypt();
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toMatch(/^sealpin: continuing the upload of in at \d\.\d MiB of 5\.0 MiB\n$/);
    expect(created(on.passed)).toEqual([]);
    expect(offsetsOf(on.passed)[0]).toBeGreaterThanOrEqual(2 * mib);
    expect(JSON.parse(state)).toMatchObject({ cid: ran.stdout.trim() });
    expect(await on.spools()).toEqual([]);
  });

  test.runIf(long)(
    'S50: after a kill between the last byte and its end, the same command finds it stored',
    async () => {
      const on = await scene();
      on.line.fault = async ({ method }) => {
        if (method === 'GET' && patches(on.passed).length === 3) await sleep(60_000, undefined, { ref: false });
        return undefined;
      };
      await killed(on, () => patches(on.passed).length === 3 && on.passed.at(-1)?.method === 'GET');
      on.line.fault = () => undefined;
      on.passed.length = 0;
      const ran = await on.encrypt();
      expect(ran).toMatchObject({ exit: 0, stderr: 'sealpin: continuing the upload of in at 5.0 MiB of 5.0 MiB\n' });
      expect(patches(on.passed)).toEqual([]);
    },
  );

  inCi('S50: what was not encrypted to its end is not continued, and that is said', async () => {
    const on = await scene(24 * mib);
    const writes = async (): Promise<boolean> =>
      (await readdir(on.home, { recursive: true }).catch(() => [])).some((name) => name.endsWith('.tmp'));
    // Again where it was encrypted before the signal came, as on busy cores.
    on.line.fault = async ({ method }) => {
      if (method === 'PATCH') await sleep(60_000, undefined, { ref: false });
      return undefined;
    };
    for (let attempt = 0; attempt < 5 && !(await writes()); attempt += 1) {
      await rm(on.home, { recursive: true, force: true });
      on.passed.length = 0;
      await killed(on, async () => (await writes()) || patches(on.passed).length > 0);
    }
    on.line.fault = () => undefined;
    const ran = await on.encrypt();
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toContain(
      'sealpin: the interrupted upload of in cannot be continued: it was not encrypted to its end\n',
    );
    expect(await on.spools()).toEqual([]);
  });

  test.each([
    {
      title: 'S53: when the file has changed',
      change: ({ directory }: Scene) => writeFile(join(directory, 'in'), randomBytes(5 * mib)),
      overrides: {},
      says: 'the file or its permissions have changed since',
    },
    {
      title: 'when another password is given',
      change: async () => undefined,
      overrides: { env: { ...env, SEALPIN_PASSWORD: 'quarry-saddle-violet-thirteen' } },
      says: 'it was encrypted with another password',
    },
  ])('begins afresh, says so and ends the old upload, $title', async ({ change, overrides, says }) => {
    const on = await scene();
    await interrupted(on);
    await change(on);
    const ran = await on.encrypt(overrides);
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toContain(`sealpin: the interrupted upload of in is not continued: ${says}; it starts afresh\n`);
    expect(ended(on.passed)).toHaveLength(1);
    expect(created(on.passed)).toHaveLength(1);
    expect(offsetsOf(on.passed)[0]).toBe(0);
  });

  test.runIf(long)('to other keys is another upload; to the same ones it continues', async () => {
    const on = await scene();
    for (const name of ['ann', 'ben']) await run(['keygen', '--output', name, '--data-dir', on.home], on.directory);
    const words = (...names: string[]) => ['ecc-encrypt', 'in', ...names, ...on.argv.slice(2)];
    await interrupted(on, words('ann/public.key', 'ben/public.key'));
    const other = await on.encrypt({}, words('ann/public.key'));
    expect(other.exit).toBe(0);
    expect(created(on.passed)).toHaveLength(1);
    const same = await on.encrypt({}, words('ben/public.key', 'ann/public.key'));
    expect(same.exit).toBe(0);
    expect(same.stderr).toContain('continuing the upload of in at ');
    expect(created(on.passed)).toHaveLength(1);
  });

  test.runIf(long)('begins again with the same bytes when the service has lost the upload', async () => {
    const on = await scene();
    await interrupted(on);
    const [spool] = await on.spools();
    const { uploadId, cid } = JSON.parse(
      await readFile(join(on.home, 'uploads', present(spool), 'state.json'), 'utf8'),
    ) as {
      uploadId: string;
      cid: string;
    };
    await fetch(`${service.url}/v1/uploads/${uploadId}`, { method: 'DELETE', headers: { 'tus-resumable': '1.0.0' } });
    const ran = await on.encrypt();
    expect(ran).toMatchObject({
      exit: 0,
      stdout: `${cid}\n`,
      stderr: 'sealpin: the service no longer has the upload of in; it starts again at the first byte\n',
    });
    expect(offsetsOf(on.passed)[0]).toBe(0);
  });

  test('S52: Ctrl-C keeps it, and says how to continue', async () => {
    const on = await scene();
    const stop = new AbortController();
    on.line.fault = ({ method }, before) => {
      if (method === 'PATCH' && patches(before).length === 1) stop.abort(new DOMException('stop'));
      return undefined;
    };
    const ran = await on.encrypt({ signal: stop.signal });
    expect(ran.exit).toBe(1);
    expect(ran.stderr).toContain('sealpin: to continue the upload, run the same command again within 7 days\n');
    on.line.fault = () => undefined;
    expect((await on.encrypt()).stderr).toMatch(/^sealpin: continuing the upload of in at /);
  });

  test('keeps it when the service is away for long, and ends it when the service refuses', async () => {
    const on = await scene();
    on.line.fault = ({ method }) =>
      method === 'PATCH' ? { kind: 'answer', status: 503, headers: { 'retry-after': '900' } } : undefined;
    const away = await on.encrypt();
    expect(away.exit).toBe(6);
    expect(away.stderr).toContain('hint: to continue the upload, run the same command again within 7 days');
    expect(await on.spools()).toHaveLength(1);
    on.line.fault = ({ method }) => (method === 'PATCH' ? { kind: 'answer', status: 403 } : undefined);
    expect((await on.encrypt()).exit).toBe(4);
    expect(await on.spools()).toEqual([]);
    expect(ended(on.passed)).toHaveLength(1);
  });

  test('S59: the same command twice at once: the second is refused', async () => {
    const on = await scene();
    let second: Promise<Ran> | undefined;
    on.line.fault = async ({ method }) => {
      if (method === 'PATCH') second ??= on.encrypt();
      await (method === 'PATCH' ? second : undefined);
      return undefined;
    };
    expect((await on.encrypt()).exit).toBe(0);
    const refused = await present(second);
    expect(refused).toMatchObject({ exit: 1, stdout: '' });
    expect(refused.stderr).toContain('sealpin: error: another sealpin is uploading the same file\n');
  });

  inCi('from a pipe, whose leftover is removed by the next upload', async () => {
    const on = await scene();
    const words = ['encrypt', '-', ...on.argv.slice(2)];
    const chunks = (): Readable => Readable.from(Array.from({ length: 5 }, () => randomBytes(mib)));
    expect((await on.encrypt({ stdin: chunks() }, words)).exit).toBe(0);
    const small = await on.encrypt({ stdin: 'small' }, words);
    // It fits into one request, and goes in one.
    expect(on.passed.at(-1)).toMatchObject({
      method: 'POST',
      path: expect.stringMatching(/^\/v1\/storage\/plain/) as unknown,
    });
    expect(small.exit).toBe(3);
    const stop = new AbortController();
    on.line.fault = ({ method }) => {
      if (method === 'PATCH') stop.abort(new DOMException('stop'));
      return undefined;
    };
    expect((await on.encrypt({ stdin: chunks(), signal: stop.signal }, words)).exit).toBe(1);
    expect(await on.spools()).toEqual([]);
    expect(ended(on.passed)).toHaveLength(1);
  });

  test.runIf(long)('removes what other commands left more than 7 days ago, and nothing younger', async () => {
    const on = await scene();
    await interrupted(on);
    await writeFile(join(on.directory, 'other'), randomBytes(3 * mib));
    const other = ['encrypt', 'other', ...on.argv.slice(2)];
    const day = 24 * 3600 * 1000;
    expect((await on.encrypt({ now: () => Date.now() + 6 * day }, other)).exit).toBe(0);
    expect(await on.spools()).toHaveLength(1);
    const ran = await on.encrypt({ now: () => Date.now() + 8 * day }, other);
    expect(ran.stderr).toContain(
      `sealpin: removed the copy of ${join(on.directory, 'in')} of an upload that was interrupted over 7 days ago\n`,
    );
    expect(await on.spools()).toEqual([]);
    expect(ended(on.passed)).toHaveLength(1);
  });

  test('is kept for 7 days from the last byte that the service took, however long ago it began', async () => {
    const on = await scene();
    const later = (days: number) => () => Date.now() + days * 24 * 3600 * 1000;
    await interrupted(on);
    await interrupted(on, on.argv, 'Ctrl-C', later(6));
    const ran = await on.encrypt({ now: later(12) });
    expect(ran.stderr).toMatch(/^sealpin: continuing the upload of in at /);
  });

  test.runIf(long)('a damaged state is not continued', async () => {
    const on = await scene();
    await interrupted(on);
    const [spool] = await on.spools();
    await writeFile(join(on.home, 'uploads', present(spool), 'state.json'), '{"v": 1');
    const ran = await on.encrypt();
    expect(ran.exit).toBe(0);
    expect(created(on.passed)).toHaveLength(1);
    expect(await on.spools()).toEqual([]);
  });

  inCi('goes a request that breaks off in the middle of a large file', async () => {
    const whole = await startTusdService({ maxUploadBytes: null });
    try {
      const on = await scene(24 * mib);
      const { url, passed } = await faultyProxy(
        () => whole.url,
        ({ path }) => (path.startsWith('/v1/storage/plain') ? { kind: 'break', afterBytes: 6 * mib } : undefined),
      );
      const words = ['encrypt', 'in', '--service', url, '--data-dir', on.home];
      const ran = await on.encrypt({}, words);
      expect(ran.exit).toBe(0);
      expect(ran.stderr).toMatch(
        /^sealpin: \S+ broke off the upload at \S+ MiB of 24\.0 MiB; it is stored by a resumable upload instead\n/,
      );
      expect(offsetsOf(passed)).toEqual([0]);
      // Little is begun again by hand as quickly.
      await writeFile(join(on.directory, 'in'), randomBytes(12 * mib));
      expect((await on.encrypt({}, words)).exit).toBe(6);
    } finally {
      await whole.close();
    }
  });

  test.skipIf(!ci || process.platform !== 'linux')(
    'S49: a disk without room for the copy: a clear error, and nothing left',
    async (context) => {
      const on = await scene();
      await mkdir(on.home, { mode: 0o700 });
      const ran = await onSmallDisk(context, {
        disk: on.home,
        mebibytes: 2,
        script: `"$NODE" "$ENTRY" ${on.argv.join(' ')}; echo "exit $?"; find "$DISK" -type f`,
        cwd: on.directory,
        env: { HOME: on.directory, ENTRY: entry, ...env },
      });
      expect(ran.stdout).toBe('exit 7\n');
      expect(ran.stderr).toContain('needs up to 5.0 MiB, and ');
      expect(ran.stderr).toContain(
        'hint: a large upload needs a copy of the encrypted file on this disk until it ends',
      );
      expect(created(on.passed)).toEqual([]);
    },
  );
});

if (!hasTusd()) test.skip(noTusd);
