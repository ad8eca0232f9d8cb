/** The command line as a user runs it: its start, small files, a large one, and its memory. */
import { execFileSync, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { kuboProgram } from '../testkit/programs/kubo.ts';
import { isInstalled } from '../testkit/programs/programs.ts';
import { ageRecipient, withCli, command, fillFile, sealpin, timed, watched } from './cli-fixture.ts';
import type { CliFixture } from './cli-fixture.ts';
import { interleave, peer, summarize, figureOf } from './figure.ts';
import type { Bench, Figure, Sample } from './figure.ts';
import { withoutShaInstructions } from './machine.ts';

const GiB = 2 ** 30;

/** `npm run bench commands`. */
export const bench: Bench = {
  name: 'commands',
  measures: 'the command line: start, small files, 1 GiB stored and fetched, memory at 4 GiB',
  async *run() {
    yield* withCli<Figure>(async function* (fixture) {
      yield* starting(fixture);
      yield* timeSmallFiles(fixture);
      yield* storing(fixture);
      yield* measureMemory(fixture);
    });
    // The service and every program take them from here.
    Object.assign(process.env, withoutShaInstructions);
    try {
      yield* withCli<Figure>((fixture) =>
        storing(fixture, { on: ', without SHA instructions', rounds: 1, warmUp: false }),
      );
    } finally {
      for (const name of Object.keys(withoutShaInstructions)) Reflect.deleteProperty(process.env, name);
    }
  },
};

async function* starting({ dir }: CliFixture): AsyncGenerator<Figure> {
  const node = (...args: string[]) => timed(() => execFileSync(process.execPath, args, { stdio: 'ignore' }));
  const help = await interleave({ sealpin: node(command, '--help'), node: node('-e', '0') }, 15);
  const bareNode = peer('node -e 0', help.node);
  yield figureOf('sealpin --help', 's', help.sealpin, { peer: bareNode, target: { ratio: { atMost: 2.5 } } });
  const { start } = await interleave({
    async start() {
      const begun = performance.now();
      const child = spawn(process.execPath, [command, 'start', '--port=0', `--data-dir=${join(dir, 'started')}`], {
        stdio: ['ignore', 'pipe', 'ignore'],
      });
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
  yield figureOf('start to ready', 's', start, { target: { value: { atMost: 1 } } });
}

/** Times small files with the service running, which people feel. */
async function* timeSmallFiles({ dir, data, publicKey }: CliFixture): AsyncGenerator<Figure> {
  const [file, out] = [join(dir, 'small'), join(dir, 'small-out')];
  await fillFile(file, 4096);
  const blob = sealpin('ecc-encrypt', file, publicKey, '--quiet', data);
  const times = await interleave(
    {
      encrypt: timed(() => sealpin('ecc-encrypt', file, publicKey, '--quiet', data)),
      decrypt: timed(() => sealpin('ecc-decrypt', blob, out, '--force', '--quiet', data)),
      version: timed(() => sealpin('--version')),
      node: timed(() => execFileSync(process.execPath, ['-e', '0'])),
    },
    15,
  );
  const row = (figure: string, sample: Sample, target: Figure['target']): Figure =>
    figureOf(figure, 's', sample, { peer: peer('node -e 0', times.node), target });
  yield row('ecc-encrypt of 4 KiB', times.encrypt, { value: { atMost: 0.25 }, ratio: { atMost: 4 } });
  yield row('ecc-decrypt of 4 KiB', times.decrypt, { value: { atMost: 0.25 }, ratio: { atMost: 4 } });
  yield row('sealpin --version', times.version, { ratio: { atMost: 1.5 } });
}

/** @param o.on said after the names of the figures */
async function* storing(
  { dir, data, publicKey }: CliFixture,
  { on = '', rounds = 2, warmUp = true } = {},
): AsyncGenerator<Figure> {
  const file = join(dir, 'big');
  await fillFile(file, GiB);
  const ours = inTwoSteps({
    store: () => sealpin('ecc-encrypt', file, publicKey, '--quiet', data),
    fetch: (blob) => sealpin('ecc-decrypt', blob, join(dir, 'out'), '--quiet', data),
    remove(blob) {
      rmSync(join(dir, 'out'));
      sealpin('delete', blob, '--quiet', data);
    },
  });
  const kubo = kuboProgram();
  if (kubo === undefined || !isInstalled('age', ['--version'])) {
    await interleave({ stored: ours.stored, fetched: ours.fetched }, rounds, { warmUp });
    yield figureOf(`${whole}${on}`, 's', summarize(ours.wholes.slice(-rounds)));
    return;
  }
  const env = { ...process.env, IPFS_PATH: join(dir, 'kubo') };
  execFileSync(kubo, ['init', '--profile=test'], { env, stdio: 'ignore' });
  const recipient = ageRecipient(dir);
  const shell = (line: string): string =>
    execFileSync('sh', ['-c', line], { env, cwd: dir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  const theirs = inTwoSteps({
    store: () =>
      shell(`age -r ${recipient} big | '${kubo}' --offline add -Q --cid-version=1 --raw-leaves --chunker=size-1048576`),
    fetch: (cid) => shell(`'${kubo}' --offline cat ${cid} | age -d -i age.key -o theirs`),
    sync: () => shell('sync theirs'),
    remove: (cid) => shell(`rm theirs; '${kubo}' --offline pin rm ${cid}; '${kubo}' --offline repo gc -q`),
  });
  const tasks = {
    stored: ours.stored,
    fetched: ours.fetched,
    theirsStored: theirs.stored,
    theirsFetched: theirs.fetched,
  };
  const times = await interleave(tasks, rounds, { warmUp });
  const last = (runs: readonly number[]): Sample => summarize(runs.slice(-rounds));
  const comparison = (figure: string, own: Sample, other: string, sample: Sample, atMost: number): Figure =>
    figureOf(`${figure}${on}`, 's', own, { peer: peer(other, sample), target: { ratio: { atMost } } });
  yield comparison(whole, last(ours.wholes), 'age | ipfs add, ipfs cat | age', last(theirs.wholes), 1);
  yield comparison('of it, ecc-encrypt and store', times.stored, 'age | ipfs add', times.theirsStored, 0.8);
  yield comparison('of it, ecc-decrypt', times.fetched, 'ipfs cat | age', times.theirsFetched, 1);
  yield comparison('the same', times.fetched, 'ipfs cat | age, and sync', last(theirs.synced), 1);
}

/**
 * A pause before each step. A virtual machine returns free memory to its host after some seconds
 * and gets it back page by page. A file written right after another was removed takes half the
 * time, and that must not decide the comparison.
 */
const pauseBeforeStep = (): Promise<void> => setTimeout(3000);

const whole = 'ecc-encrypt, store, ecc-decrypt: 1 GiB';

/**
 * Storing a file and fetching it, each timed alone and both together; the stored file is removed
 * afterwards.
 * @param o.sync what a peer leaves out: it brings the fetched file to the disk
 */
function inTwoSteps(o: { store(): string; fetch(id: string): unknown; sync?(): unknown; remove(id: string): unknown }) {
  /** Seconds of both together in each run, and of fetching and syncing. */
  const [wholes, synced]: [number[], number[]] = [[], []];
  let id = '';
  let storing = 0;
  return {
    async stored(): Promise<number> {
      await pauseBeforeStep();
      storing = await timed(() => (id = o.store()))();
      return storing;
    },
    async fetched(): Promise<number> {
      await pauseBeforeStep();
      const fetching = await timed(() => o.fetch(id))();
      wholes.push(storing + fetching);
      synced.push(fetching + (await timed(() => o.sync?.())()));
      o.remove(id);
      return fetching;
    },
    wholes,
    synced,
  };
}

async function* measureMemory({ dir, data, publicKey }: CliFixture): AsyncGenerator<Figure> {
  const target = { value: { atMost: 200 } };
  const file = join(dir, 'sparse');
  const handle = await open(file, 'w');
  await handle.truncate(4 * GiB);
  await handle.close();
  const stored = await watched(['ecc-encrypt', file, publicKey, '--quiet', data]);
  yield { figure: 'memory of ecc-encrypt at 4 GiB', unit: 'MiB', value: stored.peakMiB, target };
  const fetched = await watched(['ecc-decrypt', stored.stdout, join(dir, 'out'), '--quiet', data]);
  yield { figure: 'memory of ecc-decrypt at 4 GiB', unit: 'MiB', value: fetched.peakMiB, target };
}
