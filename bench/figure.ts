/** Figures beside those of a peer in the same run, since absolute times mean little. */

import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { cpuMsBelow, usedMs } from './process-stats.ts';

export const MiB = 2 ** 20;

/**
 * `value` and `peer.value` have the same unit. `target` bounds the value, its ratio to the peer's
 * (value ÷ peer), or both.
 */
export type Figure = {
  figure: string;
  unit: string;
  value: number;
  /** Half the distance between the fastest and the slowest run, in `unit`. */
  spread?: number | undefined;
  peer?: { name: string; value: number; spread?: number | undefined } | undefined;
  target?: { value?: Bound; ratio?: Bound } | undefined;
  /** The share of the processors that others used before each run, 0 to 1. */
  others?: number | undefined;
};
export type Bound = { atLeast: number } | { atMost: number };

/** Each `bench/*.bench.ts` exports `bench: Bench`. `measures`: what it measures, in a few words. */
export type Bench = { name: string; measures: string; run(): AsyncIterable<Figure> };

/** Checks whether the figure meets its target; undefined without one. */
export function isMet({ value, peer, target }: Figure): boolean | undefined {
  if (target === undefined) return undefined;
  const within = (bound: Bound | undefined, number: number | undefined): boolean =>
    bound === undefined ||
    (number !== undefined && ('atLeast' in bound ? number >= bound.atLeast : number <= bound.atMost));
  return within(target.value, value) && within(target.ratio, peer && value / peer.value);
}

/** `low` and `high`: the smallest and the largest run. */
export type Sample = { median: number; spread: number; low: number; high: number; others?: number };

/**
 * The median of the runs, half their range, and its ends.
 * @param runs one number each, at least one
 */
export function summarize(runs: readonly number[]): Sample {
  if (runs.length === 0) throw new RangeError('no runs to summarize');
  const sorted = runs.toSorted((a, b) => a - b);
  const ranked = (rank: number): number => sorted[rank] ?? Number.NaN;
  const [low, high] = [ranked(0), ranked(runs.length - 1)];
  const median = (ranked(Math.floor((runs.length - 1) / 2)) + ranked(Math.ceil((runs.length - 1) / 2))) / 2;
  return { median, spread: (high - low) / 2, low, high };
}

/** A sample as a figure. @param about what it is measured by */
export function figureOf(
  figure: string,
  unit: string,
  { median, spread, others }: Sample,
  about: Pick<Figure, 'peer' | 'target'> = {},
): Figure {
  return { figure, unit, value: median, spread, others, ...about };
}

/** A sample as the peer of a figure. */
export function peer(name: string, { median, spread }: Sample): NonNullable<Figure['peer']> {
  return { name, value: median, spread };
}

/** The seconds that some work takes. */
export async function secondsOf(work: () => unknown): Promise<number> {
  const begun = performance.now();
  await work();
  return (performance.now() - begun) / 1000;
}

/** Does some work so many times, in `lanes` at once. */
export async function inLanes(count: number, lanes: number, work: () => Promise<unknown>): Promise<void> {
  let left = count;
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (left > 0) {
        left -= 1;
        await work();
      }
    }),
  );
}

/** Result of one run of a task: a number, or several by name. */
type Run = number | Readonly<Record<string, number>>;
type Tasks = Readonly<Record<string, () => Promise<Run>>>;
type Samples<R extends Run> = R extends number ? Sample : { [Name in keyof R]: Sample };

/**
 * Runs several tasks in turn, so that a disturbance of the machine affects all of them alike.
 * Before each run the disk is synced, so that none pays for what another one left, and one line on
 * stderr says which it is.
 * @param tasks each resolves with the figure of one run, or with several
 * @param rounds runs of each, at least 1
 * @param o.warmUp whether a round before them does not count
 */
export async function interleave<T extends Tasks>(
  tasks: T,
  rounds = 5,
  { warmUp = true }: { warmUp?: boolean } = {},
): Promise<{ [K in keyof T]: Samples<Awaited<ReturnType<NonNullable<T[K]>>>> }> {
  const all = Object.entries(tasks).map(([name, task]) => ({ name, task, figures: new Map<string, number[]>() }));
  const shares: number[] = [];
  for (let round = warmUp ? 0 : 1; round <= rounds; round += 1) {
    for (const { name, task, figures } of all) {
      console.error(`  ${name}: ${round === 0 ? 'warm-up' : `${round} of ${rounds}`}`);
      spawnSync('sync');
      shares.push(await othersShare());
      const run = await task();
      for (const [figure, number] of Object.entries(typeof run === 'number' ? { '': run } : run))
        if (round > 0) figures.set(figure, [...(figures.get(figure) ?? []), number]);
    }
  }
  const others = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  const samples = all.map(({ name, figures }) => {
    const named = Object.fromEntries(
      [...figures].map(([figure, numbers]) => [figure, { ...summarize(numbers), others }]),
    );
    return [name, named[''] ?? named];
  });
  return Object.fromEntries(samples);
}

/** Time in which `othersShare` looks, in ms. */
const othersLookMs = 100;

/**
 * Processes that are ours beside this one and what descends from it, such as a service in the
 * background, which may work on what it got after it has answered.
 */
export const ownProcesses = new Set<number>([process.pid]);

/** The share of the processors that others use now, 0 to 1. */
export async function othersShare(): Promise<number> {
  const before = processorTimes();
  await setTimeout(othersLookMs);
  const after = processorTimes();
  const busyMs = after.all - before.all - (after.idle - before.idle) - usedMs(before.ours, after.ours);
  return Math.max(0, busyMs) / Math.max(1, after.all - before.all);
}

function processorTimes(): { idle: number; all: number; ours: Map<number, number> } {
  const times = cpus().map((processor) => processor.times);
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
  return {
    idle: sum(times.map(({ idle }) => idle)),
    all: sum(times.flatMap((each) => Object.values(each))),
    ours: cpuMsBelow([...ownProcesses]),
  };
}
