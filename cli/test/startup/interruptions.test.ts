/** Messages after a signal: what is stored or written, and how to resume. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { headings, loadCommands } from '../../commands/index.ts';
import { connect } from '../../../client/index.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { faultyProxy } from '../../../testkit/faulty-proxy.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { Collector, run, temporaryDirectory, type Ran } from '../environment.ts';
import { account, health, hostile, json, someApiKey, storedFile } from '../hostile.ts';
import { localService } from '../local.ts';

const local = localService();
const mine = { SEALPIN_PASSWORD: 'correct horse battery staple' };
const env = { ...mine, SEALPIN_API_KEY: someApiKey };
const interrupted = new SealpinError('interrupted', 'interrupted by SIGINT');

let directory: string;
beforeEach(async () => {
  directory = await temporaryDirectory();
});

/**
 * Commands of which an interruption leaves nothing that their user could wonder about, or that say
 * themselves what it leaves.
 */
const silent = [
  'doctor, events',
  'start, stop, status, rebuild, keygen, contact add, contact list, contact remove, login, profile list, profile use',
  'profile remove, encrypt, chacha-encrypt, ecc-encrypt, send, share, shares, shares change, unshare',
  'inbox create, inbox list, inbox revoke',
  'invite create, invite list, invite revoke',
  'list, verify, pages verify, key create, key list, key revoke, key export, key restore, key rotate',
  'account create, account list, account quota, account disable, account enable, account delete, migrate, completions',
].flatMap((line) => line.split(', '));

test('each command says what an interruption leaves, or is one that has no need to', async () => {
  const saying = (await loadCommands()).filter((command) => command.interrupted !== undefined).map(({ name }) => name);
  expect([...silent, ...saying].toSorted()).toEqual(headings.map(({ name }) => name).toSorted());
});

describe('an interruption', () => {
  test.each([
    { argv: ['encrypt', 'film'], says: 'nothing was stored: the same command begins again' },
    { argv: ['ecc-encrypt', 'film', 'home/public.key'], says: 'nothing was stored: the same command begins again' },
    { argv: ['send', 'film'], says: 'nothing was sent: the same command begins again' },
  ])('in the middle of $argv says that nothing is stored', async ({ argv, says }) => {
    await writeFile(join(directory, 'film'), Buffer.alloc(16 * 1024 * 1024));
    await run(['keygen', '--data-dir', 'home'], directory);
    const stop = new AbortController();
    const service = await hostile({
      'GET /v1/health': health(),
      'GET /v1/account': account(['read', 'write', 'share']),
      // It takes no more than the sockets hold.
      'POST /v1/storage/plain': () => stop.abort(interrupted),
    });
    const ran = await run([...argv, '--service', service.url, '--data-dir', 'home'], directory, {
      env,
      signal: stop.signal,
    });
    expect(ran).toMatchObject({ exit: 130, stdout: '' });
    expect(ran.stderr).toContain(`sealpin: ${says}`);
    expect(ran.stderr).toContain('sealpin: error: interrupted by SIGINT\n');
  });

  test('once all was sent says where it shows whether it is stored', async () => {
    await writeFile(join(directory, 'letter'), 'Dear Ann');
    const stop = new AbortController();
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': (request) => {
        request.resume();
        request.once('end', () => stop.abort(interrupted));
      },
    });
    const ran = await run(['encrypt', 'letter', '--service', service.url], directory, { env, signal: stop.signal });
    expect(ran).toMatchObject({ exit: 130, stdout: '' });
    expect(ran.stderr).toContain('sealpin list shows whether it was stored; if not, run the same command again');
  });

  test('of several files to send removes those that were stored, or says that it could not', async () => {
    await writeFile(join(directory, 'one'), 'one');
    // Large files go one by one, after the others.
    await writeFile(join(directory, 'two'), Buffer.alloc(16 * 1024 * 1024 + 1));
    for (const answer of [200, 503]) {
      const stop = new AbortController();
      let posts = 0;
      const service = await hostile({
        'GET /v1/health': health(),
        'GET /v1/account': account(['read', 'write', 'share']),
        'POST /v1/storage/plain': async (request, response) => {
          posts += 1;
          if (posts === 2) return stop.abort(interrupted);
          const bytes = Buffer.from(await new Response(request as unknown as ReadableStream).arrayBuffer());
          return json(response, 201, storedFile(await cidOfBytes(bytes), bytes.length));
        },
        'POST /v1/storage/delete': (_request, response) => {
          const { fileId } = storedFile('', 0);
          if (answer === 200) json(response, 200, { receipts: [{ fileId, key: 'none', pins: [] }], notFound: [] });
          else response.writeHead(503).end();
        },
      });
      const ran = await run(['send', 'one', 'two', '--service', service.url], directory, { env, signal: stop.signal });
      expect(ran).toMatchObject({ exit: 130, stdout: '' });
      expect(ran.stderr).toContain(
        answer === 200
          ? 'nothing was sent: the same command begins again'
          : 'nothing was sent; 1 file could not be removed again: nobody can open what was stored',
      );
    }
  });

  test('of a backup, a restoration, a copy and a download says how the same command resumes', async () => {
    await writeFile(join(directory, 'letter'), 'Dear Ann');
    await mkdir(join(directory, 'out'));
    const here = (argv: readonly string[], overrides = {}): Promise<Ran> =>
      run([...argv, '--data-dir', local.dataDir], directory, { env: mine, ...overrides });
    const blob = (await here(['encrypt', 'letter', '--quiet'])).stdout.trim();
    expect(await here(['backup', 'copy'])).toMatchObject({ exit: 0 });
    for (const { argv, says } of [
      { argv: ['backup', 'copy'], says: 'what is in the folder stays: the same command resumes there' },
      { argv: ['restore', 'copy'], says: 'what was restored stays: the same command resumes there' },
      { argv: ['decrypt', blob, 'out/letter'], says: 'nothing was written: run the same command again, which' },
      { argv: ['export', blob, 'out/letter.car'], says: 'nothing was written: the same command begins again' },
    ]) {
      const stop = new AbortController();
      const proxy = await faultyProxy(
        () => local.url,
        ({ path }) => {
          if (path.startsWith('/v1/storage') || path.startsWith('/ipfs')) stop.abort(interrupted);
          return undefined;
        },
      );
      const ran = await here([...argv, '--service', proxy.url], {
        env: { ...mine, SEALPIN_API_KEY: local.apiKey },
        signal: stop.signal,
      });
      expect(ran).toMatchObject({ exit: 130, stdout: '' });
      expect(ran.stderr).toContain(`sealpin: error: interrupted by SIGINT\nsealpin: hint: ${says}`);
    }
    expect(await readdir(join(directory, 'out'))).toEqual([]);
  });

  test('of a download to standard output says that what it wrote is incomplete, once there is something', async () => {
    const bytes = Buffer.alloc(3_000_000);
    await writeFile(join(directory, 'film'), bytes);
    const here = (argv: readonly string[], overrides = {}): Promise<Ran> =>
      run([...argv, '--data-dir', local.dataDir], directory, { env: mine, ...overrides });
    const blob = (await here(['encrypt', 'film', '--quiet'])).stdout.trim();
    await here(['encrypt', 'film', '--output', 'film.age']);
    const link = (await here(['send', 'film', '--quiet'])).stdout.trim();
    const { fileId } = await connect({ service: local.url, apiKey: local.apiKey }).put(bytes, { name: 'film' });
    for (const source of [blob, './film.age', link, fileId]) {
      const stop = new AbortController();
      const stdout = new Collector();
      stdout.onWrite = () => stop.abort(interrupted);
      const ran = await here(['decrypt', source, '-'], { signal: stop.signal, stdout });
      expect(ran.exit, source).toBe(130);
      expect(ran.stdoutBytes.length).toBeGreaterThan(0);
      expect(ran.stderr).toContain('hint: the output is incomplete: run the same command again, which');
      const early = await here(['decrypt', source, '-'], { signal: AbortSignal.abort(interrupted) });
      expect(early, source).toMatchObject({ exit: 130, stdout: '' });
      expect(early.stderr).toContain('hint: nothing was written: ');
    }
  });
});

test('SIGUSR1 opens no debugger to the users of this machine, and ends no command', async () => {
  execFileSync('mkfifo', [join(directory, 'fifo')]);
  const child = spawn(process.execPath, [entry, 'encrypt', 'fifo', '--output', 'out'], {
    cwd: directory,
    env: { ...bareEnv(), SEALPIN_PASSWORD: 'weak', HOME: directory },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [closed, said] = [once(child, 'close'), text(child.stderr)];
  // Weak passwords are warned of once the FIFO is open.
  await once(child.stderr, 'data');
  child.kill('SIGUSR1');
  await writeFile(join(directory, 'fifo'), 'Dear Ann');
  expect(await closed).toEqual([0, null]);
  expect(await said).not.toMatch(/debugger|inspector/i);
});
