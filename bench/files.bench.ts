/** Without a service: files next to age and openssl, folders next to tar and age. */
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isInstalled } from '../testkit/programs/programs.ts';
import { ageRecipient, command, fillFile, sealpin, timed, withCommand } from './cli-fixture.ts';
import { interleave, peer, type Bench, type Figure, figureOf } from './figure.ts';

/** `npm run bench files`. */
export const bench: Bench = {
  name: 'files',
  measures: '1 GiB from file to file, next to age and openssl; folders of small files, next to tar and age',
  async *run() {
    yield* withCommand<Figure>(async function* (dir) {
      yield* compared(dir);
      if (isInstalled('age', ['--version']) && isInstalled('bash', ['--version'])) yield* folders(dir);
    });
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
    ...(isInstalled('age', ['--version']) && ageTasks(dir, run)),
    ...(isInstalled('openssl', ['version']) && {
      opensslEncrypt: run('openssl', ...openssl, '-in', path('in'), '-out', path('in.ssl')),
      opensslDecrypt: run('openssl', ...openssl, '-d', '-in', path('in.ssl'), '-out', path('out.ssl')),
    }),
  };
  const samples = await interleave<Record<string, () => Promise<number>>>({ ...tasks, ...peers }, 2, { warmUp: false });
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

/** CPU time of folders of small files, of which starting the command line is about 0.12 s. */
async function* folders(dir: string): AsyncGenerator<Figure> {
  const path = (name: string): string => join(dir, name);
  const recipient = /age1[a-z0-9]+/.exec(readFileSync(path('age.key'), 'utf8'))?.[0] ?? '';
  const common = `--force --quiet '--data-dir=${path('data')}'`;
  const program = `'${process.execPath}' '${command}'`;
  for (const count of [2000, 10_000]) {
    const from = path(`folder-${count}`);
    for (let index = 0; index < count; index += 1) {
      const folder = join(from, String(index % 20));
      if (index < 20) await mkdir(folder, { recursive: true });
      await writeFile(join(folder, String(index)), randomBytes(500));
    }
    const samples = await interleave(
      {
        in: cpuOf(dir, `${program} ecc-encrypt '${from}' data/public.key --output ours ${common}`),
        out: cpuOf(dir, `${program} ecc-decrypt ./ours back --extract ${common.replace('--force', '')}`, 'back'),
        tarIn: cpuOf(dir, `tar -C '${from}' -cf - . | age -r ${recipient} -o theirs`),
        tarOut: cpuOf(dir, 'mkdir back && age -d -i age.key theirs | tar -C back -xf -', 'back'),
      },
      2,
    );
    const target = { ratio: { atMost: 5 } };
    const name = `${count} files of 500 B, CPU`;
    yield figureOf(`ecc-encrypt a folder, ${name}`, 's', samples.in, {
      peer: peer('tar | age', samples.tarIn),
      target,
    });
    yield figureOf(`--extract, ${name}`, 's', samples.out, { peer: peer('age | tar', samples.tarOut), target });
  }
}

/**
 * Makes a task that resolves with the CPU time of a line of bash.
 * @param made a folder that it makes
 */
function cpuOf(cwd: string, line: string, made?: string): () => Promise<number> {
  return async () => {
    if (made !== undefined) await rm(join(cwd, made), { recursive: true, force: true });
    const timing = `TIMEFORMAT='%3U %3S'; time { ${line}; } 2> /dev/null`;
    const { stderr, status } = spawnSync('bash', ['-o', 'pipefail', '-c', timing], { cwd, encoding: 'utf8' });
    if (status !== 0) throw new Error(`${line} failed`);
    return stderr
      .trim()
      .split(' ')
      .map(Number)
      .reduce((sum, seconds) => sum + seconds, 0);
  };
}
