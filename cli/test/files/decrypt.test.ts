import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { encryptDetached, recipientFromSpki } from '../../../shared/crypto/index.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { byPassword, contain, env, other, pair, password, unseal } from '../containers.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { flip } from '../../../testkit/present.ts';

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
      says:
        'it is not encrypted, and a password or key was given: nothing was written\n' +
        'sealpin: hint: omit the password or key to fetch it unchanged',
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
      says: 'it is encrypted to keys, and a password was given\nsealpin: hint: leave the password out',
    },
    {
      title: 'an item with a password with a key',
      container: async () => contain('x', 'sealpin', byPassword()),
      argv: ['ecc-decrypt', './in', 'out'],
      overrides: {},
      says: 'it is encrypted with a password, and a key was given\nsealpin: hint: use sealpin decrypt without a key',
    },
    {
      title: 'an empty password',
      container: async () => Buffer.from('just text'),
      argv: ['decrypt', './in', 'out', ''],
      overrides: {},
      says: '<password> is empty',
      exit: 2,
    },
  ])('$title is refused, and nothing is written', async ({ container, argv, overrides, says, exit = 4 }) => {
    const ran = await unseal(await container(), argv, overrides);
    expect(ran).toMatchObject({ exit, stdout: '', files: [] });
    expect(ran.stderr).toContain(says);
  });
});

describe('what cannot be opened leaves no file', () => {
  const flipped = async (at: (length: number) => number): Promise<Buffer> => {
    const container = await contain('x'.repeat(200_000), 'sealpin', byPassword());
    flip(container, at(container.length));
    return container;
  };
  test.each([
    {
      title: 'S24, S92: a wrong password',
      container: async () => contain('x', 'sealpin', byPassword()),
      argv: ['decrypt', './in', 'out', 'another password'],
      says: 'wrong password; nothing was written',
      hint: 'a lost password cannot be reset',
    },
    {
      title: 'S24, S92: a wrong key',
      container: async () => contain('x', 'age', recipientFromSpki(pair.spki)),
      argv: ['ecc-decrypt', './in', 'out', 'other.key'],
      says: 'none of the keys opens it: it is encrypted to another one; nothing was written',
      hint: 'what was tried opens files to age1tag1',
    },
    {
      title: 'S48: a flipped bit in the last chunk',
      container: async () => flipped((length) => length - 20),
      argv: ['decrypt', './in', 'out', password],
      says: 'the data is damaged or cut off after byte 196608; nothing was written',
      hint: 'the password or key is right',
    },
    {
      title: 'S13: a flipped bit in the first chunk',
      container: async () => flipped((length) => length - 190_000),
      argv: ['decrypt', './in', 'out', password],
      says: 'the data is damaged after byte 0; nothing was written',
      hint: 'the password or key is right',
    },
    {
      title: 'S1: a container that is cut off',
      container: async () => (await contain('x'.repeat(200_000), 'age', byPassword())).subarray(0, -100_000),
      argv: ['decrypt', './in', 'out', password],
      says: 'the data is damaged or cut off after byte 65536; nothing was written',
      hint: 'the password or key is right',
    },
  ])('$title', async ({ container, argv, says, hint }) => {
    const ran = await unseal(await container(), [...argv, '--json']);
    expect(ran).toMatchObject({ exit: hint.includes('is right') ? 5 : 4, stdout: '', files: [] });
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
    expect(ran).toMatchObject({ exit: 5, stdout: '', files: [] });
  });

  test('a header that is cut off, which says that the file is', async () => {
    const cut = (await contain('x', 'sealpin', byPassword())).subarray(0, 60);
    const ran = await unseal(Buffer.from(cut), ['decrypt', './in', 'out'], { env });
    expect(ran).toMatchObject({ exit: 5, stdout: '', files: [] });
    expect(ran.stderr).toContain('the header ends early\nsealpin: hint: the file is cut off: get it again\n');
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
      provider: nodeProvider,
    });
    const ran = await unseal(Buffer.from(await new Response(payload).arrayBuffer()), ['decrypt', './in', 'out']);
    expect(ran).toMatchObject({ exit: 4, stdout: '', files: [] });
    expect(ran.stderr).toContain('sealpin decrypt <file_id>');
  });

  test('S14: to standard output, authentic chunks come out, and exit 1 says that it is a part', async () => {
    const container = await flipped((length) => length - 20);
    const ran = await unseal(container, ['decrypt', './in', '-'], { env });
    expect(ran.exit).toBe(5);
    expect(ran.stderr).toContain('the output is incomplete');
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
    ).toBe(4);
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

  test('S66: what is neither a blob ID nor a file is refused', async () => {
    const ran = await unseal(Buffer.from('x'), ['decrypt', 'no-file', 'out'], { env });
    expect(ran).toMatchObject({ exit: 2, stdout: '', files: [] });
    expect(ran.stderr).toContain('there is no file of that name either');
  });

  test('a file of this directory is opened without a slash, and a blob ID is never taken for one', async () => {
    const container = Buffer.from(await contain('plain text', 'sealpin', byPassword()));
    const ran = await unseal(container, ['decrypt', 'in', '-'], { env });
    expect(ran).toMatchObject({ exit: 0, stdout: 'plain text' });
    const blobId = `bafkrei${'a'.repeat(52)}`;
    await writeFile(join(ran.directory, blobId), container);
    const asked = await run(['decrypt', blobId, '-', '--service', 'http://127.0.0.1:1'], ran.directory, { env });
    expect(asked.stderr).toContain('127.0.0.1:1');
  });

  test('--json and a file to standard output do not go together', async () => {
    expect(await unseal(Buffer.from('x'), ['decrypt', './in', '-', '--json'])).toMatchObject({ exit: 2, stdout: '' });
  });
});
