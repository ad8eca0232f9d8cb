import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import {
  encrypt,
  encryptDetached,
  generateKeyPair,
  open,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
  recipientFromSpki,
  type Format,
  type Recipient,
} from '../../shared/crypto/index.ts';
import { costs } from '../../shared/crypto/stanzas/password.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { readRecipients } from '../keys/key-files.ts';
import { contextIn, run, temporaryDirectory, type Overrides, type Ran } from './world.ts';

const password = 'some long password';
const env = { SEALPIN_PASSWORD: password };
const pair = await generateKeyPair(nodeBackend);
const other = await generateKeyPair(nodeBackend);

const byPassword = (logN = 10): Recipient => passwordRecipient(password, { name: 'scrypt', logN });

async function contain(text: string | Uint8Array, format: Format, ...recipients: Recipient[]): Promise<Buffer> {
  const { stream } = await encrypt(new Blob([typeof text === 'string' ? text : new Uint8Array(text)]).stream(), {
    format,
    recipients,
    backend: nodeBackend,
  });
  return Buffer.from(await new Response(stream).arrayBuffer());
}

/** Runs a command in a directory with the container as `./in`, and the user's private key where it belongs. */
async function unseal(
  container: Uint8Array,
  argv: readonly string[],
  overrides: Overrides = {},
  keys = pair,
): Promise<Ran & { directory: string; files: string[] }> {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'in'), container);
  await writeFile(join(directory, 'private.key'), keys.privatePem, { mode: 0o600 });
  await writeFile(join(directory, 'other.key'), other.privatePem, { mode: 0o600 });
  const ran = await run([...argv, '--data-dir', directory], directory, overrides);
  const files = (await readdir(directory)).filter((name) => !['in', 'private.key', 'other.key'].includes(name));
  return { ...ran, directory, files };
}

describe('decrypt opens', () => {
  test.each([
    {
      title: 'sealpin/v1 with the password of the environment',
      format: 'sealpin' as const,
      argv: ['decrypt', './in', 'out'],
      overrides: { env },
    },
    {
      title: 'age with the password as an argument',
      format: 'age' as const,
      argv: ['decrypt', './in', 'out', password],
      overrides: {},
    },
    {
      title: 'the container from standard input',
      format: 'age' as const,
      argv: ['decrypt', '-', 'out'],
      overrides: { env },
    },
    {
      title: 'with the password from standard input',
      format: 'sealpin' as const,
      argv: ['decrypt', './in', 'out', '--password-file', '-'],
      overrides: { stdin: `${password}\n` },
    },
  ])('$title', async ({ format, argv, overrides }) => {
    const container = await contain('plain text', format, byPassword());
    const ran = await unseal(container, argv, argv[1] === '-' ? { ...overrides, stdin: container } : overrides);
    expect(ran).toMatchObject({ exit: 0, stdout: '', files: ['out'] });
    expect(ran.stderr).toContain('sealpin: wrote out (10 B)\n');
    expect(await readFile(join(ran.directory, 'out'), 'utf8')).toBe('plain text');
    expect((await stat(join(ran.directory, 'out'))).mode & 0o777).toBe(0o600);
  });

  test('a container for keys with private.key of the data directory, when nothing is given', async () => {
    const ran = await unseal(
      await contain('plain text', 'age', recipientFromSpki(other.spki), recipientFromSpki(pair.spki)),
      ['decrypt', './in', 'out'],
    );
    expect(ran).toMatchObject({ exit: 0, files: ['out'] });
  });

  test('to standard output, byte for byte', async () => {
    const data = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 256));
    const ran = await unseal(await contain(data, 'sealpin', byPassword()), ['decrypt', './in', '-'], { env });
    expect(ran).toMatchObject({ exit: 0, stderr: '', files: [] });
    expect(ran.stdoutBytes.equals(data)).toBe(true);
  });

  test('S60: with a clock that is wrong by decades', async () => {
    for (const now of [() => 0, () => Date.parse('2199-01-01')]) {
      expect(
        await unseal(await contain('plain text', 'sealpin', byPassword()), ['decrypt', './in', '-'], { env, now }),
      ).toMatchObject({ exit: 0, stdout: 'plain text' });
    }
  });

  test('with --json: one object', async () => {
    const ran = await unseal(
      await contain('plain text', 'sealpin', byPassword()),
      ['decrypt', './in', 'out', '--json'],
      { env },
    );
    expect(ran).toMatchObject({ exit: 0, stderr: '' });
    expect(JSON.parse(ran.stdout)).toEqual({ output: join(ran.directory, 'out'), size: 10, encrypted: true });
  });
});

describe('what was given must be used', () => {
  test('a plain item is written when nothing was given, with a word about it', async () => {
    const ran = await unseal(Buffer.from('just text'), ['decrypt', './in', 'out']);
    expect(ran).toMatchObject({
      exit: 0,
      files: ['out'],
      stderr: 'sealpin: warning: ./in was not encrypted: it was written as it is\nsealpin: wrote out (9 B)\n',
    });
  });

  test.each([
    {
      title: 'a plain item with a password',
      container: async () => Buffer.from('just text'),
      argv: ['decrypt', './in', 'out'],
      overrides: { env },
      says: 'it is not encrypted, and a password or key was given: nothing was written\nsealpin: hint: leave the password or key out to fetch it as it is',
    },
    {
      title: 'an empty plain item with a password',
      container: async () => Buffer.alloc(0),
      argv: ['decrypt', './in', 'out'],
      overrides: { env },
      says: 'it is not encrypted',
    },
    {
      title: 'a plain item with a key',
      container: async () => Buffer.from('just text'),
      argv: ['ecc-decrypt', './in', 'out'],
      overrides: {},
      says: 'it is not encrypted',
    },
    {
      title: 'an item for keys with a password',
      container: async () => contain('x', 'age', recipientFromSpki(pair.spki)),
      argv: ['decrypt', './in', 'out'],
      overrides: { env },
      says: 'it is encrypted to keys, and a password was given\nsealpin: hint: use: sealpin ecc-decrypt',
    },
    {
      title: 'an item with a password with a key',
      container: async () => contain('x', 'sealpin', byPassword()),
      argv: ['ecc-decrypt', './in', 'out'],
      overrides: {},
      says: 'it is encrypted with a password, and a key was given\nsealpin: hint: use: sealpin decrypt',
    },
    {
      title: 'an empty password',
      container: async () => Buffer.from('just text'),
      argv: ['decrypt', './in', 'out', ''],
      overrides: {},
      says: 'the password is empty',
      exit: 2,
    },
  ])('$title is refused, and nothing is written', async ({ container, argv, overrides, says, exit = 1 }) => {
    const ran = await unseal(await container(), argv, overrides);
    expect(ran).toMatchObject({ exit, stdout: '', files: [] });
    expect(ran.stderr).toContain(says);
  });
});

describe('what cannot be opened leaves no file', () => {
  const flipped = async (at: (length: number) => number): Promise<Buffer> => {
    const container = await contain('x'.repeat(200_000), 'sealpin', byPassword());
    container[at(container.length)]! ^= 1;
    return container;
  };
  test.each([
    {
      title: 'S24, S92: a wrong password',
      container: async () => contain('x', 'sealpin', byPassword()),
      argv: ['decrypt', './in', 'out', 'another password'],
      says: 'Wrong password; nothing was written',
      hint: 'a lost password cannot be reset',
    },
    {
      title: 'S24, S92: a wrong key',
      container: async () => contain('x', 'age', recipientFromSpki(pair.spki)),
      argv: ['ecc-decrypt', './in', 'out', 'other.key'],
      says: 'None of the keys opens it; nothing was written',
      hint: 'name the private key that it was encrypted to',
    },
    {
      title: 'S48: a flipped bit in the last chunk',
      container: async () => flipped((length) => length - 20),
      argv: ['decrypt', './in', 'out', password],
      says: 'The data is damaged or cut off after byte 196608; nothing was written',
      hint: 'the password or key is right',
    },
    {
      title: 'S13: a flipped bit in the first chunk',
      container: async () => flipped((length) => length - 190_000),
      argv: ['decrypt', './in', 'out', password],
      says: 'The data is damaged after byte 0; nothing was written',
      hint: 'the password or key is right',
    },
    {
      title: 'S1: a container that is cut off',
      container: async () => (await contain('x'.repeat(200_000), 'age', byPassword())).subarray(0, -100_000),
      argv: ['decrypt', './in', 'out', password],
      says: 'The data is damaged or cut off after byte 65536; nothing was written',
      hint: 'the password or key is right',
    },
  ])('$title', async ({ container, argv, says, hint }) => {
    const ran = await unseal(await container(), [...argv, '--json']);
    expect(ran).toMatchObject({ exit: 1, stdout: '', files: [] });
    expect(JSON.parse(ran.stderr)).toMatchObject({
      code: 'decrypt_failed',
      status: 422,
      detail: says,
      hint: expect.stringContaining(hint) as unknown,
    });
  });

  test('S1: a truncated container', async () => {
    const container = await contain('x'.repeat(200_000), 'sealpin', byPassword());
    const ran = await unseal(container.subarray(0, -1000), ['decrypt', './in', 'out'], { env });
    expect(ran).toMatchObject({ exit: 1, stdout: '', files: [] });
  });

  test.each(['sealpin/v2\n', 'age-encryption.org/v2\n'])(
    'S18: the unknown version %j is never taken for plain',
    async (line) => {
      const ran = await unseal(Buffer.from(`${line}-> x\n`), ['decrypt', './in', 'out']);
      expect(ran).toMatchObject({ exit: 1, stdout: '', files: [] });
      expect(ran.stderr).toContain('a newer sealpin may be able to read it');
    },
  );

  test("the payload of the service's encrypted mode is refused, naming the route", async () => {
    const { payload } = await encryptDetached(new Blob(['x']).stream(), {
      recipient: recipientFromSpki(pair.spki),
      backend: nodeBackend,
    });
    const ran = await unseal(Buffer.from(await new Response(payload).arrayBuffer()), ['decrypt', './in', 'out']);
    expect(ran).toMatchObject({ exit: 1, stdout: '', files: [] });
    expect(ran.stderr).toContain('GET /v1/storage/<fileId>');
  });

  test('S14: to standard output, authentic chunks come out, and exit 1 says that it is a part', async () => {
    const container = await flipped((length) => length - 20);
    const ran = await unseal(container, ['decrypt', './in', '-'], { env });
    expect(ran.exit).toBe(1);
    expect(ran.stderr).toContain('what came out is only a part');
    expect(ran.stdoutBytes.length).toBeLessThan(200_000);
    expect(ran.stdoutBytes.equals(Buffer.alloc(ran.stdoutBytes.length, 'x'))).toBe(true);
  });
});

describe('files', () => {
  test('S45: an existing output is refused before anything is read', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'out'), 'old');
    expect(await run(['decrypt', './in', 'out', '--data-dir', directory], directory, { env })).toMatchObject({
      exit: 1,
      stderr: 'sealpin: error: out exists\nsealpin: hint: use --force to replace it\n',
    });
  });

  test('S45: with --force a failure leaves the old one', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'out'), 'old');
    await writeFile(join(directory, 'in'), await contain('x', 'sealpin', byPassword()));
    expect(
      (await run(['decrypt', './in', 'out', 'wrong password', '--force', '--data-dir', directory], directory)).exit,
    ).toBe(1);
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('old');
    expect((await run(['decrypt', './in', 'out', password, '--force', '--data-dir', directory], directory)).exit).toBe(
      0,
    );
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('x');
  });

  test('S46: the container is not overwritten by its content', async () => {
    const container = await contain('x', 'sealpin', byPassword());
    const ran = await unseal(container, ['decrypt', './in', './in', '--force'], { env });
    expect(ran).toMatchObject({ exit: 2 });
    expect(ran.stderr).toContain('./in is the input too');
    expect((await readFile(join(ran.directory, 'in'))).equals(container)).toBe(true);
  });

  test('S66: what is neither a blob ID nor a path is refused, with a word about paths', async () => {
    const ran = await unseal(Buffer.from('x'), ['decrypt', 'in', 'out'], { env });
    expect(ran).toMatchObject({ exit: 2, stdout: '', files: [] });
    expect(ran.stderr).toContain('a container on this machine is named with a slash: ./file');
  });

  test('--json and a file to standard output do not go together', async () => {
    expect(await unseal(Buffer.from('x'), ['decrypt', './in', '-', '--json'])).toMatchObject({ exit: 2, stdout: '' });
  });
});

describe('private keys', () => {
  const toPair = (): Promise<Buffer> => contain('plain text', 'age', recipientFromSpki(pair.spki));

  test('another file than that of the data directory', async () => {
    expect(
      await unseal(await contain('x', 'age', recipientFromSpki(other.spki)), [
        'ecc-decrypt',
        './in',
        'out',
        'other.key',
      ]),
    ).toMatchObject({ exit: 0, files: ['out'] });
  });

  test('from standard input', async () => {
    expect(
      await unseal(await toPair(), ['ecc-decrypt', './in', 'out', '-'], { stdin: pair.privatePem }, other),
    ).toMatchObject({ exit: 0, files: ['out'] });
  });

  test('none there: says that a new one does not help', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), await toPair());
    const ran = await run(['ecc-decrypt', './in', 'out', '--data-dir', directory], directory);
    expect(ran).toMatchObject({
      exit: 1,
      stderr: `sealpin: error: there is no private key in ${directory}\nsealpin: hint: name the private key that it was encrypted to, or copy it to there; a new pair opens only what is encrypted to it\n`,
    });
  });

  test('S57: one that is open to others is told of', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), await toPair());
    await writeFile(join(directory, 'private.key'), pair.privatePem);
    await chmod(join(directory, 'private.key'), 0o644);
    const ran = await run(['ecc-decrypt', './in', 'out', '--data-dir', directory], directory);
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toContain(`warning: ${directory}/private.key is open to other users; close it with: chmod 600`);
  });

  test.each([
    { title: 'a public key', text: pair.publicPem },
    { title: 'something else', text: 'hello' },
    { title: 'nothing', text: '' },
  ])('$title in its place is refused by name, without its content', async ({ text }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), await toPair());
    await writeFile(join(directory, 'k'), text, { mode: 0o600 });
    const ran = await run(['ecc-decrypt', './in', 'out', 'k', '--data-dir', directory], directory);
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain('sealpin: error: k: ');
    if (text !== '') expect(ran.stderr).not.toContain(text.split('\n').at(-2) ?? text);
  });

  test.each([
    { title: 'a directory', key: '.', says: '. is a directory' },
    { title: 'a file that is missing', key: 'none', says: 'there is no file none' },
    { title: 'a device', key: '/dev/null', says: '/dev/null is not a regular file' },
    { title: 'a file that is too large', key: 'large', says: 'large is too large to be a private key' },
    { title: 'an empty name', key: '', says: 'the name of the file of a private key is empty' },
  ])('$title in the place of a key is misuse, and no advice for files to encrypt follows', async ({ key, says }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), await toPair());
    await writeFile(join(directory, 'large'), Buffer.alloc(2 ** 20 + 1, 'x'), { mode: 0o600 });
    const ran = await run(['ecc-decrypt', './in', 'out', key, '--data-dir', directory], directory);
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(`sealpin: error: ${says}`);
    expect(ran.stderr).not.toMatch(/tar|pipe it/);
    await expect(readRecipients([key], contextIn(directory))).rejects.toMatchObject({ code: 'key_invalid' });
  });

  test('a key file that is binary is refused', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), await toPair());
    await writeFile(join(directory, 'k'), Buffer.from([0xff, 0xfe]), { mode: 0o600 });
    expect(await run(['ecc-decrypt', './in', 'out', 'k', '--data-dir', directory], directory)).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining('k is not a key file') as unknown,
    });
  });
});

describe('protected private keys', () => {
  async function protectedKey(): Promise<{ directory: string }> {
    const directory = await temporaryDirectory();
    const made = await run(['keygen', '--protect', '--data-dir', directory], directory, { env });
    expect(made.exit).toBe(0);
    const recipients = parseRecipients(await readFile(join(directory, 'public.key'), 'utf8'));
    await writeFile(join(directory, 'in'), await contain('plain text', 'age', ...recipients));
    return { directory };
  }

  test('open with their password, from the environment or a file, and no other way', async () => {
    const { directory } = await protectedKey();
    const bytes = await readFile(join(directory, 'private.key'));
    expect(bytes.toString('latin1')).toMatch(/^age-encryption\.org\/v1\n-> scrypt /);
    expect((await stat(join(directory, 'private.key'))).mode & 0o777).toBe(0o600);
    const decrypt = (argv: string[], overrides: Overrides = {}) =>
      run(['ecc-decrypt', './in', '-', '--data-dir', directory, ...argv], directory, overrides);
    expect(await decrypt([], { env })).toMatchObject({ exit: 0, stdout: 'plain text' });
    expect(await decrypt(['--password-file', '-'], { stdin: password })).toMatchObject({
      exit: 0,
      stdout: 'plain text',
    });
    expect(await decrypt([])).toMatchObject({
      exit: 2,
      stdout: '',
      stderr: expect.stringContaining('there is no terminal to ask at') as unknown,
    });
    const wrong = await decrypt([], { env: { SEALPIN_PASSWORD: 'another password' } });
    expect(wrong).toMatchObject({ exit: 1, stdout: '' });
    expect(wrong.stderr).toContain(`${directory}/private.key: Wrong password`);
  });

  test('are protected at the cost that the core writes, where nothing else is asked for', async () => {
    const directory = await temporaryDirectory();
    const made = await run(['keygen', '--protect', '--data-dir', directory], directory, { env, scryptLogN: undefined });
    expect(made.exit).toBe(0);
    const [, stanza] = (await readFile(join(directory, 'private.key'), 'latin1')).split('\n');
    expect(stanza).toMatch(new RegExp(`^-> scrypt \\S+ ${costs.scrypt.default}$`));
  });

  test('may be in a container of Sealpin as well, and in armor after an empty line', async () => {
    const { directory } = await protectedKey();
    const age = await readFile(join(directory, 'private.key'));
    const decrypt = () => run(['ecc-decrypt', './in', '-', '--data-dir', directory], directory, { env });
    const lines = age.toString('base64').match(/.{1,64}/g)!;
    await writeFile(
      join(directory, 'private.key'),
      `\n-----BEGIN AGE ENCRYPTED FILE-----\n${lines.join('\n')}\n-----END AGE ENCRYPTED FILE-----\n`,
    );
    expect(await decrypt()).toMatchObject({ exit: 0, stdout: 'plain text' });
    const opened = await open(new Blob([age]).stream());
    if (!('decrypt' in opened)) throw new Error('it is no container');
    const text = await new Response(await opened.decrypt([passwordIdentity(password)])).text();
    await writeFile(join(directory, 'private.key'), await contain(text, 'sealpin', byPassword()));
    expect(await decrypt()).toMatchObject({ exit: 0, stdout: 'plain text' });
  });

  test('that need more memory than is free are refused before it is taken', async () => {
    const directory = await temporaryDirectory();
    const header = `age-encryption.org/v1\n-> scrypt ${'A'.repeat(22)} 22\n${'A'.repeat(43)}\n--- ${'A'.repeat(43)}\n`;
    await writeFile(join(directory, 'private.key'), header, { mode: 0o600 });
    await writeFile(join(directory, 'in'), await contain('x', 'age', recipientFromSpki(pair.spki)));
    const free = vi.spyOn(process, 'availableMemory').mockReturnValue(3 * 2 ** 30);
    try {
      const ran = await run(['ecc-decrypt', './in', '-', '--data-dir', directory], directory, { env });
      expect(ran).toMatchObject({ exit: 1, stdout: '' });
      expect(ran.stderr).toContain('needs 4097 MiB of memory, and this machine has 3072 MiB free');
    } finally {
      free.mockRestore();
    }
  });

  test('a password without --protect is misuse', async () => {
    const directory = await temporaryDirectory();
    expect(await run(['keygen', '--generate', '--data-dir', directory], directory)).toMatchObject({
      exit: 2,
      stdout: '',
    });
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('keygen', () => {
  test('S57, S92: makes a pair in the data directory, the private key 0600, prints the recipient, and says that it cannot be recreated', async () => {
    const directory = join(await temporaryDirectory(), 'home');
    const ran = await run(['keygen', '--data-dir', directory], '/');
    expect(ran.exit).toBe(0);
    expect(ran.stdout).toMatch(/^age1tag1[02-9a-z]+\n$/);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, 'private.key'))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(directory, 'public.key'), 'utf8')).toContain(ran.stdout);
    expect(await readdir(directory)).toHaveLength(2);
    expect(ran.stderr).toContain('keep it secret and back it up: it cannot be recreated');
  });

  test('S57: never overwrites a pair, or half of one, without --force', async () => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'a'));
    await writeFile(join(directory, 'a', 'public.key'), 'old');
    const refused = await run(['keygen', '--output', 'a', '--data-dir', directory], directory);
    expect(refused).toMatchObject({ exit: 1, stdout: '' });
    expect(refused.stderr).toContain('public.key exists');
    expect(await readdir(join(directory, 'a'))).toEqual(['public.key']);
    expect((await run(['keygen', '--output', 'a', '--force', '--data-dir', directory], directory)).exit).toBe(0);
    expect(await readFile(join(directory, 'a', 'public.key'), 'utf8')).not.toBe('old');
  });
});
