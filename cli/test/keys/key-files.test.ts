import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { open, parseRecipients, passwordIdentity, recipientFromSpki } from '../../../shared/crypto/index.ts';
import { costs } from '../../../shared/crypto/stanzas/password.ts';
import { readRecipients } from '../../keys/key-files.ts';
import { byPassword, contain, env, other, pair, password, unseal } from '../containers.ts';
import { contextIn, run, temporaryDirectory, type Overrides } from '../environment.ts';
import { present } from '../../../testkit/present.ts';

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
      exit: 3,
      stderr:
        `sealpin: error: there is no private key in ${directory}\n` +
        'sealpin: hint: name the private key that the file was encrypted to, or copy it there; a new pair ' +
        'does not open older files\n',
    });
  });

  test('S57: one that is open to others causes a warning', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), await toPair());
    await writeFile(join(directory, 'private.key'), pair.privatePem);
    await chmod(join(directory, 'private.key'), 0o644);
    const ran = await run(['ecc-decrypt', './in', 'out', '--data-dir', directory], directory);
    expect(ran.exit).toBe(0);
    expect(ran.stderr).toContain(
      `warning: ${directory}/private.key is accessible to other users; fix it with: chmod 600`,
    );
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
  ])('$title instead of a key is misuse, and no advice for files to encrypt follows', async ({ key, says }) => {
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
      stderr: expect.stringContaining('there is no terminal to ask for it') as unknown,
    });
    const wrong = await decrypt([], { env: { SEALPIN_PASSWORD: 'another password' } });
    expect(wrong).toMatchObject({ exit: 4, stdout: '' });
    expect(wrong.stderr).toContain(`${directory}/private.key: wrong password`);
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
    const lines = present(age.toString('base64').match(/.{1,64}/g));
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
      expect(ran.stderr).toContain('needs 4097 MiB of memory; this machine has 3072 MiB free');
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
  test('S57, S92: makes a pair, the private key 0600, and says that it cannot be recreated', async () => {
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
