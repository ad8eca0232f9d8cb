/**
 * The main job, from a file to a blob ID and back, against the real service, and against the
 * programs of others.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { client, problemOf } from '../../../testkit/api-client.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { localService } from '../local.ts';
import { run, temporaryDirectory } from '../environment.ts';
import type { Overrides, Ran } from '../environment.ts';
import { flip, present } from '../../../testkit/present.ts';
import { ci } from '../../../testkit/long-run.ts';

const local = localService();
const password = 'a password of some length';
const data = Buffer.from(nodeProvider.random(3 * 2 ** 20 + 17));

/** A folder with a file `in`, and the command line in it, at the real service. */
async function desk() {
  const dir = await temporaryDirectory();
  await writeFile(join(dir, 'in'), data);
  const at = (argv: readonly string[], o: Overrides = {}): Promise<Ran> =>
    run([...argv, '--data-dir', local.dataDir], dir, { env: { SEALPIN_PASSWORD: password }, ...o });
  return {
    dir,
    at,
    /** Runs what must succeed; gives its stdout. */
    async done(...argv: string[]): Promise<string> {
      const ran = await at(argv);
      expect(ran).toMatchObject({ exit: 0 });
      return ran.stdout.trim();
    },
    read: (name: string) => readFile(join(dir, name)),
    names: () => readdir(dir),
  };
}

/** The stored bytes of a blob, from the service's public gateway. */
async function stored(blob: string): Promise<Buffer> {
  const answer = await fetch(`${local.url}/ipfs/${blob}`);
  expect(answer.status).toBe(200);
  return Buffer.from(await answer.arrayBuffer());
}

describe('a file comes back as it went in', () => {
  const ways: [string, string[], string][] = [
    ['encrypt', [], 'decrypt'],
    ['encrypt', ['--fips'], 'decrypt'],
    ['chacha-encrypt', [], 'decrypt'],
  ];
  test.each(ci ? ways : ways.slice(0, 1))('%s %j, then %s', async (encrypt, flags, decrypt) => {
    const { done, read } = await desk();
    const blob = await done(encrypt, 'in', ...flags);
    expect(blob).toMatch(/^bafybei[a-z2-7]{52}$/);
    expect((await stored(blob)).includes(data.subarray(0, 64))).toBe(false);
    await done(decrypt, blob, 'out');
    expect((await read('out')).equals(data)).toBe(true);
  });

  test('ecc-encrypt for two, each of whom opens it, and nobody else', async () => {
    const { dir, at, done, read, names } = await desk();
    for (const name of ['alice', 'bob', 'eve']) await done('keygen', '--output', name);
    const blob = await done('ecc-encrypt', 'in', 'alice/public.key', 'bob/public.key');
    for (const name of ['alice', 'bob']) {
      await done('ecc-decrypt', blob, `from-${name}`, `${name}/private.key`);
      expect((await read(`from-${name}`)).equals(data)).toBe(true);
    }
    const ran = await at(['ecc-decrypt', blob, 'from-eve', join(dir, 'eve/private.key')]);
    expect(ran).toMatchObject({ exit: 4, stdout: '' });
    expect(ran.stderr).toContain('sealpin: error: ');
    expect(await names()).not.toContain('from-eve');
  });

  test('S39: post-quantum keys open what is encrypted to them; mixed with others only on request', async () => {
    const { at, done, read } = await desk();
    expect(await done('keygen', '--post-quantum', '--output', 'later')).toMatch(/^age1tagpq1/);
    await done('keygen', '--output', 'now');
    const blob = await done('ecc-encrypt', 'in', 'later/public.key');
    await done('ecc-decrypt', blob, 'out', 'later/private.key');
    expect((await read('out')).equals(data)).toBe(true);
    const both = ['ecc-encrypt', 'in', 'later/public.key', 'now/public.key'];
    expect(await at(both)).toMatchObject({ exit: 2, stdout: '' });
    const mixed = await done(...both, '--mix');
    for (const name of ['later', 'now']) {
      await done('ecc-decrypt', mixed, `from-${name}`, `${name}/private.key`);
      expect((await read(`from-${name}`)).equals(data)).toBe(true);
    }
  });

  test('an empty file and one of a single byte, too', async () => {
    const { dir, done, read } = await desk();
    for (const [name, bytes] of [
      ['empty', Buffer.alloc(0)],
      ['one', Buffer.from([7])],
    ] as const) {
      await writeFile(join(dir, name), bytes);
      await done('decrypt', await done('encrypt', name), `${name}-back`);
      expect((await read(`${name}-back`)).equals(bytes)).toBe(true);
    }
  });
});

describe('what goes wrong leaves one clear error and no file', () => {
  test('a wrong password', async () => {
    const { at, done, names } = await desk();
    const blob = await done('encrypt', 'in');
    const ran = await at(['decrypt', blob, 'out'], { env: { SEALPIN_PASSWORD: 'another password' } });
    expect(ran).toMatchObject({ exit: 4, stdout: '' });
    expect(ran.stderr).toContain('wrong password');
    expect(await names()).toEqual(['in']);
  });

  test('one flipped bit in the stored bytes', async () => {
    const { at, done, names } = await desk();
    const blob = await done('chacha-encrypt', 'in');
    const bytes = await stored(blob);
    const files = await readdir(join(local.dataDir, 'local/ipfs/data'), { recursive: true, withFileTypes: true });
    const paths = files.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    const holding = await Promise.all(
      paths.map(async (path) => (await readFile(path)).includes(bytes.subarray(0, 4096))),
    );
    const path = present(paths[holding.indexOf(true)]);
    const flipped = await readFile(path);
    flip(flipped, 2_000_000, 0x10);
    await writeFile(path, flipped);
    const ran = await at(['decrypt', blob, 'out']);
    expect(ran).toMatchObject({ exit: 5, stdout: '' });
    expect(ran.stderr).toMatch(/^sealpin: error: /m);
    expect(await names()).toEqual(['in']);
  });

  test('no service running', async () => {
    const { dir } = await desk();
    const ran = await run(['encrypt', 'in', '--data-dir', join(dir, 'nowhere')], dir, {
      env: { SEALPIN_PASSWORD: password },
    });
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toContain('sealpin start');
  });

  test('a bad API key', async () => {
    const { at } = await desk();
    const { apiKey } = local;
    for (const bad of ['nonsense', `${apiKey.slice(0, -1)}${apiKey.endsWith('0') ? '1' : '0'}`]) {
      const ran = await at(['encrypt', 'in'], { env: { SEALPIN_PASSWORD: password, SEALPIN_API_KEY: bad } });
      expect(ran).toMatchObject({ exit: 4, stdout: '' });
      expect(ran.stderr).toContain('API key');
      expect(await problemOf(client(local.url, bad).ask('listFiles'))).toBe('401 unauthorized');
    }
  });
});

withProgram('age', { probe: ['--version'] }, () => {
  test('age -d opens what chacha-encrypt stored', async () => {
    const { dir, done, read } = await desk();
    await writeFile(join(dir, 'container.age'), await stored(await done('chacha-encrypt', 'in')));
    // age asks for the password at a terminal only; `script` is one.
    const opened = spawnSync('script', ['-qec', 'age -d -o opened container.age', '/dev/null'], {
      cwd: dir,
      input: `${password}\n`,
    });
    expect(opened.stdout.toString()).not.toContain('error');
    expect((await read('opened')).equals(data)).toBe(true);
  });

  test('ecc-decrypt opens a file that age -r made and that was stored by hand', async () => {
    const { dir, done, read } = await desk();
    execFileSync('age-keygen', ['-o', join(dir, 'key.txt')], { stdio: 'pipe' });
    const recipient = present(/age1[a-z0-9]+/.exec((await read('key.txt')).toString()))[0];
    const sealed = execFileSync('age', ['-r', recipient], { input: data, maxBuffer: 2 ** 26 });
    const { cid } = await client(local.url, local.apiKey).store('plain', sealed);
    await done('ecc-decrypt', cid, 'opened', 'key.txt');
    expect((await read('opened')).equals(data)).toBe(true);
  });
});

withProgram('openssl', { probe: ['version'] }, () => {
  test('openssl makes of our private.key the very PEM block of our public.key', async () => {
    const { dir, done, read } = await desk();
    await done('keygen', '--output', 'mine');
    const pem = execFileSync('openssl', ['pkey', '-in', join(dir, 'mine/private.key'), '-pubout'], {
      encoding: 'utf8',
    });
    expect((await read('mine/public.key')).toString().endsWith(pem)).toBe(true);
  });

  test('a key pair of openssl works with ecc-encrypt and ecc-decrypt', async () => {
    const { dir, done, read } = await desk();
    await mkdir(join(dir, 'theirs'));
    const key = join(dir, 'theirs/private.pem');
    execFileSync('openssl', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', key], {
      stdio: 'pipe',
    });
    execFileSync('openssl', ['pkey', '-in', key, '-pubout', '-out', join(dir, 'theirs/public.pem')]);
    const blob = await done('ecc-encrypt', 'in', 'theirs/public.pem');
    await done('ecc-decrypt', blob, 'opened', 'theirs/private.pem');
    expect((await read('opened')).equals(data)).toBe(true);
  });
});
