/** Encrypting and decrypting without a service, from file to file, next to age and openssl. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ageRecipient, buildCommand, fillFile, has, sealpin, timed } from './cli-fixture.ts';
import { interleave, peer, type Bench, type Figure, figureOf } from './figure.ts';

/** `npm run bench files`. */
export const bench: Bench = {
  name: 'files',
  measures: '1 GiB encrypted and decrypted from file to file, next to age and openssl',
  async *run() {
    buildCommand();
    const dir = await mkdtemp(join(tmpdir(), 'sealpin-bench-'));
    try {
      yield* compared(dir);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
};

async function* compared(dir: string): AsyncGenerator<Figure> {
  const path = (name: string): string => join(dir, name);
  const common = ['--force', '--quiet', `--data-dir=${path('data')}`];
  const run = (program: string, ...args: string[]) => timed(() => execFileSync(program, args, { stdio: 'ignore' }));
  await fillFile(path('in'), 2 ** 30);
  sealpin('keygen', '--quiet', `--data-dir=${path('data')}`);
  const tasks = {
    encrypt: timed(() =>
      sealpin('ecc-encrypt', path('in'), path('data/public.key'), '--output', path('ours'), ...common),
    ),
    decrypt: timed(() => sealpin('ecc-decrypt', path('ours'), path('out'), ...common)),
  };
  const openssl = ['enc', '-aes-256-ctr', '-pbkdf2', '-iter', '1', '-pass', 'pass:bench'];
  const peers = {
    ...(has('age', '--version') && ageTasks(dir, run)),
    ...(has('openssl', 'version') && {
      opensslEncrypt: run('openssl', ...openssl, '-in', path('in'), '-out', path('in.ssl')),
      opensslDecrypt: run('openssl', ...openssl, '-d', '-in', path('in.ssl'), '-out', path('out.ssl')),
    }),
  };
  const samples = await interleave<string>({ ...tasks, ...peers }, 2);
  for (const way of ['encrypt', 'decrypt'] as const)
    for (const [name, key, atMost] of [
      ['age', way === 'encrypt' ? 'ageEncrypt' : 'ageDecrypt', 1.2],
      ['openssl enc (not authenticated)', way === 'encrypt' ? 'opensslEncrypt' : 'opensslDecrypt', undefined],
    ] as const) {
      const [own, theirs] = [samples[way], samples[key]];
      if (own === undefined || theirs === undefined) continue;
      const figure = way === 'encrypt' ? 'ecc-encrypt --output, 1 GiB' : 'ecc-decrypt ./file, 1 GiB';
      const target = atMost === undefined ? undefined : { ratio: { atMost } };
      yield figureOf(figure, 's', own, { peer: peer(name, theirs), target });
    }
}

function ageTasks(dir: string, run: (program: string, ...args: string[]) => () => Promise<number>) {
  const path = (name: string): string => join(dir, name);
  const recipient = ageRecipient(dir);
  return {
    ageEncrypt: run('age', '-r', recipient, '-o', path('in.age'), path('in')),
    ageDecrypt: run('age', '-d', '-i', path('age.key'), '-o', path('out.age'), path('in.age')),
  };
}
