/** The main job against the real local service: encrypt, list, decrypt, delete, API keys. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { bytesOf, client } from '../../../testkit/api-client.ts';
import { faultyProxy } from '../../../testkit/faulty-proxy.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { localService } from '../local.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { flip, present } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

const local = localService();
const mib = 1024 * 1024;
const env = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };

const sealpin = (argv: readonly string[], directory: string, overrides: Overrides = {}): Promise<Ran> =>
  run([...argv, '--data-dir', local.dataDir], directory, overrides);

/** Runs it, expects exit 0 and gives the one line on stdout. */
async function line(argv: readonly string[], directory: string, overrides: Overrides = {}): Promise<string> {
  const ran = await sealpin(argv, directory, overrides);
  expect({ exit: ran.exit, stderr: ran.stderr }).toMatchObject({ exit: 0 });
  expect(ran.stdout).toMatch(/^\S+\n$/);
  return ran.stdout.trim();
}

type Listed = { blobId: string; fileId: string; name: string | null; state: string; size: number };
const listed = async (): Promise<Listed[]> =>
  (JSON.parse((await sealpin(['list', '--json'], '/')).stdout) as { files: Listed[] }).files;

describe('what was encrypted comes back', () => {
  // main-job.test.ts has larger ones, and --fips.
  const sizes = long ? [0, 1, 65_536, 3 * mib + 11] : [0, 65_536];
  test.each([
    { title: 'encrypt, of several sizes', argv: ['encrypt', 'in'], sizes },
    ...(long ? [{ title: 'encrypt --fips', argv: ['encrypt', 'in', '--fips'], sizes: [100_000] }] : []),
    { title: 'chacha-encrypt, of several sizes', argv: ['chacha-encrypt', 'in'], sizes },
  ])('$title', async ({ argv, sizes }) => {
    const directory = await temporaryDirectory();
    for (const bytes of sizes) {
      const data = randomBytes(bytes);
      await writeFile(join(directory, 'in'), data);
      const blobId = await line(argv, directory, { env });
      expect(await sealpin(['decrypt', blobId, 'out', '--force'], directory, { env })).toMatchObject({
        exit: 0,
        stdout: '',
      });
      expect((await readFile(join(directory, 'out'))).equals(data)).toBe(true);
    }
  });

  test('ecc-encrypt for two, and each of them opens it; a third does not', async () => {
    const directory = await temporaryDirectory();
    for (const name of ['ann', 'ben', 'cat']) await sealpin(['keygen', '--output', name], directory);
    await writeFile(join(directory, 'in'), 'for two');
    const recipient = present(/age1tag1\S+/.exec(await readFile(join(directory, 'ben', 'public.key'), 'utf8')))[0];
    const blobId = await line(['ecc-encrypt', 'in', 'ann/public.key', recipient], directory);
    for (const name of ['ann', 'ben'])
      expect(await sealpin(['ecc-decrypt', blobId, '-', `${name}/private.key`], directory)).toMatchObject({
        exit: 0,
        stdout: 'for two',
      });
    expect(await sealpin(['ecc-decrypt', blobId, 'out', 'cat/private.key'], directory)).toMatchObject({
      exit: 4,
      stdout: '',
    });
    expect(await readdir(directory)).not.toContain('out');
  });

  test('S35: a private key instead of a public one is refused, and not repeated', async () => {
    const directory = await temporaryDirectory();
    await sealpin(['keygen', '--output', 'ann'], directory);
    await writeFile(join(directory, 'in'), 'x');
    const ran = await sealpin(['ecc-encrypt', 'in', 'ann/private.key'], directory);
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain('sealpin: error: ann/private.key: ');
    expect(ran.stderr).not.toContain((await readFile(join(directory, 'ann', 'private.key'), 'utf8')).split('\n')[2]);
  });

  test('S22: the same file twice gives two blob IDs', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'twice');
    expect(await line(['encrypt', 'in'], directory, { env })).not.toBe(
      await line(['encrypt', 'in'], directory, { env }),
    );
  });

  inCi('S55: from standard input of unknown length, also beyond what is held to know the blob ID first', async () => {
    const directory = await temporaryDirectory();
    for (const count of long ? [3, 40] : [33]) {
      const chunks = Array.from({ length: count }, () => randomBytes(mib));
      const blobId = await line(['chacha-encrypt', '-'], directory, { env, stdin: Readable.from(chunks) });
      const back = await sealpin(['decrypt', blobId, '-'], directory, { env });
      expect(back.exit).toBe(0);
      expect(back.stdoutBytes.equals(Buffer.concat(chunks))).toBe(true);
    }
  });

  inCi('what is too large to be held goes as a CAR, whose length is told before', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), randomBytes(33 * mib));
    const { url, passed } = await faultyProxy(
      () => local.url,
      () => undefined,
    );
    const through = { env: { ...env, SEALPIN_SERVICE: url, SEALPIN_API_KEY: local.apiKey } };
    const blobId = await line(['encrypt', 'in'], directory, through);
    expect(passed.find(({ method }) => method === 'POST')?.headers).toMatchObject({
      'content-type': 'application/vnd.ipld.car',
      'content-length': expect.stringMatching(/^346\d{5}$/) as unknown,
    });
    expect(await sealpin(['decrypt', blobId, 'out'], directory, { env })).toMatchObject({ exit: 0 });
    expect((await readFile(join(directory, 'out'))).equals(await readFile(join(directory, 'in')))).toBe(true);
  });

  test('--json says where it is', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'x');
    const ran = await sealpin(['encrypt', 'in', '--json'], directory, { env });
    expect(ran).toMatchObject({ exit: 0, stderr: '' });
    const answer = JSON.parse(ran.stdout) as Listed & { service: string };
    expect(answer).toEqual({
      blobId: expect.stringMatching(/^bafkrei/) as unknown,
      fileId: expect.any(String) as unknown,
      size: expect.any(Number) as unknown,
      service: `${local.url}/`,
    });
    expect(await listed()).toContainEqual(
      expect.objectContaining({
        blobId: answer.blobId,
        fileId: answer.fileId,
        name: 'in',
        state: 'stored',
        size: answer.size,
      }),
    );
  });
});

test('the name of the file stays here, also one that would fool a terminal', async () => {
  const directory = await temporaryDirectory();
  const name = 'S43 \u001B[31m\u202Egnp.exe';
  await writeFile(join(directory, name), 'x');
  const blobId = await line(['encrypt', name], directory, { env });
  const { stdout } = await sealpin(['list'], directory);
  const row = present(stdout.split('\n').find((text) => text.startsWith(blobId)));
  expect(row.endsWith('S43 \\u{1b}[31m\\u{202e}gnp.exe')).toBe(true);
  // Another data directory has no history, and so no name.
  const { apiKey } = JSON.parse(await readFile(join(local.dataDir, 'local', 'secrets.json'), 'utf8')) as {
    apiKey: string;
  };
  const elsewhere = await run(['list', '--service', local.url, '--data-dir', directory, '--json'], directory, {
    env: { SEALPIN_API_KEY: apiKey },
  });
  expect(
    (JSON.parse(elsewhere.stdout) as { files: Listed[] }).files.find((file) => file.blobId === blobId),
  ).toMatchObject({ name: null, state: 'stored' });
});

describe('list', () => {
  test('gives the newest first, and as many as wanted', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'x');
    const first = await line(['encrypt', 'in'], directory, { env });
    const second = await line(['encrypt', 'in'], directory, { env });
    const ran = await sealpin(['list', '--limit', '1'], directory);
    expect(ran).toMatchObject({ exit: 0, stderr: 'sealpin: there are more: --limit 10\n' });
    expect(ran.stdout.split('\n').map((row) => row.split(' ')[0])).toEqual([second, '']);
    expect((await listed()).slice(0, 2).map(({ blobId }) => blobId)).toEqual([second, first]);
  });

  test.each(['0', '-1', 'x', '1.5', '1e99'])('refuses --limit=%s', async (limit) => {
    expect(await sealpin(['list', `--limit=${limit}`], '/')).toMatchObject({ exit: 2, stdout: '' });
  });

  test('without a service gives what the history knows, and says so', async () => {
    const directory = await temporaryDirectory();
    const known = {
      v: 1,
      cid: 'bafkreix',
      fileId: 'f',
      service: 'https://elsewhere.example/',
      name: 'letter',
      bytes: 1,
    };
    const entry = JSON.stringify({ ...known, at: '2026-01-02T03:04:05.000Z' });
    await writeFile(join(directory, 'history'), `${entry}\nbroken\n`);
    const ran = await run(['list', '--data-dir', directory], directory);
    expect(ran).toMatchObject({
      exit: 0,
      stdout: 'bafkreix  2026-01-02 03:04        1 B  unknown    letter\n',
    });
    expect(ran.stderr).toContain('warning: line 2 of the history cannot be read');
    expect(ran.stderr).toContain('warning: no service is configured, and no local service is running');
  });
});

describe('S91: delete', () => {
  test('by blob ID: the receipt says what became of the key, and that copies may live on', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'x');
    const blobId = await line(['encrypt', 'in'], directory, { env });
    const ran = await sealpin(['delete', blobId], directory);
    expect(ran).toMatchObject({ exit: 0, stdout: '' });
    expect(ran.stderr).toContain('anyone who already has a copy can still open it');
    expect(ran.stderr).toContain('unpinned at: local');
    expect((await listed()).map((file) => file.blobId)).not.toContain(blobId);
    const again = await sealpin(['delete', blobId], directory);
    expect(again).toMatchObject({
      exit: 3,
      stdout: '',
      stderr: 'sealpin: error: the account has no file with this blob ID\nsealpin: hint: see: sealpin list\n',
    });
    expect(await sealpin(['decrypt', blobId, 'out'], directory, { env })).toMatchObject({ exit: 3 });
    expect(await readdir(directory)).toEqual(['in']);
  });

  test('by file ID, with the receipt as JSON', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'x');
    const { fileId } = JSON.parse((await sealpin(['encrypt', 'in', '--json'], directory, { env })).stdout) as Listed;
    const ran = await sealpin(['delete', fileId, '--json'], directory);
    expect(ran).toMatchObject({ exit: 0, stderr: '' });
    expect(JSON.parse(ran.stdout)).toMatchObject({
      receipts: [{ fileId, pins: [{ service: expect.any(String) as unknown }] }],
    });
    expect(await sealpin(['delete', fileId], directory)).toMatchObject({ exit: 3, stdout: '' });
  });

  test('says how many shares of the file ended, and where its key is', async () => {
    const api = client(local.url, local.apiKey);
    // A payload without a header, as files that were made for a parcel are stored.
    const { fileId } = await api.store('plain', 'sealpin/v1 detached\n');
    for (let share = 0; share < 2; share += 1)
      await api.createShare({ record: 'AAAA', files: [fileId], password: false });
    const ran = await sealpin(['delete', fileId], '/');
    expect(ran).toMatchObject({ exit: 0, stdout: '' });
    expect(ran.stderr).toContain('anyone who already has a copy, and the key, can still open it');
    expect(ran.stderr).toContain('ended 2 shares of it\n');
  });

  test('refuses what is neither', async () => {
    expect(await sealpin(['delete', 'letter.pdf'], '/')).toMatchObject({ exit: 2, stdout: '' });
  });
});

describe('API keys', () => {
  test('are made, listed and revoked, and can do what their scopes say', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'x');
    const made = await sealpin(
      ['key', 'create', 'only stores', '--scopes', 'write', '--expires', '30d', '--json'],
      directory,
    );
    const { apiKey, key } = JSON.parse(made.stdout) as { apiKey: string; key: { id: string; expiresAt: string } };
    expect(apiKey).toMatch(/^sp_[0-9A-Za-z]{71}$/);
    expect(Date.parse(key.expiresAt) - Date.now()).toBeGreaterThan(29 * 24 * 3600 * 1000);
    const asOther = (argv: string[]) =>
      run([...argv, '--service', local.url, '--data-dir', directory], directory, {
        env: { ...env, SEALPIN_API_KEY: apiKey },
      });
    expect(await asOther(['encrypt', 'in'])).toMatchObject({ exit: 0 });
    expect(await asOther(['list'])).toMatchObject({ exit: 4, stdout: '' });
    const table = (await sealpin(['key', 'list'], '/')).stdout;
    expect(table).toMatch(new RegExp(`^${key.id}  \\S+  write +only stores  until \\d{4}-\\d{2}-\\d{2}$`, 'm'));
    expect(await sealpin(['key', 'revoke', key.id], '/')).toMatchObject({
      exit: 0,
      stdout: '',
      stderr: `sealpin: revoked ${key.id}\n`,
    });
    const refused = await asOther(['encrypt', 'in']);
    expect(refused).toMatchObject({ exit: 4, stdout: '' });
    expect(refused.stderr).toContain('hint: check SEALPIN_API_KEY');
  });

  test.each([
    { argv: ['key', 'create', 'x', '--scopes', 'read,root'], says: 'unknown scope "root"' },
    {
      argv: ['key', 'create', 'x', '--expires', 'tomorrow'],
      says: '--expires is neither a number of hours or days nor a date',
    },
    { argv: ['key', 'revoke', `sp_${'0'.repeat(71)}`], says: 'expected the ID of an API key, got the key itself' },
    { argv: ['key', 'export', '-'], says: 'a private key is not written to standard output' },
    { argv: ['key'], says: "'key' needs a subcommand: create, list, revoke, export" },
  ])('$argv is misuse', async ({ argv, says }) => {
    const ran = await sealpin(argv, '/');
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(says);
  });

  test("key export gives the account's private key, which opens what the service encrypted without it", async () => {
    const directory = await temporaryDirectory();
    const { apiKey } = JSON.parse(await readFile(join(local.dataDir, 'local', 'secrets.json'), 'utf8')) as {
      apiKey: string;
    };
    const api = client(local.url, apiKey);
    const { fileId } = await api.store('encrypted', 'by the service', { filename: 'a.txt', type: 'text/plain' });
    const got = api.ask('getFile', { fileId }, { headers: { accept: 'application/vnd.sealpin' } });
    await writeFile(join(directory, 'container'), await bytesOf(got));
    expect(await sealpin(['key', 'export', 'account.key'], directory)).toMatchObject({ exit: 0, stdout: '' });
    expect(await sealpin(['ecc-decrypt', './container', '-', 'account.key'], directory)).toMatchObject({
      exit: 0,
      stdout: 'by the service',
    });
    expect(await sealpin(['key', 'export', 'account.key'], directory)).toMatchObject({ exit: 1 });
  });
});

test('S62: one flipped bit in what is stored is found, and nothing is written', async () => {
  const directory = await temporaryDirectory();
  const data = randomBytes(300_000);
  await writeFile(join(directory, 'in'), data);
  const blobId = await line(['encrypt', 'in'], directory, { env });
  const blocks = (await readdir(join(local.dataDir, 'local', 'ipfs'), { recursive: true, withFileTypes: true })).filter(
    (file) => file.isFile(),
  );
  let flipped = 0;
  for (const file of blocks) {
    const path = join(file.parentPath, file.name);
    const bytes = await readFile(path);
    // The one block of this blob: no other has its size.
    if (bytes.length < 300_000 || bytes.length > 301_000) continue;
    flip(bytes, 150_000);
    await writeFile(path, bytes);
    flipped += 1;
  }
  expect(flipped).toBe(1);
  const ran = await sealpin(['decrypt', blobId, 'out'], directory, { env });
  expect(ran).toMatchObject({ exit: 5, stdout: '' });
  expect(ran.stderr).not.toContain('cannot be reached');
  // The service passes the leaves of a CAR on as they are: it is the reader who finds it.
  expect(ran.stderr).toContain('is something else');
  expect(await readdir(directory)).toEqual(['in']);
});

withProgram('age', { probe: ['--version'] }, () => {
  test('what chacha-encrypt made and export wrote, age opens; what age made, ecc-decrypt opens', async () => {
    const directory = await temporaryDirectory();
    execFileSync('age-keygen', ['-o', 'age.key'], { cwd: directory, stdio: 'ignore' });
    const recipient = present(/age1\S+/.exec(await readFile(join(directory, 'age.key'), 'utf8')))[0];
    await writeFile(join(directory, 'in'), 'crossing');
    const ours = await line(['ecc-encrypt', 'in', recipient], directory);
    const container = await fetch(`${local.url}/ipfs/${ours}`);
    expect(
      execFileSync('age', ['-d', '-i', 'age.key'], {
        cwd: directory,
        input: Buffer.from(await container.arrayBuffer()),
      }).toString(),
    ).toBe('crossing');
    const theirs = execFileSync('age', ['-r', recipient, 'in'], { cwd: directory });
    await writeFile(join(directory, 'theirs.age'), theirs);
    expect(await sealpin(['ecc-decrypt', './theirs.age', '-', 'age.key'], directory)).toMatchObject({
      exit: 0,
      stdout: 'crossing',
    });
  });
});
