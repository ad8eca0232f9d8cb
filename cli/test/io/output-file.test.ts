import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, link, lstat, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { basename, join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { openSink } from '../../io/output-file.ts';
import { removeLeftovers, temporaryPath } from '../../io/unfinished.ts';
import { inNamespaces } from '../../../testkit/namespaces.ts';
import { openInput } from '../../io/input.ts';
import { Collector, temporaryDirectory, environmentIn } from '../environment.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const isRoot = process.getuid?.() === 0;

async function sinkIn(directory: string, path: string, force = false) {
  return openSink(path, { force, environment: environmentIn(directory) });
}

async function write(directory: string, path: string, text: string, force = false): Promise<void> {
  const sink = await sinkIn(directory, path, force);
  await sink.write(bytes(text));
  await sink.commit();
}

test('S51: a file appears whole, 0600, under its name and no other', async () => {
  const directory = await temporaryDirectory();
  const sink = await sinkIn(directory, 'out');
  await sink.write(bytes('hel'));
  expect((await readdir(directory)).filter((name) => !name.startsWith('.sealpin-'))).toEqual([]);
  await sink.write(bytes('lo'));
  expect(await sink.commit()).toBe(join(directory, 'out'));
  expect(await readdir(directory)).toEqual(['out']);
  expect(await readFile(join(directory, 'out'), 'utf8')).toBe('hello');
  expect((await stat(join(directory, 'out'))).mode & 0o777).toBe(0o600);
});

test('memory that is given away is free once it is written, however large the chunk', async () => {
  const directory = await temporaryDirectory();
  const chunks = [3, 1024 * 1024, 1024 * 1024 + 1, 7].map((length, index) => new Uint8Array(length).fill(index + 1));
  const expected = Buffer.concat(chunks);
  const sink = await sinkIn(directory, 'out');
  for (const chunk of chunks) await sink.write(chunk, () => chunk.fill(0));
  await sink.commit();
  expect((await readFile(join(directory, 'out'))).equals(expected)).toBe(true);
  expect(chunks.every((chunk) => chunk.every((byte) => byte === 0))).toBe(true);
});

test('S11: an empty file is made, too', async () => {
  const directory = await temporaryDirectory();
  await (await sinkIn(directory, 'out')).commit();
  expect(await readFile(join(directory, 'out'))).toHaveLength(0);
});

test('S48: an abort leaves nothing', async () => {
  const directory = await temporaryDirectory();
  const sink = await sinkIn(directory, 'out');
  await sink.write(bytes('half'));
  await sink.abort();
  expect(await readdir(directory)).toEqual([]);
});

describe('S45: an existing file', () => {
  test('is refused without --force', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'out'), 'old');
    await expect(sinkIn(directory, 'out')).rejects.toMatchObject({
      code: 'file_exists',
    });
  });

  test('is replaced at once with --force, and stays when it fails', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'out'), 'old');
    const failing = await sinkIn(directory, 'out', true);
    await failing.write(bytes('new'));
    await failing.abort();
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('old');
    await write(directory, 'out', 'new', true);
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('new');
    expect(await readdir(directory)).toEqual(['out']);
  });

  test('that somebody made meanwhile is not replaced', async () => {
    const directory = await temporaryDirectory();
    const sink = await sinkIn(directory, 'out');
    await sink.write(bytes('mine'));
    await writeFile(join(directory, 'out'), 'theirs');
    await expect(sink.commit()).rejects.toMatchObject({ code: 'file_exists' });
    await sink.abort();
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('theirs');
    expect(await readdir(directory)).toEqual(['out']);
  });
});

describe('S44: a symbolic link as output', () => {
  test.each(['file', 'nothing', 'itself'])(
    'to %s is an existing file, and --force replaces the link alone',
    async (target) => {
      const directory = await temporaryDirectory();
      await writeFile(join(directory, 'file'), 'untouched');
      await symlink(target === 'itself' ? 'out' : target, join(directory, 'out'));
      await expect(sinkIn(directory, 'out')).rejects.toMatchObject({ code: 'file_exists' });
      await write(directory, 'out', 'new', true);
      expect((await lstat(join(directory, 'out'))).isFile()).toBe(true);
      expect(await readFile(join(directory, 'file'), 'utf8')).toBe('untouched');
      expect((await readdir(directory)).toSorted()).toEqual(['file', 'out']);
    },
  );

  test.each(['/dev/null', 'pipe'])('to %s is no file, and stays', async (target) => {
    const directory = await temporaryDirectory();
    execFileSync('mkfifo', [join(directory, 'pipe')]);
    await symlink(target, join(directory, 'out'));
    await expect(sinkIn(directory, 'out', true)).rejects.toMatchObject({ code: 'file_unwritable' });
    expect(await readlink(join(directory, 'out'))).toBe(target);
  });

  test.each(['/dev/stdout', '/dev/stderr'])('that the system has as %s is no file', async (path) => {
    for (const force of [false, true])
      await expect(sinkIn(await temporaryDirectory(), path, force)).rejects.toMatchObject({
        code: 'file_unwritable',
        hint: 'name - for the standard output',
      });
  });

  test('planted under the temporary name is not followed', async () => {
    // The name has 64 random bits and O_EXCL; a link that is there already cannot be hit even when
    // the name is known.
    const directory = await temporaryDirectory();
    await symlink('/dev/null', join(directory, '.sealpin-link'));
    await write(directory, 'out', 'x');
    expect(await readlink(join(directory, '.sealpin-link'))).toBe('/dev/null');
  });
});

describe('S46: input = output', () => {
  test.each([
    { title: 'the same path', path: 'in' },
    { title: './', path: './in' },
    { title: 'foo/../', path: 'foo/../in' },
    { title: 'a hard link', path: 'hard' },
    { title: 'a symbolic link', path: 'soft' },
  ])('$title is refused, also with --force', async ({ path }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'precious');
    await mkdir(join(directory, 'foo'));
    await link(join(directory, 'in'), join(directory, 'hard'));
    await symlink('in', join(directory, 'soft'));
    const environment = environmentIn(directory);
    const input = await openInput('in', environment);
    await expect(openSink(path, { force: true, environment, input: input.identity })).rejects.toMatchObject({
      code: 'usage',
      message: `${path} is the input too`,
    });
    await input.close();
    expect(await readFile(join(directory, 'in'), 'utf8')).toBe('precious');
  });
});

describe('S47: an output that cannot be', () => {
  test.each([
    {
      title: 'in a missing directory',
      path: 'no/out',
      says: 'no/out cannot be written: its directory does not exist',
    },
    { title: 'below a file', path: 'file/out', says: 'file is not a directory' },
    { title: 'that is a directory', path: 'dir', says: 'dir is a directory' },
    { title: 'that is named like a directory', path: 'dir/', says: 'dir/ is a directory' },
    { title: 'that is named like a directory, and missing', path: 'new/', says: 'there is no directory new/' },
    { title: 'that is named like a directory, and a file', path: 'file/', says: 'file/ is not a directory' },
    {
      title: 'that is named like a directory below a file',
      path: 'file/x/',
      says: 'file/x/ cannot be written: a part of its path is a file',
    },
    {
      title: 'with a name that is too long',
      path: 'x'.repeat(300),
      says: `${'x'.repeat(300)} cannot be written: its name is too long`,
    },
  ])('$title is refused before any work', async ({ path, says }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'file'), '');
    await mkdir(join(directory, 'dir'));
    await expect(sinkIn(directory, path)).rejects.toMatchObject({ code: 'file_unwritable', message: says });
  });

  test.runIf(process.platform === 'linux')(
    'where the system makes no files is not told as a missing directory',
    async () => {
      const sink = await openSink('/proc/x', { force: false, environment: environmentIn('/') });
      await expect(sink.write(bytes('x'))).rejects.toMatchObject({
        code: 'file_unwritable',
        message: `/proc/x cannot be written: ${isRoot ? 'nothing can be made in its directory' : 'permission denied'}`,
      });
      await sink.abort();
    },
  );

  test('that is a device or a socket is refused, also with --force', async () => {
    const directory = await temporaryDirectory();
    const server = createServer().listen(join(directory, 'socket'));
    await once(server, 'listening');
    await expect(sinkIn(directory, 'socket', true)).rejects.toMatchObject({
      code: 'file_unwritable',
      hint: 'name - for the standard output',
    });
    await expect(sinkIn(directory, '/dev/null', true)).rejects.toMatchObject({ code: 'file_unwritable' });
    server.close();
  });

  test.skipIf(isRoot)('in a directory without write permission is refused', async () => {
    const directory = await temporaryDirectory();
    await chmod(directory, 0o500);
    await expect(sinkIn(directory, 'out')).rejects.toMatchObject({
      code: 'file_unwritable',
      message: 'out cannot be written: permission denied',
    });
    await chmod(directory, 0o700);
  });
});

test('S50: removes what a killed sealpin left, not what a running one or another machine writes', async () => {
  const directory = await temporaryDirectory();
  const child = spawn(process.execPath, ['-e', ''], { stdio: 'ignore' });
  await once(child, 'exit');
  const [, machine] = basename(temporaryPath(directory)).split('-');
  const random = '0123456789abcdef';
  const dead = `.sealpin-${machine}-${child.pid}-${random}.tmp`;
  const running = `.sealpin-${machine}-${process.pid}-${random}.tmp`;
  const elsewhere = `.sealpin-00000000-${child.pid}-${random}.tmp`;
  const alien = `.sealpin-${machine}-${child.pid}.tmp`;
  for (const name of [dead, running, elsewhere, alien]) await writeFile(join(directory, name), 'x');
  await write(directory, 'out', 'y');
  expect((await readdir(directory)).toSorted()).toEqual([elsewhere, alien, running, 'out'].toSorted());
});

test('S50: leaves what a process writes whose ID means nothing here', async (context) => {
  const directory = await temporaryDirectory();
  const running = temporaryPath(directory);
  await writeFile(running, 'x');
  const module = JSON.stringify(join(import.meta.dirname, '../../io/unfinished.ts'));
  // As another container does, with the same hostname and disk.
  const ran = await inNamespaces(context, ['--pid', '--fork', '--mount-proc'], {
    what: 'process IDs of their own',
    script: '"$NODE" --disable-warning=ExperimentalWarning --input-type=module -e "$PROGRAM"',
    env: { PROGRAM: `await (await import(${module})).removeLeftovers(${JSON.stringify(directory)})` },
  });
  expect(ran).toMatchObject({ status: 0, stderr: '' });
  expect(await readdir(directory)).toEqual([basename(running)]);
});

test('S50: a directory that a killed extraction left is removed, with all in it', async () => {
  const directory = await temporaryDirectory();
  const child = spawn(process.execPath, ['-e', ''], { stdio: 'ignore' });
  await once(child, 'exit');
  const [, machine] = basename(temporaryPath(directory)).split('-');
  const name = `.sealpin-${machine}-${child.pid}-0123456789abcdef.tmp`;
  await mkdir(join(directory, name), { mode: 0o700 });
  await mkdir(join(directory, name, 'closed'));
  await writeFile(join(directory, name, 'closed', 'x'), 'x', { mode: 0o400 });
  await write(directory, 'out', 'y');
  expect(await readdir(directory)).toEqual(['out']);
});

test('what another user may have put under a temporary name stays', async () => {
  const directory = await temporaryDirectory();
  const child = spawn(process.execPath, ['-e', ''], { stdio: 'ignore' });
  await once(child, 'exit');
  const [, machine] = basename(temporaryPath(directory)).split('-');
  const [file, own, open] = ['0', '1', '2'].map((digit) => `.sealpin-${machine}-${child.pid}-${digit.repeat(16)}.tmp`);
  await writeFile(join(directory, `${file}`), 'x');
  await mkdir(join(directory, `${own}`, 'in'), { recursive: true });
  await chmod(join(directory, `${own}`), 0o700);
  await mkdir(join(directory, `${open}`, 'in'), { recursive: true });
  await chmod(join(directory, `${open}`), 0o777);
  const user = vi.spyOn(process, 'geteuid').mockReturnValue((process.geteuid?.() ?? 0) + 1);
  await removeLeftovers(directory);
  user.mockRestore();
  expect(await readdir(directory)).toEqual([file, own, open]);
  await removeLeftovers(directory);
  expect(await readdir(directory)).toEqual([open]);
});

describe('S55: standard output', () => {
  const sinkTo = (isTTY: boolean, force = false): { stdout: Collector; sink: ReturnType<typeof openSink> } => {
    const stdout = new Collector();
    stdout.isTTY = isTTY;
    return { stdout, sink: openSink('-', { force, environment: { stdout, cwd: '/' } }) };
  };

  test('takes anything when it is no terminal', async () => {
    const { stdout, sink } = sinkTo(false);
    await (await sink).write(Uint8Array.of(0, 255, 27));
    await (await sink).commit();
    expect(stdout.bytes).toEqual(Buffer.from([0, 255, 27]));
  });

  test('a terminal takes text, also when a character is cut in two', async () => {
    const { stdout, sink } = sinkTo(true);
    const text = bytes('zwölf\tBoxkämpfer\n');
    for (const byte of text) await (await sink).write(Uint8Array.of(byte));
    await (await sink).commit();
    expect(stdout.text).toBe('zwölf\tBoxkämpfer\n');
  });

  test.each([
    { title: 'an escape sequence', data: bytes('\u001B[2J') },
    { title: 'a zero byte', data: Uint8Array.of(0) },
    { title: 'invalid UTF-8', data: Uint8Array.of(0xff) },
  ])('a terminal is not sent $title, unless forced', async ({ data }) => {
    const { stdout, sink } = sinkTo(true);
    await expect((await sink).write(data)).rejects.toMatchObject({
      code: 'usage',
      message: 'it is not text and would go to your terminal',
    });
    expect(stdout.bytes).toHaveLength(0);
    const forced = sinkTo(true, true);
    await (await forced.sink).write(data);
    expect(forced.stdout.bytes).toEqual(Buffer.from(data));
  });

  test('a terminal is not left with half a character at the end', async () => {
    const { sink } = sinkTo(true);
    await (await sink).write(Uint8Array.of(0xc3));
    await expect((await sink).commit()).rejects.toMatchObject({ code: 'usage' });
  });
});
