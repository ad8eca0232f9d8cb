import { execFileSync } from 'node:child_process';
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseConfig, readConfig } from '../../remote/config.ts';
import { recall } from '../../files/history.ts';
import { dataDirectory, makeDataDirectory, makeDirectories } from '../../io/paths.ts';
import { run, temporaryDirectory } from '../environment.ts';

describe('the data directory is', () => {
  const base = { cwd: '/desk', home: '/home/ann', platform: 'linux' as const, env: {} };
  test.each([
    {
      title: 'the flag first of all',
      o: { ...base, flag: 'here', env: { SEALPIN_HOME: '/there' } },
      want: '/desk/here',
    },
    {
      title: 'SEALPIN_HOME then',
      o: { ...base, env: { SEALPIN_HOME: '/there', XDG_DATA_HOME: '/xdg' } },
      want: '/there',
    },
    { title: 'XDG_DATA_HOME/sealpin', o: { ...base, env: { XDG_DATA_HOME: '/xdg' } }, want: '/xdg/sealpin' },
    {
      title: '~/.local/share/sealpin when XDG_DATA_HOME is relative',
      o: { ...base, env: { XDG_DATA_HOME: 'xdg' } },
      want: '/home/ann/.local/share/sealpin',
    },
    { title: '~/.local/share/sealpin else', o: base, want: '/home/ann/.local/share/sealpin' },
    {
      title: "macOS's place",
      o: { ...base, platform: 'darwin' as const },
      want: '/home/ann/Library/Application Support/sealpin',
    },
  ])('$title', ({ o, want }) => expect(dataDirectory(o)).toBe(want));

  test.each(['SEALPIN_HOME', 'XDG_DATA_HOME', 'LOCALAPPDATA'])('the usual one where %s is empty', (name) => {
    for (const platform of ['linux', 'darwin', 'win32'] as const)
      expect(dataDirectory({ ...base, platform, env: { [name]: '' } })).toBe(dataDirectory({ ...base, platform }));
  });

  test.each(['linux', 'darwin', 'win32'] as const)(
    'never in the current directory: without a home directory, %s needs a name',
    (platform) => {
      expect(() => dataDirectory({ ...base, platform, home: '' })).toThrow('the system names no home directory');
      expect(dataDirectory({ ...base, platform, home: '', flag: 'here' })).toBe(join(base.cwd, 'here'));
    },
  );

  test('not a file', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'file'), '');
    for (const argv of [['list'], ['keygen'], ['status']]) {
      const ran = await run([...argv, '--data-dir', 'file'], directory);
      expect(ran).toMatchObject({ exit: 2, stdout: '' });
      expect(ran.stderr).toContain(`the data directory ${directory}/file is not a directory`);
    }
  });

  test('not one in which local/ is somebody else’s, for a service', async () => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'local/ipfs'), { recursive: true });
    await writeFile(join(directory, 'local/ipfs/letter.txt'), 'Dear Ann');
    for (const flags of [[], ['--detach']])
      expect(await run(['start', '--port=0', '--data-dir', '.', ...flags], directory)).toMatchObject({
        exit: 2,
        stderr: expect.stringContaining('local has other files than those of a local service') as string,
      });
    expect(await readFile(join(directory, 'local/ipfs/letter.txt'), 'utf8')).toBe('Dear Ann');
  });

  test('made in at most two steps for each part of its name, even if the system repeats ENOENT', async () => {
    const made: string[] = [];
    const proc = async (path: string): Promise<void> => {
      made.push(path);
      throw Object.assign(new Error('ENOENT'), { code: path === '/' ? 'EEXIST' : 'ENOENT' });
    };
    await expect(makeDirectories('/proc/x/y', proc)).rejects.toMatchObject({ code: 'ENOENT' });
    expect(made.length).toBeLessThanOrEqual(8);
    const directory = await temporaryDirectory();
    await makeDirectories(join(directory, 'a', 'b'));
    await makeDirectories(join(directory, 'a', 'b'));
    expect((await stat(join(directory, 'a', 'b'))).mode & 0o777).toBe(0o700);
  });

  test.runIf(process.platform === 'linux')('refused where the system makes none, as in /proc', async () => {
    const ran = await run(['keygen', '--output', '/proc/x'], await temporaryDirectory());
    expect(ran).toMatchObject({ exit: 1, stdout: '' });
    expect(ran.stderr).toContain('/proc/x cannot be written: nothing can be made in its directory');
  });

  test('S57: made with 0700; an existing one that is open to others is left unchanged, with a warning', async () => {
    const directory = await temporaryDirectory();
    const made = join(directory, 'a', 'b');
    expect(await makeDataDirectory(made)).toBeUndefined();
    expect((await stat(made)).mode & 0o777).toBe(0o700);
    await chmod(made, 0o755);
    expect(await makeDataDirectory(made)).toContain('is accessible to other users');
    expect((await stat(made)).mode & 0o777).toBe(0o755);
  });

  test('S47: an error when it cannot be created', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'file'), '');
    await expect(makeDataDirectory(join(directory, 'file', 'x'))).rejects.toMatchObject({ code: 'file_unwritable' });
  });
});

describe('S58: config.json', () => {
  test('is optional', async () => {
    expect(await readConfig(await temporaryDirectory())).toEqual({ v: 1, gateways: [] });
  });

  test('gives its fields', () => {
    const full = { v: 1, service: 'https://s.example', apiKey: 'sp_x', gateways: ['https://g.example'] };
    expect(parseConfig(JSON.stringify(full), 'config.json')).toEqual(full);
  });

  test.each([
    {
      title: 'half-written',
      text: '{"v": 1,\n "apiKey": "canary',
      says: 'it is not JSON: see line 2, column 19',
    },
    {
      title: 'with a comma too many',
      text: '{\n  "v": 1,\n  "apiKey": "canary",\n}\n',
      says: 'it is not JSON: see line 4, column 1',
    },
    { title: 'with a word', text: '{"v": 1, "apiKey": canary}', says: 'it is not JSON: see line 1, column 20' },
    { title: 'empty', text: '', says: 'it is not JSON: see line 1, column 1' },
    { title: 'a list', text: '[]', says: 'it is not a JSON object' },
    {
      title: 'of a newer version',
      text: '{"v": 2, "apiKey": "canary"}',
      says: 'it has version 2, and this sealpin supports version 1',
    },
    { title: 'of no version', text: '{}', says: 'it is missing "v": 1' },
    { title: 'with an unknown field', text: '{"v": 1, "gatewys": []}', says: 'it has an unknown field "gatewys"' },
    {
      title: 'with a service that is not a string',
      text: '{"v": 1, "service": 7}',
      says: '"service" must be a string',
    },
    {
      title: 'with an API key that is no text',
      text: '{"v": 1, "apiKey": ["canary"]}',
      says: '"apiKey" must be a string',
    },
    {
      title: 'with gateways that are no list',
      text: '{"v": 1, "gateways": "https://g.example"}',
      says: '"gateways" must be a list of strings',
    },
  ])('$title is a clear error, and the file stays as it is', async ({ text, says }) => {
    const directory = await temporaryDirectory();
    const path = join(directory, 'config.json');
    await writeFile(path, text, { mode: 0o600 });
    const ran = await run(['list', '--data-dir', directory], directory);
    expect(ran).toMatchObject({ exit: 1, stdout: '' });
    expect(ran.stderr).toContain(`sealpin: error: ${path}: ${says}`);
    expect(ran.stderr).not.toContain('canary');
    expect(await readFile(path, 'utf8')).toBe(text);
  });

  test('S57: with an API key in it and open to others, causes a warning', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'config.json'), '{"v": 1, "apiKey": "sp_x"}', { mode: 0o644 });
    expect((await readConfig(directory)).warning).toContain('chmod 600');
    await chmod(join(directory, 'config.json'), 0o600);
    expect((await readConfig(directory)).warning).toBeUndefined();
  });

  test('that is a directory cannot be read', async () => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'config.json'));
    await expect(readConfig(directory)).rejects.toMatchObject({
      code: 'config_invalid',
      message: `${directory}/config.json cannot be read (EISDIR)`,
    });
  });

  test('that is a pipe, like the history, holds no command up', async () => {
    const directory = await temporaryDirectory();
    for (const name of ['config.json', 'history']) execFileSync('mkfifo', [join(directory, name)]);
    await expect(readConfig(directory)).rejects.toMatchObject({ code: 'config_invalid' });
    expect(await recall(directory)).toEqual({ entries: [], damagedLines: [] });
  });
});
