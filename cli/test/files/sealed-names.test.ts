/** Names that a service keeps sealed: set with what is stored, shown where the private key is. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { beforeEach, expect, test, vi } from 'vitest';
import { generateKeys } from '../../../client/index.ts';
import { sharedService } from '../../../testkit/service.ts';
import { first } from '../../../testkit/present.ts';
import { type Account, accountAt, sealpin } from '../backup-accounts.ts';
import { serviceFolder, writeManifest } from '../../backup/service/service-folder.ts';
import { readRecipients, sealText } from '../../keys/key-files.ts';
import { contextIn, run, temporaryDirectory, type Ran } from '../environment.ts';
import { client } from '../../../testkit/api-client.ts';

let here: Account;
/** Another computer with the same account, and nothing else. */
let there: Account;
let folder: string;
beforeEach(async () => {
  const { url, account } = await sharedService();
  here = await accountAt(url, account);
  there = { ...here, home: await temporaryDirectory() };
  folder = await temporaryDirectory();
  await writeFile(join(folder, 'letter.txt'), 'Dear Ann\n');
  await run(['keygen', '--data-dir', here.home, '--quiet'], folder);
});

const store = async (...argv: string[]): Promise<Ran> => {
  const ran = await sealpin(here, [...argv, '--quiet'], folder);
  expect(ran.exit, ran.stderr).toBe(0);
  return ran;
};
const names = async (at: Account, env = {}): Promise<{ names: unknown[]; said: string }> => {
  const { stdout, stderr, exit } = await sealpin(at, ['list'], folder, { env });
  expect(exit, stderr).toBe(0);
  const lines = stdout.split('\n').filter((line) => line !== '');
  return { names: lines.map((line) => line.split(/ {2,}/).at(-1)), said: stderr };
};
const bringKey = (): Promise<void> => copyFile(join(here.home, 'private.key'), join(there.home, 'private.key'));

test('another computer lists what was encrypted and sent, with the private key alone', async () => {
  await store('encrypt', 'letter.txt', '--name', 'first.txt');
  await store('send', 'letter.txt');
  const { files } = await here.files.list();
  expect(files.map(({ details = '' }) => Buffer.from(details, 'base64').length > 1024)).toEqual([true, true]);
  expect(JSON.stringify(files)).not.toContain('letter');
  expect(await names(there)).toEqual({
    names: ['-', '-'],
    said: expect.stringMatching(/2 names of files cannot be shown: the private key that opens them is not in /),
  });
  await bringKey();
  expect(await names(there)).toEqual({ names: ['letter.txt', 'first.txt'], said: '' });
  const found = await sealpin(there, ['list', '--name', 'FIRST'], folder);
  expect(found.stdout).toMatch(/first\.txt\n$/);
  // The names of the own history need no key.
  await rm(join(here.home, 'private.key'));
  expect((await names(here)).said).toBe('');
});

test('a new name is sealed in place of the other, unless the file has none there', async () => {
  await store('encrypt', 'letter.txt');
  await store('encrypt', 'letter.txt', '--unnamed');
  for (const { fileId } of (await here.files.list()).files) await store('set', fileId, '--name', 'new.txt');
  expect((await names(here)).names).toEqual(['new.txt', 'new.txt']);
  await bringKey();
  expect((await names(there)).names).toEqual(['-', 'new.txt']);
});

test('a protected private key opens them with its password, which is never asked for', async () => {
  await rm(here.home, { recursive: true });
  await sealpin(here, ['keygen', '--protect', '--quiet'], folder);
  await store('encrypt', 'letter.txt');
  await bringKey();
  for (const SEALPIN_PASSWORD of [undefined, 'another one'])
    expect(await names(there, { SEALPIN_PASSWORD })).toEqual({
      names: ['-'],
      said: expect.stringContaining('SEALPIN_PASSWORD must have the password of your private key'),
    });
  expect(await names(there)).toMatchObject({ names: ['letter.txt'] });
});

test('every command that opens with a protected private key takes its password from the environment', async () => {
  await rm(here.home, { recursive: true });
  await sealpin(here, ['keygen', '--protect', '--quiet'], folder);
  const key = join(here.home, 'private.key');
  const recipient = join(here.home, 'public.key');
  const blob = (await store('encrypt', 'letter.txt', '--to', recipient)).stdout.trim();
  const link = (await store('send', 'letter.txt', '--to', recipient)).stdout.trim();
  const commands = [
    ['decrypt', blob, '-', '--key', key],
    ['decrypt', link, '-'],
    ['receive', link, 'received'],
    ['receive', link, 'received', '--key', key],
    ['receive', link.replace(/s#.*/, `b#${blob}`), 'received', '--key', key],
    ['reseal', blob, '--to', recipient],
    ['share', blob, '--sign'],
    ['send', 'letter.txt', '--sign'],
    ['verify', blob, '--open', '--key', key],
  ];
  const ask = { exit: 2, stderr: expect.stringContaining('give its password in SEALPIN_PASSWORD') };
  for (const argv of commands) {
    expect(await sealpin(here, argv, folder, { env: { SEALPIN_PASSWORD: undefined } }), argv.join(' ')).toMatchObject(
      ask,
    );
    const { exit, stderr } = await sealpin(here, argv, folder);
    expect(exit, `${argv.join(' ')}: ${stderr}`).toBe(0);
    expect(stderr).not.toContain('was not needed');
  }
  // With that of something else, a person is asked.
  const { url, account } = await sharedService();
  await here.files.put('text', { name: 'a' });
  await sealpin(here, ['backup', 'copy'], folder);
  await secretsFor(recipient, join(folder, 'service'));
  const other = { env: { SEALPIN_PASSWORD: 'another one' } };
  for (const [at, argv] of [
    ...commands.map((each) => [here, each] as const),
    [here, ['ecc-decrypt', blob, '-', key]],
    [await accountAt(url, account), ['restore', 'copy']],
    [there, ['service', 'restore', 'service', '--key', key]],
  ] as const) {
    expect(await sealpin(at, argv, folder, other), argv.join(' ')).toMatchObject({ exit: 4, stdout: '' });
    const isAsked = vi.fn<() => void>();
    const asking = withoutTerminal(isAsked, () => sealpin(at, argv, folder, { ...other, interactive: true }));
    expect(await asking, argv.join(' ')).toMatchObject({ exit: 4, stdout: '' });
    expect(isAsked, argv.join(' ')).toHaveBeenCalledOnce();
  }
});

/** Makes the backup of a service whose secrets are encrypted to a key, and nothing else in it. */
async function secretsFor(recipient: string, root: string): Promise<void> {
  const context = contextIn(folder);
  const bytes = await sealText('{}', 'age', await readRecipients([recipient], context));
  const part = createHash('sha256').update(bytes).digest('hex');
  await mkdir(join(root, 'parts'), { recursive: true });
  await writeFile(join(root, 'parts', part), bytes);
  const about = { sealpin: '0.1.0', takenAt: '2030-01-01T00:00:00.000Z', serviceId: 'd'.repeat(32) };
  const manifest = { v: 1 as const, ...about, files: [], blocks: [], secrets: { part, of: 'c'.repeat(64) } };
  await writeManifest(serviceFolder(root, context), manifest, context);
}

/** Meanwhile this process has no terminal. @param onAsk called where one is to be opened */
async function withoutTerminal<T>(onAsk: () => void, work: () => Promise<T>): Promise<T> {
  const { openSync } = fs;
  fs.openSync = (path, ...rest) => {
    if (path !== '/dev/tty') return openSync(path, ...rest);
    onAsk();
    throw new Error('no terminal');
  };
  syncBuiltinESMExports();
  try {
    return await work();
  } finally {
    fs.openSync = openSync;
    syncBuiltinESMExports();
  }
}

test('a name that was put beside another file is not shown', async () => {
  await store('encrypt', 'letter.txt');
  await store('encrypt', 'letter.txt', '--name', 'other.txt');
  const { files } = await here.files.list();
  const [other, letter] = [first(files), first(files.toReversed())];
  await client(here.url, here.apiKey).changeFile({ fileId: letter.fileId, details: other.details });
  await bringKey();
  expect(await names(there)).toEqual({
    names: ['other.txt', '-'],
    said: expect.stringContaining(`${letter.fileId}: the name does not belong to this file`),
  });
  const { stdout } = await sealpin(there, ['list', '--json'], folder);
  const rows = (JSON.parse(stdout) as { files: { fileId: string; foreign?: boolean }[] }).files;
  expect(rows.map(({ fileId, foreign }) => [fileId, foreign])).toEqual([
    [other.fileId, undefined],
    [letter.fileId, true],
  ]);
});

test.each(['as they are', 'protected'])(
  'keys that key rotate keeps open older names, also where they are %s',
  async (kind) => {
    const flags = kind === 'protected' ? ['--protect'] : [];
    for (const day of ['first', 'second', 'third']) {
      if (day !== 'first') await sealpin(here, ['key', 'rotate', '--quiet', ...flags], folder);
      await store('encrypt', 'letter.txt', '--name', `${day}.txt`);
    }
    await bringKey();
    expect(await names(there)).toEqual({ names: ['third.txt', 'second.txt', 'first.txt'], said: '' });
  },
);

test('no name goes out without a public key, or where it is not to', async () => {
  await store('encrypt', 'letter.txt', '--unnamed');
  await store('send', 'letter.txt', '--unnamed');
  await rm(join(here.home, 'public.key'));
  await store('encrypt', 'letter.txt');
  expect((await here.files.list()).files.filter(({ details }) => details !== undefined)).toEqual([]);
  const refused = await sealpin(here, ['encrypt', 'letter.txt', '--unnamed', '--output', 'x'], folder);
  expect(refused).toMatchObject({ exit: 2, stderr: expect.stringContaining('--unnamed has no effect with --output') });
});

test('a file is stored also where its name cannot be sealed, and that is said', async () => {
  await writeFile(join(here.home, 'public.key'), 'no key\n');
  const { stderr } = await sealpin(here, ['encrypt', 'letter.txt'], folder);
  expect(stderr).toContain('the name of letter.txt is kept on this computer only: ');
  expect((await names(here)).names).toEqual(['letter.txt']);
});

test.each([
  { kind: 'post-quantum', make: async () => (await generateKeys({ postQuantum: true })).recipient },
  { kind: 'X25519', make: async () => 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj' },
])('of a public.key of the kind $kind names stay here, which is said in plain words', async ({ make }) => {
  await writeFile(join(here.home, 'public.key'), await make());
  const { exit, stderr } = await sealpin(here, ['send', 'letter.txt'], folder);
  expect(exit, stderr).toBe(0);
  expect(stderr).toContain('letter.txt is kept on this computer only: a service keeps names for a P-256 public.key');
  expect((await names(here)).names).toEqual(['letter.txt']);
  expect((await names(there)).names).toEqual(['-']);
});

test('a backup has them, and a restoration gives them back', async () => {
  await store('encrypt', 'letter.txt');
  const backup = join(folder, 'backup');
  expect((await sealpin(here, ['backup', backup], folder)).exit).toBe(0);
  const { url, account } = await sharedService();
  const other = await accountAt(url, account);
  await copyFile(join(here.home, 'private.key'), join(other.home, 'private.key'));
  const restored = await sealpin(other, ['restore', backup], folder);
  expect(restored.exit, restored.stderr).toBe(0);
  const [before] = (await here.files.list()).files;
  expect((await other.files.list()).files).toMatchObject([{ details: before?.details }]);
  expect((await names(other)).names).toEqual(['letter.txt']);
  expect(await readFile(join(other.home, 'private.key'))).toEqual(await readFile(join(here.home, 'private.key')));
});
