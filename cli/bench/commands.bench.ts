/** The command line as a user runs it: starting, storing and fetching a large file, and what it takes of memory. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createWriteStream, readFileSync } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { randomBytes } from 'node:crypto';
import { packageRoot } from '../local/bundle.ts';
import { interleave } from './figure.ts';
import type { Bench, Figure } from './figure.ts';

const command = join(packageRoot(), 'dist/sealpin.js');
const GiB = 2 ** 30;

export const bench: Bench = { name: 'commands', run };

async function* run(): AsyncGenerator<Figure> {
  execFileSync(process.execPath, [join(packageRoot(), 'cli/build.ts')]);
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-bench-'));
  const data = `--data-dir=${join(dir, 'data')}`;
  try {
    yield* starting(dir);
    sealpin('start', '--detach', '--port=0', '--quiet', data);
    try {
      sealpin('keygen', '--quiet', data);
      yield* storing(dir, data);
      yield* memory(dir, data);
    } finally {
      sealpin('stop', '--quiet', data);
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function* starting(dir: string): AsyncGenerator<Figure> {
  const help = await interleave({ sealpin: timed([command, '--help']), node: timed(['-e', '0']) }, 15);
  yield { figure: 'sealpin --help', unit: 'ms', value: help.sealpin.median, spread: help.sealpin.spread, peer: peer('node -e 0', help.node), target: { ratio: { atMost: 2.5 } } };
  let round = 0;
  const { start } = await interleave({
    async start() {
      round += 1;
      const begun = performance.now();
      const child = spawn(process.execPath, [command, 'start', '--port=0', `--data-dir=${join(dir, 'started')}`], { stdio: ['ignore', 'pipe', 'ignore'] });
      const ended = new Promise((resolve) => child.once('close', resolve));
      await new Promise((resolve, reject) => {
        child.stdout.once('data', resolve);
        child.once('close', () => reject(new Error(`start ended in round ${round}`)));
      });
      const ms = performance.now() - begun;
      child.kill('SIGTERM');
      await ended;
      return ms;
    },
  });
  yield { figure: 'start to ready', unit: 'ms', value: start.median, spread: start.spread, target: { value: { atMost: 1000 } } };
}

async function* storing(dir: string, data: string): AsyncGenerator<Figure> {
  const file = join(dir, 'big');
  await fill(file, GiB);
  const ours = async (): Promise<number> => {
    const begun = performance.now();
    const blob = sealpin('ecc-encrypt', file, join(dir, 'data/public.key'), '--quiet', data).trim();
    sealpin('ecc-decrypt', blob, join(dir, 'out'), '--force', '--quiet', data);
    const seconds = (performance.now() - begun) / 1000;
    sealpin('delete', blob, '--quiet', data);
    return seconds;
  };
  const kubo = findKubo();
  const figure = 'ecc-encrypt, store and ecc-decrypt of 1 GiB';
  if (kubo === undefined || spawnSync('age', ['--version']).status !== 0) {
    const { sealpin: own } = await interleave({ sealpin: ours }, 3);
    yield { figure, unit: 's', value: own.median, spread: own.spread };
    return;
  }
  const env = { ...process.env, IPFS_PATH: join(dir, 'kubo') };
  execFileSync(kubo, ['init', '--profile=test'], { env, stdio: 'ignore' });
  execFileSync('age-keygen', ['-o', join(dir, 'age.key')], { stdio: 'ignore' });
  const recipient = /age1[a-z0-9]+/.exec(readFileSync(join(dir, 'age.key'), 'utf8'))![0];
  const shell = (line: string): string => execFileSync('sh', ['-c', line], { env, cwd: dir, encoding: 'utf8' });
  const theirs = async (): Promise<number> => {
    const begun = performance.now();
    const cid = shell(`age -r ${recipient} big | '${kubo}' --offline add -Q --cid-version=1 --raw-leaves --chunker=size-1048576`).trim();
    shell(`'${kubo}' --offline cat ${cid} | age -d -i age.key -o theirs`);
    const seconds = (performance.now() - begun) / 1000;
    shell(`rm theirs; '${kubo}' --offline pin rm ${cid}; '${kubo}' --offline repo gc -q`);
    return seconds;
  };
  const times = await interleave({ sealpin: ours, age: theirs }, 5);
  yield { figure, unit: 's', value: times.sealpin.median, spread: times.sealpin.spread, peer: peer('age | ipfs add, ipfs cat | age', times.age), target: { ratio: { atMost: 1 } } };
}

async function* memory(dir: string, data: string): AsyncGenerator<Figure> {
  const file = join(dir, 'sparse');
  const handle = await open(file, 'w');
  await handle.truncate(4 * GiB);
  await handle.close();
  const stored = await watched(['ecc-encrypt', file, join(dir, 'data/public.key'), '--quiet', data]);
  yield { figure: 'memory of ecc-encrypt at 4 GiB', unit: 'MiB', value: stored.peakMiB, target: { value: { atMost: 200 } } };
  const fetched = await watched(['ecc-decrypt', stored.stdout.trim(), join(dir, 'out'), '--force', '--quiet', data]);
  yield { figure: 'memory of ecc-decrypt at 4 GiB', unit: 'MiB', value: fetched.peakMiB, target: { value: { atMost: 200 } } };
}

/** Runs a command line and watches the high-water mark of its resident set (proc(5), VmHWM). */
async function watched(args: readonly string[]): Promise<{ stdout: string; peakMiB: number }> {
  const child = spawn(process.execPath, [command, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  let peakMiB = 0;
  const look = setInterval(() => {
    const mark = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1];
    if (mark !== undefined) peakMiB = Number(mark) / 1024;
  }, 50);
  const code = await new Promise((resolve) => {
    child.once('exit', () => clearInterval(look));
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`sealpin ${args[0]} ended with ${String(code)}`);
  return { stdout, peakMiB };
}

function sealpin(...args: string[]): string {
  return execFileSync(process.execPath, [command, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

function timed(args: readonly string[]): () => Promise<number> {
  return async () => {
    const begun = performance.now();
    execFileSync(process.execPath, args, { stdio: 'ignore' });
    return performance.now() - begun;
  };
}

function peer(name: string, sample: { median: number; spread: number }): NonNullable<Figure['peer']> {
  return { name, value: sample.median, spread: sample.spread };
}

/** Random bytes, which no layer can make smaller. */
async function fill(path: string, bytes: number): Promise<void> {
  const block = randomBytes(2 ** 24);
  async function* blocks(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes; at += block.length) {
      block.writeDoubleLE(at, 0);
      yield Buffer.from(block);
    }
  }
  await pipeline(blocks(), createWriteStream(path));
}

/** A real Kubo: `SEALPIN_KUBO`, or what `.ci/kubo` has built. */
function findKubo(): string | undefined {
  const built = spawnSync(join(packageRoot(), '.ci/kubo'), ['--find'], { encoding: 'utf8' });
  const path = process.env['SEALPIN_KUBO'] ?? (built.status === 0 ? built.stdout.trim() : '');
  return path === '' ? undefined : path;
}
