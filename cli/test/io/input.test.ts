import { entry } from '../../../testkit/programs/command-line.ts';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import {
  appendFile,
  link,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  symlink,
  truncate,
  unlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { openInput, readSmall } from '../../io/input.ts';
import { environmentIn, run, temporaryDirectory } from '../environment.ts';
import { account, health, hostile, someApiKey } from '../hostile.ts';
import { changeKeepingTimes } from '../keeping-times.ts';

const mib = 1024 * 1024;
const passwordInEnv = { SEALPIN_PASSWORD: 'weak' };

async function all(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test('a regular file comes whole, with its size known before', async () => {
  const directory = await temporaryDirectory();
  const data = Buffer.from(Array.from({ length: 2 * mib + 17 }, (_, index) => index % 251));
  await writeFile(join(directory, 'in'), data);
  const input = await openInput('in', environmentIn(directory));
  expect(input.bytes).toBe(data.length);
  expect((await all(input.stream)).equals(data)).toBe(true);
  await input.close();
});

describe('S53: a file that is not at rest', () => {
  async function changing(change: (path: string) => Promise<unknown>): Promise<unknown> {
    const directory = await temporaryDirectory();
    const path = join(directory, 'in');
    await writeFile(path, Buffer.alloc(3 * mib));
    const input = await openInput('in', environmentIn(directory));
    const reader = input.stream.getReader();
    await reader.read();
    await change(path);
    try {
      while (!(await reader.read()).done);
      return undefined;
    } catch (error) {
      return error;
    } finally {
      await input.close();
    }
  }

  const overwritten = async (path: string): Promise<void> => {
    const file = await open(path, 'r+');
    await file.write('x', 2 * mib + 7);
    await file.close();
  };

  test.each([
    { how: 'grew', change: (path: string) => appendFile(path, 'x') },
    { how: 'shrank', change: (path: string) => truncate(path, mib + 5) },
    {
      how: 'changed',
      change: async (path: string) => {
        await overwritten(path);
        await utimes(path, 1, 1);
      },
    },
    { how: 'changed', change: (path: string) => changeKeepingTimes(path, () => overwritten(path)) },
  ])('that $how while it was read is an error, and never read as complete', async ({ how, change }) => {
    expect(await changing(change)).toMatchObject({ code: 'file_changed', message: `in ${how} while it was read` });
  });

  test.each([
    ['another name', (path: string) => link(path, `${path}-2`)],
    ['no name', unlink],
    [
      'no name, and another file has it',
      async (path: string) => {
        await writeFile(`${path}-2`, 'x');
        await rename(`${path}-2`, path);
      },
    ],
  ])('that gets %s while it was read is complete', async (_, change) => {
    expect(await changing(change)).toBe(undefined);
  });

  test('in a folder is said to change, too, where it grows once its end is read', async () => {
    const directory = await temporaryDirectory();
    const log = join(directory, 'in', 'log');
    await mkdir(join(directory, 'in'));
    await writeFile(log, 'line');
    const { readSync } = fs;
    // One byte more than the file has.
    fs.readSync = ((file: number, into: Uint8Array) => {
      if (into.length === 1) fs.appendFileSync(log, 'line');
      return readSync(file, into);
    }) as typeof readSync;
    syncBuiltinESMExports();
    onTestFinished(() => {
      fs.readSync = readSync;
      syncBuiltinESMExports();
    });
    const ran = await run(['encrypt', 'in', '--output', 'c'], directory, { env: passwordInEnv });
    expect(ran).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining('in/log changed while it was read') as string,
    });
  });
});

describe('S54: what is no regular file', () => {
  test('a directory is refused, with a way out', async () => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'dir'));
    await expect(openInput('dir', environmentIn(directory))).rejects.toMatchObject({
      code: 'file_unreadable',
      message: 'dir is a directory',
      hint: 'name a file in it',
    });
  });

  test('a device is refused', async () => {
    await expect(openInput('/dev/zero', environmentIn('/'))).rejects.toMatchObject({
      code: 'file_unreadable',
      message: '/dev/zero is not a regular file',
    });
  });

  test('a loop of links and a missing file are different errors', async () => {
    const directory = await temporaryDirectory();
    await symlink('loop', join(directory, 'loop'));
    await expect(openInput('loop', environmentIn(directory))).rejects.toMatchObject({
      code: 'file_unreadable',
      message: 'loop cannot be read: symbolic link loop',
    });
    await expect(openInput('none', environmentIn(directory))).rejects.toMatchObject({ code: 'file_not_found' });
  });

  test('a FIFO is read to its end, also when its writer comes late', async () => {
    const directory = await temporaryDirectory();
    execFileSync('mkfifo', [join(directory, 'fifo')]);
    const input = await openInput('fifo', environmentIn(directory));
    expect(input.bytes).toBeUndefined();
    const writer = spawn('sh', ['-c', `sleep 0.1; head -c ${3 * mib} /dev/zero > fifo`], {
      cwd: directory,
      stdio: 'ignore',
    });
    expect(await all(input.stream)).toHaveLength(3 * mib);
    await input.close();
    if (writer.exitCode === null) await once(writer, 'exit');
  });

  test('a FIFO without a writer can be interrupted', async () => {
    const directory = await temporaryDirectory();
    execFileSync('mkfifo', [join(directory, 'fifo')]);
    const input = await openInput('fifo', environmentIn(directory));
    const read = expect(input.stream.getReader().read()).rejects.toMatchObject({ code: 'file_unreadable' });
    await input.close();
    await read;
  });
});

describe('a pipe into which nobody writes is waited for no longer than to the signal', () => {
  const interrupted = new SealpinError('interrupted', 'interrupted by SIGTERM');

  test.each([
    { title: 'a FIFO', path: 'fifo' },
    { title: 'standard input', path: '-' },
  ])('$title, read already or not', async ({ path }) => {
    const directory = await temporaryDirectory();
    execFileSync('mkfifo', [join(directory, 'fifo')]);
    for (const isRead of [true, false]) {
      const stop = new AbortController();
      const silent = new Readable({ read: () => undefined });
      const input = await openInput(path, environmentIn(directory, { stdin: silent, signal: stop.signal }));
      const reader = input.stream.getReader();
      const read = isRead ? reader.read() : undefined;
      const failed = expect(read ?? Promise.reject(interrupted)).rejects.toBe(interrupted);
      stop.abort(interrupted);
      await failed;
      await expect(reader.read()).rejects.toBe(interrupted);
      await input.close();
    }
  });

  test.each([
    { argv: ['encrypt', 'fifo', '--output', 'out'] },
    { argv: ['encrypt', '-', '--output', 'out'] },
    { argv: ['encrypt', 'in', '--output', 'out', '--password-file', 'fifo'] },
    { argv: ['ecc-encrypt', 'in', 'fifo', '--output', 'out'] },
    { argv: ['decrypt', './fifo', 'out'] },
    { argv: ['ecc-decrypt', './in', 'out', 'fifo'] },
    { argv: ['contact', 'add', 'ann', 'fifo'] },
    { argv: ['key', 'restore', '--words-file', 'fifo'] },
  ])('by $argv', async ({ argv }) => {
    const directory = await temporaryDirectory();
    execFileSync('mkfifo', [join(directory, 'fifo')]);
    await writeFile(join(directory, 'in'), 'text');
    const stop = new AbortController();
    const overrides = { stdin: new Readable({ read: () => undefined }), signal: stop.signal, env: passwordInEnv };
    const ran = run([...argv, '--data-dir', join(directory, 'home')], directory, overrides);
    stop.abort(interrupted);
    expect(await ran).toMatchObject({ exit: 130, stdout: '' });
    expect(await readdir(directory)).not.toContain('out');
  });

  test('by a process that gets one signal', async () => {
    const directory = await temporaryDirectory();
    execFileSync('mkfifo', [join(directory, 'fifo')]);
    const argv = [entry, 'encrypt', 'fifo', '--output', 'out'];
    const env = { ...bareEnv(), ...passwordInEnv, HOME: directory };
    const child = spawn(process.execPath, argv, { cwd: directory, env, stdio: ['ignore', 'ignore', 'pipe'] });
    const closed = once(child, 'close');
    // Weak passwords are warned of once the FIFO is open.
    await once(child.stderr, 'data');
    child.kill('SIGTERM');
    expect(await closed).toEqual([143, null]);
  });
});

describe('S55: standard input', () => {
  test('comes whole, its size unknown', async () => {
    const input = await openInput(
      '-',
      environmentIn('/', { stdin: Readable.from([Buffer.from('a'), Buffer.from('bc')]) }),
    );
    expect(input.bytes).toBeUndefined();
    expect((await all(input.stream)).toString()).toBe('abc');
  });

  test('is refused when it is a terminal', async () => {
    const stdin = Object.assign(Readable.from([]), { isTTY: true });
    await expect(openInput('-', environmentIn('/', { stdin }))).rejects.toMatchObject({
      code: 'usage',
      message: 'standard input is a terminal',
    });
  });
});

test('a small file is refused when it is not small', async () => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'big'), Buffer.alloc(101));
  await expect(
    readSmall('big', { limitBytes: 100, what: 'a password', environment: environmentIn(directory) }),
  ).rejects.toMatchObject({ code: 'file_unreadable', message: 'big is too large to be a password' });
  await expect(
    readSmall('big', { limitBytes: 101, what: 'a password', environment: environmentIn(directory) }),
  ).resolves.toHaveLength(101);
});

test('a current directory that was deleted is reported, without a stack trace', async () => {
  const directory = await temporaryDirectory();
  const ran = spawnSync('sh', ['-c', 'mkdir gone && cd gone && rmdir ../gone && exec "$NODE" "$ENTRY" cid in'], {
    cwd: directory,
    env: { ...bareEnv(), HOME: directory, NODE: process.execPath, ENTRY: entry },
    encoding: 'utf8',
  });
  expect(ran).toMatchObject({
    status: 1,
    stdout: '',
    stderr: 'sealpin: error: the current directory no longer exists\nsealpin: hint: change to another one: cd\n',
  });
});

test.runIf(process.platform === 'linux')('is closed by a command that refuses it once it is open', async () => {
  const directory = await temporaryDirectory();
  for (const name of ['fine', 'a\\b']) await writeFile(join(directory, name), 'x');
  const service = await hostile({ 'GET /v1/health': health(), 'GET /v1/account': account(['write', 'share']) });
  for (const argv of [
    ['send', 'fine', 'a\\b'],
    ['send', 'fine', '--include', '*.txt'],
    ['encrypt', 'fine', '--include', '*.txt'],
    ['encrypt', 'fine', '--include', '*.txt', '--output', 'out'],
  ]) {
    const env = { SEALPIN_API_KEY: someApiKey, SEALPIN_SERVICE: service.url };
    expect(await run([...argv, '--data-dir', 'home'], directory, { env })).toMatchObject({ exit: 2, stdout: '' });
    const opened = (await readdir('/proc/self/fd')).map((each) => readlink(`/proc/self/fd/${each}`).catch(() => ''));
    expect((await Promise.all(opened)).filter((path) => path.startsWith(`${directory}/`))).toEqual([]);
  }
});
