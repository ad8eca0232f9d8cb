import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseContactName } from '../../keys/contacts.ts';
import { fingerprint } from '../../keys/fingerprint.ts';
import { holdFolder } from '../../io/held-folder.ts';
import { other, pair } from '../containers.ts';
import { run, temporaryDirectory } from '../environment.ts';
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
