/** Encrypting and storing a file of 256 MiB, and getting it back, compared with the programs that people use for it today. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ageRecipient, withCli, fill, has, sealpin, timed } from './cli-fixture.ts';
import type { CliFixture } from './cli-fixture.ts';
import { interleave, peer } from './figure.ts';
import type { Bench, Figure } from './figure.ts';

const MiB = 2 ** 20;
const sizeMiB = 256;

/** `put` encrypts and stores `in`; `get` decrypts it into `out`. `forget` runs before each `put`, untimed. */
type Tool = { name: string; put(): unknown; get(): unknown; forget?(): unknown };

/** `npm run bench peers`. */
export const bench: Bench = {
  name: 'peers',
  measures: '256 MiB encrypted, stored and fetched, next to age, gpg, openssl, rclone and restic',
  run: () => withCli<Figure>(compared),
};

async function* compared(fixture: CliFixture): AsyncGenerator<Figure> {
  await fill(join(fixture.dir, 'in'), sizeMiB * MiB);
  const tools = [age, gpg, openssl, rclone, restic].flatMap((make) => make(fixture.dir) ?? []);
  const own = ours(fixture);
  for (const way of ['put', 'get'] as const) {
    const tasks = [own, ...tools].map((tool) => [tool.name, round(tool, way)] as const);
    const { [own.name]: mine, ...theirs } = await interleave<string>(Object.fromEntries(tasks), 2);
    if (mine === undefined) continue;
    for (const [name, sample] of Object.entries(theirs))
      yield {
        figure: `${sizeMiB} MiB, ${way === 'put' ? 'encrypt and store' : 'get and decrypt'}`,
        unit: 's',
        value: mine.median,
        spread: mine.spread,
        peer: peer(name, sample),
      };
  }
}

function round(tool: Tool, way: 'put' | 'get'): () => Promise<number> {
  const seconds = timed(tool[way]);
  return async () => {
    if (way === 'put') await tool.forget?.();
    return seconds();
  };
}

function ours({ dir, data, publicKey }: CliFixture): Tool {
  let blob = '';
  return {
    name: 'sealpin',
    forget: () => blob === '' || sealpin('delete', blob, '--quiet', data),
    put() {
      blob = sealpin('ecc-encrypt', join(dir, 'in'), publicKey, '--quiet', data);
    },
    get: () => sealpin('ecc-decrypt', blob, join(dir, 'out'), '--force', '--quiet', data),
  };
}

const runner =
  (dir: string, env: Record<string, string> = {}) =>
  (program: string, ...args: string[]) =>
    execFileSync(program, args, {
      cwd: dir,
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 2 ** 30,
      env: { ...process.env, ...env },
    });

function age(dir: string): Tool | undefined {
  if (!has('age', '--version')) return undefined;
  const run = runner(dir);
  const recipient = ageRecipient(dir);
  return {
    name: 'age',
    put: () => run('age', '-r', recipient, '-o', 'in.age', 'in'),
    get: () => run('age', '-d', '-i', 'age.key', '-o', 'out.age', 'in.age'),
  };
}

function gpg(dir: string): Tool | undefined {
  if (!has('gpg', '--version')) return undefined;
  const run = runner(dir);
  const common = [
    '--homedir',
    dir,
    '--batch',
    '--yes',
    '--quiet',
    '--pinentry-mode',
    'loopback',
    '--passphrase',
    'bench',
  ];
  return {
    name: 'gpg (AES-256, no compression)',
    put: () => run('gpg', ...common, '--compress-algo', 'none', '--cipher-algo', 'AES256', '-o', 'in.gpg', '-c', 'in'),
    get: () => run('gpg', ...common, '-o', 'out.gpg', '-d', 'in.gpg'),
  };
}

function openssl(dir: string): Tool | undefined {
  if (!has('openssl', 'version')) return undefined;
  const run = runner(dir);
  const common = ['enc', '-aes-256-ctr', '-pbkdf2', '-iter', '1', '-pass', 'pass:bench'];
  return {
    name: 'openssl enc (not authenticated)',
    put: () => run('openssl', ...common, '-in', 'in', '-out', 'in.ssl'),
    get: () => run('openssl', ...common, '-d', '-in', 'in.ssl', '-out', 'out.ssl'),
  };
}

function rclone(dir: string): Tool | undefined {
  if (!has('rclone', 'version')) return undefined;
  const run = runner(dir, {
    RCLONE_CONFIG: join(dir, 'rclone.conf'),
    RCLONE_CONFIG_BENCH_TYPE: 'crypt',
    RCLONE_CONFIG_BENCH_REMOTE: join(dir, 'rclone'),
    RCLONE_CONFIG_BENCH_PASSWORD: execFileSync('rclone', ['obscure', 'bench'], { encoding: 'utf8' }).trim(),
  });
  return {
    name: 'rclone crypt, local',
    put: () => run('rclone', 'copyto', '--ignore-times', 'in', 'bench:in'),
    get: () => run('rclone', 'copyto', '--ignore-times', 'bench:in', 'out.rclone'),
  };
}

function restic(dir: string): Tool | undefined {
  if (!has('restic', 'version')) return undefined;
  const run = runner(dir, {
    RESTIC_REPOSITORY: join(dir, 'restic'),
    RESTIC_PASSWORD: 'bench',
    RESTIC_CACHE_DIR: join(dir, 'restic-cache'),
  });
  return {
    name: 'restic, local',
    // A repository of its own each time: restic would find the same content again and store nothing.
    forget() {
      run('rm', '-rf', 'restic');
      run('restic', 'init', '--quiet');
    },
    put: () => run('restic', 'backup', '--quiet', 'in'),
    get: () =>
      run(
        'sh',
        '-c',
        'restic dump --quiet latest "$PWD/in" > out.restic || restic dump --quiet latest /in > out.restic',
      ),
  };
}
