/** The cost of a file from 1 KiB to 4 GiB: time and memory of the command line, and memory of the service behind it. */
import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { loadRun } from '../../cli/local/state.ts';
import { withCli, fill, sealpin, watched } from '../cli-fixture.ts';
import type { CliFixture } from '../cli-fixture.ts';
import { forgetPeak, peakMiB } from '../process-stats.ts';
import { at, ladder, line, textOf } from './series.ts';
import type { Axis, Growth, Run, Series } from './series.ts';

const MiB = 2 ** 20;
const GiB = 2 ** 30;

const x: Axis = { what: 'size of the file', unit: 'bytes', base: 4 };

export const growth: Growth = { run: (o) => withCli((fixture) => sizes(fixture, o), { keep: o.quick }) };

async function* sizes(fixture: CliFixture, { quick, step }: Run): AsyncGenerator<Series> {
  const times = [line('ecc-encrypt, stored', 'time', 's'), line('ecc-decrypt', 'time', 's')];
  const memory = ['ecc-encrypt', 'ecc-decrypt', 'workerd of the service', 'Node of the service'].map((name) =>
    line(name, 'peak of memory', 'MiB'),
  );
  const run = await loadRun(join(fixture.dir, 'data'));
  const [workerd] = run?.workerd ?? [];
  if (run === undefined || workerd === undefined) throw new Error('the local service does not run');
  const pids = [workerd.pid, run.service.pid];
  const file = join(fixture.dir, 'in');
  const smallest = 1024;
  const all = ladder(smallest, 4 * GiB, 4);
  await make(file, smallest);
  // The first run has costs of its own, which do not depend on the size.
  await roundTrip(fixture, file, pids);
  for (const bytes of quick ? all.slice(0, 3) : all) {
    await make(file, bytes);
    const runs: Cost[] = [];
    for (let round = quick ? 1 : roundsOf(bytes); round > 0; round -= 1) {
      step(`size: ${textOf(bytes, x)}, ${round} to go`);
      runs.push(await roundTrip(fixture, file, pids));
    }
    for (const [index, each] of times.entries())
      each.points.push(
        at(
          bytes,
          runs.map(({ seconds }) => seconds[index] ?? Number.NaN),
        ),
      );
    for (const [index, each] of memory.entries())
      each.points.push(
        at(
          bytes,
          runs.map(({ peaksMiB }) => peaksMiB[index] ?? Number.NaN),
        ),
      );
  }
  yield {
    name: 'size',
    title: 'Time of encrypting and storing a file, and of fetching and decrypting it',
    x,
    lines: times,
  };
  yield {
    name: 'memory',
    title: 'Memory of the command line and of the local service during a round trip of a file',
    x,
    lines: memory,
  };
}

function roundsOf(bytes: number): number {
  return bytes <= 64 * MiB ? 5 : bytes <= GiB ? 3 : 1;
}

/** Writes random bytes; large files are zeros, which are faster to make and cost the same once encrypted. */
async function make(file: string, bytes: number): Promise<void> {
  await rm(file, { force: true });
  if (bytes <= 64 * MiB) return fill(file, bytes);
  const handle = await open(file, 'w');
  await handle.truncate(bytes);
  await handle.close();
}

/** `seconds`: encrypting, decrypting. `peaksMiB`: the same two, then the processes of the service over both. */
type Cost = { seconds: number[]; peaksMiB: number[] };

async function roundTrip({ dir, data, publicKey }: CliFixture, file: string, pids: readonly number[]): Promise<Cost> {
  for (const pid of pids) forgetPeak(pid);
  const out = join(dir, 'out');
  const stored = await watched(['ecc-encrypt', file, publicKey, '--quiet', data]);
  const fetched = await watched(['ecc-decrypt', stored.stdout, out, '--force', '--quiet', data]);
  const served = pids.map((pid) => peakMiB(pid) ?? 0);
  if ((await stat(out)).size !== (await stat(file)).size) throw new Error('the decrypted file has another size');
  await rm(out);
  sealpin('delete', stored.stdout, '--quiet', data);
  return { seconds: [stored.seconds, fetched.seconds], peaksMiB: [stored.peakMiB, fetched.peakMiB, ...served] };
}
