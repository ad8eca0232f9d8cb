/** Folders: what is encrypted of one, and that the same comes back. */
import { spawnSync } from 'node:child_process';
import {
  chmod,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createTarDecoder } from 'modern-tar';
import { describe, expect, onTestFinished, test } from 'vitest';
import { run as program, withProgram } from '../../../testkit/programs/programs.ts';
import { entriesOf } from '../../folder/entries.ts';
import { openFolder } from '../../folder/pack.ts';
import { tarHeader } from '../../folder/tar-header.ts';
import { env, pair } from '../containers.ts';
import { sharedLocalService } from '../local.ts';
import { Collector, contextIn, run, temporaryDirectory } from '../environment.ts';
import { account, health, hostile, someApiKey } from '../hostile.ts';
import { changeKeepingTimes } from '../keeping-times.ts';

const all = { include: [], exclude: [] };

const long = 'é'.repeat(120);

/** A directory with the folder `in`, which has one of everything. */
async function withFolder(): Promise<string> {
  const directory = await temporaryDirectory();
  const at = (...names: string[]): string => join(directory, 'in', ...names);
  await mkdir(at('a', long, 'n'.repeat(200)), { recursive: true });
  await mkdir(at('empty'));
  await writeFile(at('a', 'x'), 'text');
  await writeFile(at('a', long, 'n'.repeat(200), 'y'), Buffer.alloc(3_000_001, 7));
  await writeFile(at('zero'), '');
  await writeFile(at('line\nfeed\\'), 'odd');
  await chmod(at('a', 'x'), 0o4755);
  await chmod(at('zero'), 0o400);
  await symlink('a/x', at('link'));
  for (const name of ['a/x', 'a', 'empty', '.']) await utimes(at(name), 1_000_000_000, 1_000_000_000);
  return directory;
}

/** All of a folder, by path. */
async function contents(folder: string): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for await (const { path, type, stats } of entriesOf(folder, folder)) {
    const at = join(folder, path);
    const mtime = type === 'symlink' ? 0n : stats.mtimeMs / 1000n;
    const content =
      type === 'file' ? (await readFile(at)).toString('base64') : type === 'symlink' ? await readlink(at) : '';
    // The folder itself is private when it comes back.
    found[path] = { type, mtime, content, mode: path === '' ? 0 : Number(stats.mode) & 0o777 };
  }
  return found;
}

async function archiveOf(directory: string, folder = 'in'): Promise<Buffer> {
  const input = await openFolder(folder, contextIn(directory), all);
  try {
    return Buffer.from(await new Response(input.stream).arrayBuffer());
  } finally {
    await input.close();
  }
}

describe('a folder', () => {
  test.each(['encrypt', 'chacha-encrypt'])('comes back as it was, with %s --output', async (command) => {
    const directory = await withFolder();
    expect(await run([command, 'in/', '--output', 'c'], directory, { env })).toMatchObject({ exit: 0, stdout: '' });
    const ran = await run(['decrypt', './c', '--extract', 'out'], directory, { env });
    expect(ran).toMatchObject({ exit: 0, stderr: 'sealpin: wrote out (5 files, 2.9 MiB)\n' });
    expect(await contents(join(directory, 'out'))).toEqual(await contents(join(directory, 'in')));
    expect((await stat(join(directory, 'out/a/x'))).mode & 0o7777).toBe(0o755);
    expect((await readdir(directory)).toSorted()).toEqual(['c', 'in', 'out']);
  });

  test('is the same archive every time, and one that tar reads', async () => {
    const directory = await withFolder();
    const archive = await archiveOf(directory);
    expect(archive.equals(await archiveOf(directory))).toBe(true);
    await mkdir(join(directory, 'out'));
    const tar = spawnSync('tar', ['-xp', '-C', join(directory, 'out')], { input: archive, encoding: 'utf8' });
    expect(tar).toMatchObject({ status: 0, stderr: '' });
    expect(await contents(join(directory, 'out'))).toEqual(await contents(join(directory, 'in')));
  });

  test.each([2 ** 34 + 1, -1, -(2 ** 31)])('has sizes and times that no field has room for: %i', async (seconds) => {
    const entry = {
      type: 'file',
      path: 'x',
      target: '',
      mode: 0o600,
      bytes: 2 ** 40 + 1,
      seconds,
    } as const;
    const stream = new Blob([Uint8Array.from(tarHeader(entry))]).stream();
    const { value } = await stream.pipeThrough(createTarDecoder()).getReader().read();
    expect(value?.header).toMatchObject({ name: 'x', size: entry.bytes, mtime: new Date(entry.seconds * 1000) });
  });

  test('that tar packed is extracted', async () => {
    for (const format of ['gnu', 'pax', 'ustar']) {
      const directory = await withFolder();
      // ustar has no room for the long name.
      const exclude = format === 'ustar' ? [`--exclude=${long}`] : [];
      await link(join(directory, 'in/link'), join(directory, 'in/same-link'));
      const archive = program('tar', ['-c', `--format=${format}`, ...exclude, '-C', join(directory, 'in'), '.']);
      await writeFile(join(directory, 'in.tar'), archive);
      await run(['encrypt', 'in.tar', '--output', 'c'], directory, { env });
      expect(await run(['decrypt', './c', 'out', '--extract'], directory, { env })).toMatchObject({ exit: 0 });
      const wanted = Object.entries(await contents(join(directory, 'in')));
      expect(await contents(join(directory, 'out'))).toEqual(
        Object.fromEntries(wanted.filter(([path]) => format !== 'ustar' || !path.includes(long))),
      );
    }
  });

  test('without --extract comes out as the archive, with a word about it', async () => {
    const directory = await withFolder();
    await run(['encrypt', 'in', '--output', 'c'], directory, { env });
    const ran = await run(['decrypt', './c', 'out'], directory, { env });
    expect(ran.stderr).toContain('a tar archive: decrypt --extract makes the folder of it');
    expect((await readFile(join(directory, 'out'))).equals(await archiveOf(directory))).toBe(true);
  });

  test.each([
    { what: 'a socket', argv: [] },
    { what: 'a named pipe', argv: ['mkfifo'] },
    { what: 'not UTF-8', argv: ['sh', '-c', 'touch "$0$(printf "\\\\377")"'] },
    { what: 'target of the link', argv: ['sh', '-c', 'ln -s "$(printf "\\\\377")" "$0"'] },
  ])('with $what in it is refused before anything is sent', async ({ what, argv: [command, ...argv] }) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'in'));
    const path = join(directory, 'in', 'odd');
    if (command === undefined) {
      const server = createServer().listen(path);
      onTestFinished(() => void server.close());
      await new Promise((resolve) => server.once('listening', resolve));
    } else expect(spawnSync(command, [...argv, path]).status).toBe(0);
    await writeFile(join(directory, 'letter'), 'Dear Ann');
    const service = await hostile({
      'GET /v1/health': health(),
      'GET /v1/account': account(['read', 'write', 'share']),
    });
    for (const argv of [
      ['encrypt', 'in'],
      ['send', 'letter', 'in'],
    ]) {
      const ran = await run([...argv, '--service', service.url], directory, {
        env: { ...env, SEALPIN_API_KEY: someApiKey },
      });
      expect(ran).toMatchObject({ exit: 1, stdout: '' });
      expect(ran.stderr).toContain(what);
      expect(ran.stderr).toContain('in/odd');
    }
    expect(service.seen.filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  test('is listed once the password is known, with a count, and named with the number of its files', async () => {
    const directory = await withFolder();
    const stderr = Object.assign(new Collector(), { isTTY: true });
    let clock = 0;
    const now = () => (clock += 200);
    const asked = await run(['encrypt', 'in', '--output', 'c'], directory, { stderr, now });
    expect(asked).toMatchObject({ exit: 2, stderr: expect.not.stringContaining('looking through') as string });
    await run(['encrypt', '.', '--output', '../c'], join(directory, 'in'), { env, stderr, now });
    expect(stderr.text).toMatch(/looking through \. {2}2 files/);
    expect(stderr.text).toContain(`sealpin: packing the folder in: 5 files\n`);
    expect(await readdir(directory)).toContain('c');
  });

  test('with links that lead out comes back with them, and both commands warn', async () => {
    const directory = await withFolder();
    const links = { etc: '/etc/passwd', 'a/up': '../..', nowhere: '/no/such/file', 'a/long': `/${'é/'.repeat(300)}` };
    for (const [path, target] of Object.entries(links)) await symlink(target, join(directory, 'in', path));
    await utimes(join(directory, 'in/a'), 1_000_000_000, 1_000_000_000);
    const ran = await run(['encrypt', 'in', '--output', 'c'], directory, { env });
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toContain('links may lead out of in: in/a/long -> /é/');
    expect(ran.stderr).toContain('(and 3 more); the links are kept, without what they lead to');
    const back = await run(['decrypt', './c', '--extract', 'out'], directory, { env });
    expect(back.exit).toBe(0);
    expect(back.stderr).toContain('warning: symbolic links may lead out of out: a/long -> /é/');
    expect(await contents(join(directory, 'out'))).toEqual(await contents(join(directory, 'in')));
  });

  test('of odd names and links comes back as it was', async () => {
    const directory = await temporaryDirectory();
    // Each at the start, at the end and alone, and long enough for each way in which an archive
    // writes names.
    const odd = [
      ' ',
      '\n',
      '\t',
      '\uFEFF',
      '\u202E',
      '\u001B[2J',
      '\\',
      '-rf',
      '~',
      '=',
      '%2e',
      '1 a=b',
      '😀',
      'e\u0301',
      '.x',
    ];
    const names = odd.flatMap((text) => [text, `${text}a`, `a${text}`, `${text}${'é'.repeat(60)}`]);
    const folders = ['', ...odd.slice(0, 4).map((text) => `${text}${'b'.repeat(95)}${text}/`), `${'c'.repeat(100)}/`];
    for (const folder of folders) {
      await mkdir(join(directory, 'in', folder), { recursive: true });
      for (const name of names) {
        await writeFile(join(directory, 'in', folder, name), name);
        await symlink(name, join(directory, 'in', folder, `l${name}`));
      }
    }
    expect(await run(['encrypt', 'in', '--output', 'c'], directory, { env })).toMatchObject({ exit: 0 });
    expect(await run(['decrypt', './c', '--extract', 'out'], directory, { env })).toMatchObject({ exit: 0 });
    expect(await contents(join(directory, 'out'))).toEqual(await contents(join(directory, 'in')));
  });

  test('is read through a symbolic link to it', async () => {
    const directory = await withFolder();
    await symlink('in', join(directory, 'alias'));
    expect((await archiveOf(directory, 'alias')).equals(await archiveOf(directory))).toBe(true);
  });

  test.each([
    {
      how: 'a file grows',
      change: async (folder: string) => {
        const file = await open(join(folder, 'a'), 'r+');
        await file.write('more', 20 * 2 ** 20);
        await file.close();
      },
    },
    {
      how: 'a file changes, and keeps its times',
      change: async (folder: string) => {
        const path = join(folder, 'a');
        await changeKeepingTimes(path, () => writeFile(path, Buffer.alloc(20 * 2 ** 20, 1), { flag: 'r+' }));
      },
    },
    { how: 'a file is added', change: async (folder: string) => writeFile(join(folder, 'new'), '') },
    {
      how: 'a file is added, and its folder keeps its times',
      change: async (folder: string) => changeKeepingTimes(folder, () => writeFile(join(folder, 'new'), '')),
    },
    {
      how: 'a file becomes a link',
      change: async (folder: string) => {
        expect(spawnSync('ln', ['-sfn', '/etc/passwd', join(folder, 'zz')]).status).toBe(0);
      },
    },
  ])('that changes while it is read is file_changed: $how', async ({ change }) => {
    const directory = await temporaryDirectory();
    const folder = join(directory, 'in');
    await mkdir(folder);
    // More than waits in the archive, so that the rest is not read yet.
    await writeFile(join(folder, 'a'), Buffer.alloc(20 * 2 ** 20));
    await writeFile(join(folder, 'z'), Buffer.alloc(20 * 2 ** 20));
    await writeFile(join(folder, 'zz'), 'x');
    const input = await openFolder('in', contextIn(directory), all);
    const reader = input.stream.getReader();
    // Until the first file is being read.
    for (let bytes = 0; bytes < 2 ** 20;) bytes += (await reader.read()).value?.length ?? Number.NaN;
    await change(folder);
    const rest = async (): Promise<void> => {
      while (!(await reader.read()).done);
    };
    await expect(rest()).rejects.toMatchObject({ code: 'file_changed' });
    await input.close();
  });

  test.for([
    { folder: '/proc/sys/kernel/random', file: 'uuid', how: 'longer' },
    { folder: '/sys/class/net/lo/statistics', file: 'rx_bytes', how: 'shorter' },
  ])('with files that are $how than the system says is refused, as is one alone: $folder', async (o, { skip }) => {
    const { folder, file } = o;
    skip(!existsSync(folder), `there is no ${folder}`);
    const directory = await temporaryDirectory();
    for (const [path, hint] of [
      [folder, 'leave it out with --exclude'],
      [join(folder, file), 'pipe it into sealpin'],
    ] as const) {
      const ran = await run(['encrypt', path, '--output', 'c'], directory, { env });
      expect(ran.stderr).toContain(`is not as long as the system says\nsealpin: hint: ${hint}`);
      expect(ran.exit).toBe(1);
    }
    expect(await readdir(directory)).toEqual([]);
  });

  test('with a path that is too long for the system is refused with a short message, and goes without it', async () => {
    const directory = await temporaryDirectory();
    const above = join(directory, 'o'.repeat(240), 'p'.repeat(240));
    const names = Array.from({ length: 15 }, (_, index) => String(index).padEnd(240, 'n'));
    await mkdir(join(directory, 'in', ...names), { recursive: true });
    await writeFile(join(directory, 'in/x'), 'x');
    await mkdir(above, { recursive: true });
    await rename(join(directory, 'in'), join(above, 'in'));
    onTestFinished(() => rename(join(above, 'in'), join(directory, 'in')));
    const refused = await run(['encrypt', 'in', '--output', 'c'], above, { env });
    expect(refused.stderr).toMatch(/error: the path in\/0n{100,}… is too long\n.*hint: leave out .*--exclude/);
    expect(await readdir(above)).toEqual(['in']);
    expect(await run(['encrypt', 'in', '--output', 'c', '--exclude=13*'], above, { env })).toMatchObject({ exit: 0 });
  });

  test('leaves nothing when it changes while a file is made of it', async () => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'in'));
    await writeFile(join(directory, 'in', 'x'), 'x');
    // A directory below /proc that is new each time it is looked at.
    const ran = await run(['encrypt', '/proc/self/fd', '--output', 'c'], directory, { env });
    expect(ran.exit).toBe(1);
    expect(await readdir(directory)).toEqual(['in']);
  });
});

const local = sharedLocalService();

test('a folder is stored by a service, listed by its name, and comes back', async () => {
  const directory = await withFolder();
  const home = ['--data-dir', local.dataDir];
  const stored = await run(['encrypt', './in/', ...home], directory, { env });
  expect(stored).toMatchObject({ exit: 0 });
  const blob = stored.stdout.trim();
  expect(await run(['decrypt', blob, '--extract', 'out', ...home], directory, { env })).toMatchObject({ exit: 0 });
  expect(await contents(join(directory, 'out'))).toEqual(await contents(join(directory, 'in')));
  const piped = await run(['encrypt', '-', '--name', 'mail.sql', ...home], directory, { env, stdin: 'select 1' });
  expect(piped.exit).toBe(0);
  const listed = (await run(['list', ...home], directory, { env })).stdout.split('\n');
  expect(listed.find((line) => line.includes(blob))).toMatch(/ in$/);
  expect(listed.find((line) => line.includes(piped.stdout.trim()))).toMatch(/ mail\.sql$/);
});

test('a folder that is shared is received as a folder, and a file under its name', async () => {
  const { dataDir } = local;
  const directory = await withFolder();
  await writeFile(join(directory, 'letter'), '');
  for (const { name, flags, as } of [
    { name: 'in', flags: [], as: 'in' },
    { name: 'in', flags: ['--name', 'photos'], as: 'photos' },
    { name: 'in', flags: ['--name', 'photos.TAR'], as: 'photos' },
    { name: 'letter', flags: [], as: 'letter' },
  ]) {
    const blob = (await run(['encrypt', name, '--quiet', '--data-dir', dataDir], directory, { env })).stdout.trim();
    const shared = await run(['share', blob, ...flags, '--quiet', '--data-dir', dataDir], directory, { env });
    expect(shared.exit, shared.stderr).toBe(0);
    const into = await temporaryDirectory();
    await run(['receive', shared.stdout.trim(), '--extract', '--data-dir', dataDir], into);
    expect(await readdir(into)).toEqual([as]);
    if (name === 'in') expect(await contents(join(into, as))).toEqual(await contents(join(directory, 'in')));
  }
});

withProgram('age-current', { probe: ['--version'], isOptional: true }, () => {
  test('age opens what ecc-encrypt --output writes, and decrypt what age writes', async () => {
    const directory = await temporaryDirectory();
    program('age-current-keygen', ['-o', join(directory, 'age.key')]);
    const recipient = new TextDecoder()
      .decode(program('age-current-keygen', ['-y', join(directory, 'age.key')]))
      .trim();
    await writeFile(join(directory, 'letter'), 'Dear Ann');
    await writeFile(join(directory, 'private.key'), pair.privatePem, { mode: 0o600 });
    expect(await run(['ecc-encrypt', 'letter', recipient, '--output', 'c.age'], directory)).toMatchObject({ exit: 0 });
    const plain = program('age-current', ['-d', '-i', join(directory, 'age.key'), join(directory, 'c.age')]);
    expect(new TextDecoder().decode(plain)).toBe('Dear Ann');
    program('age-current', ['-r', pair.recipient, '-o', join(directory, 'back.age'), join(directory, 'letter')]);
    const ran = await run(['decrypt', './back.age', '-', '--data-dir', directory], directory);
    expect(ran).toMatchObject({ exit: 0, stdout: 'Dear Ann' });
  });
});
