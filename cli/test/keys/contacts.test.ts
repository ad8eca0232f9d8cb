import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parcelSigner } from '../../../shared/crypto/index.ts';
import { parseContactName } from '../../keys/contacts.ts';
import { fingerprint } from '../../keys/fingerprint.ts';
import { holdFolder } from '../../io/held-folder.ts';
import { other, pair } from '../containers.ts';
import { type Ran, run, temporaryDirectory } from '../environment.ts';
import { present } from '../../../testkit/present.ts';

async function contacts(home: string): Promise<Record<string, string[]>> {
  const text = await readFile(join(home, 'contacts', 'contacts.json'), 'utf8');
  return (JSON.parse(text) as { contacts: Record<string, string[]> }).contacts;
}

describe('contacts', () => {
  test('that many commands add at once are all there', async () => {
    const home = await temporaryDirectory();
    const names = Array.from({ length: 12 }, (_, index) => `name${index}`);
    const added = await Promise.all(
      names.map((name) => run(['contact', 'add', name, pair.recipient, '--data-dir', home], home)),
    );
    expect(added.map(({ exit }) => exit)).toEqual(names.map(() => 0));
    expect(Object.keys(await contacts(home)).toSorted()).toEqual(names.toSorted());
    expect((await stat(join(home, 'contacts', 'contacts.json'))).mode & 0o777).toBe(0o600);
    expect((await readdir(join(home, 'contacts'))).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  test('may have names that every object inherits, which stay', async () => {
    const home = await temporaryDirectory();
    const names = ['ann', 'constructor', 'prototype', 'toString'];
    for (const name of names)
      expect(await run(['contact', 'add', name, pair.recipient, '--data-dir', home], home)).toMatchObject({ exit: 0 });
    const listed = await run(['contact', 'list', '--data-dir', home, '--json'], home);
    const shown = (JSON.parse(listed.stdout) as { contacts: { name: string }[] }).contacts.map(({ name }) => name);
    expect(shown.toSorted()).toEqual(names.toSorted());
  });

  test('wait for another command, and change nothing while it has them', async () => {
    const home = await temporaryDirectory();
    const held = await holdFolder(join(home, 'contacts'), home);
    const adding = run(['contact', 'add', 'ann', pair.recipient, '--data-dir', home], home);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await expect(contacts(home)).rejects.toMatchObject({ code: 'ENOENT' });
    present(held).release();
    expect(await adding).toMatchObject({ exit: 0 });
    expect(await contacts(home)).toEqual({ ann: [pair.recipient] });
  });

  test.each(['{', '{"v":2,"contacts":{}}', '{"v":1,"contacts":{"ann":[]}}'])(
    'in a damaged file are never overwritten: %s',
    async (text) => {
      const home = await temporaryDirectory();
      await mkdir(join(home, 'contacts'));
      await writeFile(join(home, 'contacts', 'contacts.json'), text);
      for (const argv of [['add', 'ann', pair.recipient, '--force'], ['list'], ['remove', 'ann']]) {
        const ran = await run(['contact', ...argv, '--data-dir', home], home);
        expect(ran).toMatchObject({ exit: 1, stdout: '' });
        expect(ran.stderr).toContain('contacts.json is damaged');
      }
      expect(await readFile(join(home, 'contacts', 'contacts.json'), 'utf8')).toBe(text);
    },
  );

  test('may have several keys, and a file is encrypted to all of them', async () => {
    const home = await temporaryDirectory();
    await writeFile(join(home, 'keys.pub'), `${pair.publicPem}${other.publicPem}`);
    await writeFile(join(home, 'other.key'), other.privatePem, { mode: 0o600 });
    await writeFile(join(home, 'letter'), 'Dear Ann');
    const added = await run(['contact', 'add', 'ann', 'keys.pub', '--json', '--data-dir', home], home);
    expect(JSON.parse(added.stdout)).toEqual({
      name: 'ann',
      keys: await Promise.all(
        [pair.recipient, other.recipient].map(async (recipient) => ({
          recipient,
          fingerprint: await fingerprint(recipient),
        })),
      ),
    });
    await run(['ecc-encrypt', 'letter', 'ann', '--output', 'c', '--data-dir', home], home);
    expect(await run(['ecc-decrypt', './c', '-', 'other.key'], home)).toMatchObject({ exit: 0, stdout: 'Dear Ann' });
  });

  test('with a private key are refused, and the key is not repeated', async () => {
    const home = await temporaryDirectory();
    await writeFile(join(home, 'private.pem'), pair.privatePem, { mode: 0o600 });
    const ran = await run(['contact', 'add', 'ann', 'private.pem', '--data-dir', home], home);
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(await readdir(home)).toEqual(['private.pem']);
  });
});

type Keys = { readonly recipients: readonly string[]; readonly signers: readonly string[] };
const [signer, otherSigner] = [7, 9].map((byte) => parcelSigner(new Uint8Array(32).fill(byte)).text) as [
  string,
  string,
];
const noKeys: Keys = { recipients: [], signers: [] };
/** Every contact that there may be, and every file that may be given. */
const known: Keys[] = [[], [pair.recipient]].flatMap((recipients) =>
  [[], [signer]].map((signers) => ({ recipients, signers })),
);
const given: Keys[] = [[], [other.recipient]]
  .flatMap((recipients) => [[], [signer], [otherSigner]].map((signers) => ({ recipients, signers })))
  .filter(({ recipients, signers }) => recipients.length + signers.length > 0);
const textOf = ({ recipients, signers }: Keys): string =>
  [...recipients, ...signers.map((each) => (recipients.length > 0 ? `# signer: ${each}` : each))].join('\n');
/** Gives Ann keys: a file, or a signer alone. */
async function add(home: string, keys: Keys, ...flags: string[]): Promise<Ran> {
  await writeFile(join(home, 'keys.pub'), textOf(keys));
  const file = keys.recipients.length > 0 ? 'keys.pub' : textOf(keys);
  return run(['contact', 'add', 'ann', file, ...flags, '--data-dir', home], home);
}
async function listed(home: string): Promise<Keys & { names: string[] }> {
  const { stdout } = await run(['contact', 'list', '--json', '--data-dir', home], home);
  type Shown = { name: string; keys: { recipient: string }[]; signers?: { signer: string }[] };
  const shown = (JSON.parse(stdout) as { contacts: Shown[] }).contacts;
  return {
    names: shown.map(({ name }) => name),
    recipients: shown.flatMap(({ keys }) => keys.map(({ recipient }) => recipient)),
    signers: shown.flatMap(({ signers = [] }) => signers.map((each) => each.signer)),
  };
}
const cases = known.flatMap((before) =>
  given.map((added) => ({
    of: `${textOf(before)}|${textOf(added)}`.replaceAll(/(\w{3})\w{40,}(\w{3})/g, '$1…$2'),
    before,
    added,
  })),
);

describe.each(cases)('a contact that has, and is given: $of', ({ before, added }) => {
  async function contact(): Promise<string> {
    const home = await temporaryDirectory();
    if (before.recipients.length + before.signers.length > 0)
      expect(await add(home, before)).toMatchObject({ exit: 0 });
    return home;
  }

  test('is completed, or stays as it is', async () => {
    const home = await contact();
    const ran = await add(home, added);
    const isOther =
      (before.recipients.length > 0 && added.recipients.length > 0) ||
      (before.signers.length > 0 && added.signers.length > 0 && added.signers[0] !== before.signers[0]);
    expect(ran.exit, ran.stderr).toBe(isOther ? 1 : 0);
    const more = isOther ? noKeys : added;
    expect(await listed(home)).toEqual({
      names: ['ann'],
      recipients: [...before.recipients, ...more.recipients],
      signers: [...new Set([...before.signers, ...more.signers])],
    });
  });

  test('is replaced as a whole by force, and what it loses is said', async () => {
    const home = await contact();
    const ran = await add(home, added, '--force');
    expect(ran, ran.stderr).toMatchObject({ exit: 0 });
    expect(await listed(home)).toEqual({ names: ['ann'], ...added });
    const said = ran.stderr.replaceAll(/\s+/g, ' ');
    for (const [words, keys, left] of [
      ['no longer has the fingerprint', before.recipients, added.recipients],
      ['no longer signs as', before.signers, added.signers],
    ] as const)
      for (const key of keys)
        if (left.includes(key)) expect(said).not.toContain(words);
        else expect(said).toContain(`ann ${words} ${await fingerprint(key)}`);
  });
});

test('a contact has no second spelling, and by force the new one replaces it in both files', async () => {
  const home = await temporaryDirectory();
  const both = { recipients: [pair.recipient], signers: [signer] };
  await add(home, both);
  for (const key of [other.recipient, otherSigner]) {
    const ran = await run(['contact', 'add', 'Ann', key, '--data-dir', home], home);
    expect(ran).toMatchObject({ exit: 1, stderr: expect.stringContaining('there is a contact ann') as string });
  }
  expect(await listed(home)).toEqual({ names: ['ann'], ...both });
  await run(['contact', 'add', 'Ann', other.recipient, '--force', '--data-dir', home], home);
  expect(await listed(home)).toEqual({ names: ['Ann'], recipients: [other.recipient], signers: [] });
});

test('nothing of a contact is stored, or removed, where its signers are damaged', async () => {
  const home = await temporaryDirectory();
  await add(home, { recipients: [pair.recipient], signers: [signer] });
  await writeFile(join(home, 'signers', 'signers.json'), '{');
  for (const ran of [
    await add(home, { recipients: [other.recipient], signers: [otherSigner] }, '--force'),
    await run(['contact', 'remove', 'ann', '--data-dir', home], home),
  ])
    expect(ran.stderr).toContain('signers.json is damaged');
  expect(await contacts(home)).toEqual({ ann: [pair.recipient] });
});

test.each(['Zoë', 'ann@example.com', '李', 'a.b_c+d-e', 'x'.repeat(64)])('%s can be the name of a contact', (name) => {
  expect(parseContactName(name.normalize('NFD'))).toBe(name.normalize('NFC'));
});

test.each(['', '.', '-', '-x', '../x', 'a/b', 'a b', 'age1ann', '@x', 'x'.repeat(65), 'a\u202Eb', 'a\n'])(
  '%j cannot be the name of a contact',
  (name) => {
    expect(() => parseContactName(name)).toThrow('cannot be the name of a contact');
  },
);

test('different keys have different fingerprints of six words', async () => {
  const [one, two] = await Promise.all([fingerprint(pair.recipient), fingerprint(other.recipient)]);
  expect(one).toMatch(/^[a-z]+(-[a-z]+){5}$/);
  expect(one).not.toBe(two);
});
