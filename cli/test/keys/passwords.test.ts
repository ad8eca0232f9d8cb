import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { wordlist } from '@scure/bip39/wordlists/english.js';
import { describe, expect, test } from 'vitest';
import { environmentPassword, givenPassword, newPassword } from '../../keys/passwords.ts';
import { timeText, strengthWarning } from '../../keys/strength.ts';
import { contextIn, temporaryDirectory } from '../environment.ts';

const none = { argument: undefined, 'password-file': undefined, generate: false, stdinTaken: false };
const strong = 'violet-anchor-tundra-42-mosaic';

describe('S56: a password', () => {
  test('on the command line is taken, with a word about who sees it', async () => {
    const context = contextIn('/', { env: { SEALPIN_PASSWORD: 'another' } });
    expect(await givenPassword({ ...none, argument: 'canary' }, context)).toBe('canary');
    expect(context.stderr.text).toBe(
      'sealpin: warning: a password on the command line is visible to other users and stays in your shell ' +
        'history; safer: --password-file, SEALPIN_PASSWORD or the prompt\n',
    );
  });

  test('on the command line of npm, which logs it, gets a sharper warning', async () => {
    const context = contextIn('/', { env: { npm_lifecycle_event: 'sealpin' } });
    expect(await givenPassword({ ...none, argument: 'canary' }, context)).toBe('canary');
    expect(context.stderr.text).toContain(
      'sealpin: warning: npm has written this password to its log files and shows it to other users until the ' +
        'command ends: choose another one, and run ./sealpin without npm\n',
    );
    expect(context.stderr.text).not.toContain('canary');
  });

  test.each([
    { title: 'as it is', content: 'pass word', want: 'pass word' },
    { title: 'without one newline at its end', content: 'pass word\n', want: 'pass word' },
    { title: 'without one CRLF at its end', content: 'pass word\r\n', want: 'pass word' },
    { title: 'with its other newlines', content: '\npass\nword\n\n', want: '\npass\nword\n' },
    { title: 'with its blanks', content: ' pass word \n', want: ' pass word ' },
    { title: 'with a byte order mark, which is a character like another', content: '\uFEFFpass', want: '\uFEFFpass' },
  ])('S41: comes from a file $title', async ({ content, want }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'p'), content, { mode: 0o600 });
    const context = contextIn(directory);
    expect(await givenPassword({ ...none, 'password-file': 'p' }, context)).toBe(want);
    expect(context.stderr.text).toBe('');
  });

  test('S41: comes from standard input with -', async () => {
    expect(await givenPassword({ ...none, 'password-file': '-' }, contextIn('/', { stdin: 'pass\n' }))).toBe('pass');
  });

  test('comes from SEALPIN_PASSWORD when nothing else is given', async () => {
    const context = contextIn('/', { env: { SEALPIN_PASSWORD: 'pass\n' } });
    expect(await givenPassword(none, context)).toBe('pass\n');
    expect(context.stderr.text).toBe('');
  });

  test('S57: in a file that is open to others causes a warning', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'p'), 'x', { mode: 0o644 });
    const context = contextIn(directory);
    await givenPassword({ ...none, 'password-file': 'p' }, context);
    expect(context.stderr.text).toContain(
      'p holds a password and is accessible to other users; fix it with: chmod 600 p',
    );
  });

  test('S41: that is not UTF-8 is refused, without its bytes in the error', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'p'), Buffer.from([0x63, 0x61, 0xff]), { mode: 0o600 });
    const error: unknown = await givenPassword({ ...none, 'password-file': 'p' }, contextIn(directory)).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ code: 'password_invalid', message: 'the password is not valid UTF-8' });
    expect((error as Error).cause).toBeUndefined();
  });

  test('S41: of more than 1 MiB is refused at once', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'p'), Buffer.alloc(1024 * 1024 + 1, 'x'), { mode: 0o600 });
    await expect(givenPassword({ ...none, 'password-file': 'p' }, contextIn(directory))).rejects.toMatchObject({
      code: 'file_unreadable',
      message: 'p is too large to be a password',
    });
  });

  test.each([
    {
      title: 'given twice',
      source: { ...none, argument: 'a', 'password-file': 'p' },
      says: 'the password is given twice: as an argument and with --password-file',
    },
    {
      title: 'and the file, both from standard input',
      source: { ...none, 'password-file': '-', stdinTaken: true },
      says: 'standard input cannot be both the file and the password',
    },
  ])('$title is misuse', async ({ source, says }) => {
    await expect(givenPassword(source, contextIn('/'))).rejects.toMatchObject({ code: 'usage', message: says });
  });

  test('whose bytes were not UTF-8 are refused, as different ones would be the same', async () => {
    const invalid = { code: 'password_invalid', message: 'the password is not valid UTF-8' };
    const password = 'gr\uFFFDtig-langes-wort-77';
    await expect(givenPassword({ ...none, argument: password }, contextIn('/'))).rejects.toMatchObject(invalid);
    const context = contextIn('/', { env: { SEALPIN_PASSWORD: password } });
    await expect(givenPassword(none, context)).rejects.toMatchObject(invalid);
    expect(() => environmentPassword(context)).toThrow(expect.objectContaining(invalid));
  });

  test('that nobody gave is misuse when there is no terminal', async () => {
    await expect(newPassword(none, 'blob', contextIn('/'))).rejects.toMatchObject({
      code: 'usage',
      message: 'a password is required, and there is no terminal to ask for it',
      hint: 'give it with --password-file or SEALPIN_PASSWORD',
    });
  });
});

describe('--generate', () => {
  test('makes ten words of the list, shown on stderr and different each time', async () => {
    const context = contextIn('/');
    const first = await newPassword({ ...none, generate: true }, 'blob', context);
    const words = first.split('-');
    expect(words).toHaveLength(10);
    expect(wordlist).toHaveLength(2048);
    for (const word of words) expect(wordlist).toContain(word);
    expect(context.stderr.text).toContain(`sealpin: password: ${first}\n`);
    expect(context.stdout.text).toBe('');
    expect(await newPassword({ ...none, generate: true }, 'blob', contextIn('/'))).not.toBe(first);
  });

  test('beside another password is misuse', async () => {
    await expect(newPassword({ ...none, argument: 'a', generate: true }, 'blob', contextIn('/'))).rejects.toMatchObject(
      {
        code: 'usage',
      },
    );
  });
});

describe('a weak password causes a warning', () => {
  test.each([
    { password: 'password1', says: /^this password is weak: .* would find it in less than a second/ },
    { password: 'Tr0ub4dor&3', says: /^this password is weak: .* would find it in about/ },
    { password: 'x9$Kp2!vQz7#', says: /^this password is (weak|short): / },
    { password: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', says: /^this password is weak: / },
  ])('$password', async ({ password, says }) => {
    const warning = await strengthWarning(password, 'blob');
    expect(warning).toMatch(says);
    expect(warning).not.toContain(password);
  });

  test.each([strong, 'correct horse battery staple', 'å'.repeat(7) + 'zwölf-Boxkämpfer-jagen-Viktor'])(
    '%s is not',
    async (password) => {
      expect(await strengthWarning(password, 'blob')).toBeUndefined();
    },
  );

  test('that says what it guards', async () => {
    const says = await Promise.all(
      (['blob', 'file', 'key', 'link'] as const).map(async (guarded) => [
        guarded,
        /an attacker (.*), and with 250 GPUs, would find it in less than a second(?:, and copies on (IPFS))?/
          .exec((await strengthWarning('letmein', guarded)) ?? '')
          ?.slice(1),
      ]),
    );
    expect(Object.fromEntries(says)).toEqual({
      blob: ['with a copy of the blob', 'IPFS'],
      file: ['with a copy of the file', undefined],
      key: ['with a copy of the key file', undefined],
      link: ['who has opened the link once', undefined],
    });
  });

  test('at the time when it is set', async () => {
    const context = contextIn('/', { env: { SEALPIN_PASSWORD: 'letmein' } });
    await newPassword(none, 'blob', context);
    expect(context.stderr.text).toContain('sealpin: warning: this password is weak');
  });

  test('in times that people know', () => {
    expect([0.1, 1, 90, 7200, 3600 * 24 * 40, 3e9, 1e30].map(timeText)).toEqual([
      'less than a second',
      'about 1 second',
      'about 2 minutes',
      'about 2 hours',
      'about 1 month',
      'about 95 years',
      'more than a million years',
    ]);
  });
});
