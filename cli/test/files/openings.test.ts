/** What is encrypted for each kind of recipient opens in every way that the manual names. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateX25519Identity, identityToRecipient, generateHybridIdentity } from 'age-encryption';
import { installed, programPath, withProgram } from '../../../testkit/programs/programs.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';

const text = 'Dear Ann\n';
const password = 'violet-anchor-tundra-mosaic';
const contrib = join(import.meta.dirname, '../../../contrib');

/** Who a file is encrypted to: what `--to` gets, and the file with the private key. */
const people = {
  'a public.key': { to: 'ann/public.key', key: 'ann/private.key' },
  'a recipient of keygen': { to: '', key: 'ann/private.key' },
  'a contact': { to: 'friend', key: 'ann/private.key' },
  'a post-quantum public.key': { to: 'quantum/public.key', key: 'quantum/private.key' },
  'a PEM of OpenSSL': { to: 'pem/public.pem', key: 'pem/private.pem' },
  'a key of age-keygen': { to: '', key: 'age/key.txt' },
  'a post-quantum key of age-keygen': { to: '', key: 'age/pq.txt' },
};
type Kind = keyof typeof people;
const kinds = Object.keys(people) as Kind[];

let desk: string;
const sealpin = async (argv: readonly string[], stdin: Uint8Array | string = ''): Promise<Ran> => {
  const ran = await run([...argv, '--quiet', '--data-dir', 'home'], desk, {
    stdin,
    env: { SEALPIN_PASSWORD: password },
  });
  expect(ran.exit, `${argv.join(' ')}: ${ran.stderr}`).toBe(0);
  return ran;
};
const at = (name: string): string => join(desk, name);

beforeAll(async () => {
  desk = await mkdtemp(join(tmpdir(), 'sealpin-test-'));
  await writeFile(at('letter.txt'), text);
  for (const folder of ['pem', 'age']) await mkdir(at(folder));
  people['a recipient of keygen'].to = (await sealpin(['keygen', '--output', 'ann'])).stdout.trim();
  await sealpin(['contact', 'add', 'friend', 'ann/public.key']);
  await sealpin(['keygen', '--output', 'quantum', '--post-quantum']);
  execFileSync('openssl', [
    'genpkey',
    '-algorithm',
    'EC',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-out',
    at('pem/private.pem'),
  ]);
  execFileSync('openssl', ['pkey', '-in', at('pem/private.pem'), '-pubout', '-out', at('pem/public.pem')]);
  for (const [kind, identity] of [
    ['a key of age-keygen', await generateX25519Identity()],
    ['a post-quantum key of age-keygen', await generateHybridIdentity()],
  ] as const) {
    people[kind].to = await identityToRecipient(identity);
    await writeFile(at(people[kind].key), `# created: today\n${identity}\n`, { mode: 0o600 });
  }
  for (const kind of kinds) {
    await sealpin(['encrypt', 'letter.txt', '--to', people[kind].to, '--output', `${kind}.to.age`]);
    await sealpin(['ecc-encrypt', 'letter.txt', people[kind].to, '--output', `${kind}.ecc.age`]);
  }
  await sealpin(['encrypt', 'letter.txt', '--age', '--output', 'password.to.age']);
  await sealpin(['chacha-encrypt', 'letter.txt', '--output', 'password.ecc.age']);
});
afterAll(() => rm(desk, { recursive: true, force: true }));
const commands = ['to', 'ecc'];

test.each(kinds)('every command of ours opens a file to %s', async (kind) => {
  const { key } = people[kind];
  for (const command of commands) {
    const file = `./${kind}.${command}.age`;
    expect((await sealpin(['decrypt', file, '-', '--key', key])).stdout).toBe(text);
    expect((await sealpin(['ecc-decrypt', file, '-', key])).stdout).toBe(text);
    expect((await sealpin(['decrypt', '-', '-', '--key', key], await readFile(at(file)))).stdout).toBe(text);
    // As the private.key of somebody, who names none.
    const theirs = `data of ${kind}`;
    await mkdir(at(theirs), { recursive: true });
    await writeFile(at(`${theirs}/private.key`), await readFile(at(key)), { mode: 0o600 });
    expect(await run(['decrypt', file, '-', '--data-dir', theirs], desk)).toMatchObject({ exit: 0, stdout: text });
  }
});

test('one file to all of them opens for each', async () => {
  const others = kinds.filter((kind) => !kind.includes('post-quantum'));
  for (const [name, some, flags] of [
    ['all', kinds, ['--mix']],
    ['ordinary', others, []],
  ] as const) {
    // A contact and a key file name one key twice, which counts once.
    await sealpin([
      'encrypt',
      'letter.txt',
      '--to',
      some.map((kind) => people[kind].to).join(),
      ...flags,
      '--output',
      name,
    ]);
    for (const kind of some)
      expect((await sealpin(['decrypt', `./${name}`, '-', '--key', people[kind].key])).stdout).toBe(text);
  }
});

test('a password of --age opens what each command made', async () => {
  for (const command of commands)
    expect((await sealpin(['decrypt', `./password.${command}.age`, '-'])).stdout).toBe(text);
});

/** Which of the files each program opens by itself, as the manual says. */
const programs = {
  age: ['a key of age-keygen'],
  'age-current': ['a key of age-keygen', 'a post-quantum key of age-keygen'],
  rage: ['a key of age-keygen'],
} as const satisfies Record<string, readonly Kind[]>;

for (const [program, opens] of Object.entries(programs))
  withProgram(program, { probe: ['--version'], isOptional: program !== 'age' }, () => {
    test(`${program} opens what is encrypted to its keys, and with a password`, () => {
      for (const kind of opens)
        for (const command of commands) {
          const argv = ['-d', '-i', at(people[kind].key), at(`${kind}.${command}.age`)];
          expect(execFileSync(installed(program), argv, { encoding: 'utf8' })).toBe(text);
        }
      for (const command of commands) {
        const line = `'${installed(program)}' -d '${at(`password.${command}.age`)}'`;
        // It asks at a terminal only, which `script` gives it, and rage by a program of its own.
        const { status, stdout } = spawnSync('script', ['-qec', line, '/dev/null'], {
          input: `${password}\n`,
          encoding: 'utf8',
          env: { ...process.env, PINENTRY_PROGRAM: '' },
          timeout: 60_000,
        });
        expect({ status, opened: stdout.includes('Dear Ann') }, stdout).toEqual({ status: 0, opened: true });
      }
    });
  });

withProgram('cryptography-python', { probe: ['--version'], isOptional: true }, () => {
  test('rescue.py opens every one of them', () => {
    for (const kind of kinds) {
      const argv = [join(contrib, 'rescue.py'), '--key', at(people[kind].key), at(`${kind}.to.age`), '-'];
      const ran = spawnSync(installed('cryptography-python'), argv, { encoding: 'utf8' });
      expect({ kind, stdout: ran.stdout }, ran.stderr).toEqual({ kind, stdout: text });
    }
  });

  test.runIf(programPath('rage') !== undefined)('rage opens files to keys of keygen with the plugin', async () => {
    const folder = await temporaryDirectory();
    const plugin = join(contrib, 'age-plugin-sealpin');
    const python = `#!/bin/sh\nexec '${installed('cryptography-python')}' '${plugin}' "$@"\n`;
    await writeFile(join(folder, 'age-plugin-sealpin'), python, { mode: 0o755 });
    const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}` };
    for (const kind of ['a public.key', 'a post-quantum public.key'] as const) {
      const identity = execFileSync('age-plugin-sealpin', [at(people[kind].key)], { env });
      await writeFile(join(folder, 'identity.txt'), identity);
      const argv = ['-d', '-i', join(folder, 'identity.txt'), at(`${kind}.to.age`)];
      expect(execFileSync(installed('rage'), argv, { env, encoding: 'utf8' })).toBe(text);
    }
  });
});
