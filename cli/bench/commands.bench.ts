/** The command line as a user runs it: starting, storing and fetching a large file, and what it takes of memory. */
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { kuboProgram } from '../../worker/test/pinning/real.ts';
import { atDesk, command, fill, has, peer, sealpin, timed, watched } from './desk.ts';
import type { Desk } from './desk.ts';
import { interleave } from './figure.ts';
import type { Bench, Figure } from './figure.ts';

const GiB = 2 ** 30;

export const bench: Bench = {
  name: 'commands',
  run: () =>
    atDesk<Figure>(async function* (desk) {
      yield* starting(desk);
      yield* storing(desk);
      yield* memory(desk);
    }),
};

async function* starting({ dir }: Desk): AsyncGenerator<Figure> {
  const node = (...args: string[]) => timed(() => execFileSync(process.execPath, args, { stdio: 'ignore' }));
  const help = await interleave({ sealpin: node(command, '--help'), node: node('-e', '0') }, 15);
  yield { figure: 'sealpin --help', unit: 's', value: help.sealpin.median, spread: help.sealpin.spread, peer: peer('node -e 0', help.node), target: { ratio: { atMost: 2.5 } } };
  const { start } = await interleave({
    async start() {
      const begun = performance.now();
      const child = spawn(process.execPath, [command, 'start', '--port=0', `--data-dir=${join(dir, 'started')}`], { stdio: ['ignore', 'pipe', 'ignore'] });
      const ended = new Promise((resolve) => child.once('close', resolve));
      await new Promise((resolve, reject) => {
        child.stdout.once('data', resolve);
        child.once('close', () => reject(new Error('start ended')));
      });
      const seconds = (performance.now() - begun) / 1000;
      child.kill('SIGTERM');
      await ended;
      return seconds;
    },
  });
  yield { figure: 'start to ready', unit: 's', value: start.median, spread: start.spread, target: { value: { atMost: 1 } } };
}

async function* storing({ dir, data, publicKey }: Desk): AsyncGenerator<Figure> {
  const file = join(dir, 'big');
  await fill(file, GiB);
  const ours = async (): Promise<number> => {
    let blob = '';
    const seconds = await timed(() => {
      blob = sealpin('ecc-encrypt', file, publicKey, '--quiet', data);
      sealpin('ecc-decrypt', blob, join(dir, 'out'), '--force', '--quiet', data);
    })();
    sealpin('delete', blob, '--quiet', data);
    return seconds;
  };
  const kubo = kuboProgram();
  const figure = 'ecc-encrypt, store, ecc-decrypt: 1 GiB';
  if (kubo === undefined || !has('age', '--version')) {
    const { sealpin: own } = await interleave({ sealpin: ours }, 3);
    yield { figure, unit: 's', value: own.median, spread: own.spread };
    return;
  }
  const env = { ...process.env, IPFS_PATH: join(dir, 'kubo') };
  execFileSync(kubo, ['init', '--profile=test'], { env, stdio: 'ignore' });
  execFileSync('age-keygen', ['-o', join(dir, 'age.key')], { stdio: 'ignore' });
  const recipient = /age1[a-z0-9]+/.exec(readFileSync(join(dir, 'age.key'), 'utf8'))![0];
  const shell = (line: string): string => execFileSync('sh', ['-c', line], { env, cwd: dir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  const theirs = async (): Promise<number> => {
    let cid = '';
    const seconds = await timed(() => {
      cid = shell(`age -r ${recipient} big | '${kubo}' --offline add -Q --cid-version=1 --raw-leaves --chunker=size-1048576`);
      shell(`'${kubo}' --offline cat ${cid} | age -d -i age.key -o theirs`);
    })();
    shell(`rm theirs; '${kubo}' --offline pin rm ${cid}; '${kubo}' --offline repo gc -q`);
    return seconds;
  };
  const times = await interleave({ sealpin: ours, age: theirs }, 5);
  yield { figure, unit: 's', value: times.sealpin.median, spread: times.sealpin.spread, peer: peer('age | ipfs add, ipfs cat | age', times.age), target: { ratio: { atMost: 1 } } };
}

async function* memory({ dir, data, publicKey }: Desk): AsyncGenerator<Figure> {
  const file = join(dir, 'sparse');
  const handle = await open(file, 'w');
  await handle.truncate(4 * GiB);
  await handle.close();
  const stored = await watched(['ecc-encrypt', file, publicKey, '--quiet', data]);
  yield { figure: 'memory of ecc-encrypt at 4 GiB', unit: 'MiB', value: stored.peakMiB, target: { value: { atMost: 200 } } };
  const fetched = await watched(['ecc-decrypt', stored.stdout, join(dir, 'out'), '--force', '--quiet', data]);
  yield { figure: 'memory of ecc-decrypt at 4 GiB', unit: 'MiB', value: fetched.peakMiB, target: { value: { atMost: 200 } } };
}
