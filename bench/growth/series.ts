/** Measurements at several x: a picture with one line for each cost. */
import { sizeText } from '../../cli/terminal/progress.ts';
import { summarize } from '../figure.ts';
import type { Sample } from '../figure.ts';

/** The x axis. `base`: the factor from one tick to the next. */
export type Axis = { what: string; unit?: 'bytes'; base: number };

/** One measurement. `rounds`: how many runs were summarized. */
export type Point = Sample & { x: number; rounds: number };

/** Measurements of `what`, in `unit`; lines of a series that share both share a panel of the picture. */
export type Line = { name: string; what: string; unit: string; points: Point[] };

/** A chart: its axis of sizes, and one line for each thing that is measured. */
export type Series = { name: string; title: string; x: Axis; lines: Line[] };

/** `quick`: the smallest points alone, one round each. `step` reports what comes next, and throws when the user has stopped the run. */
export type Run = { quick: boolean; step(text: string): void };

/** Each `bench/growth/*.growth.ts` exports `growth: Growth`. */
export type Growth = { run(o: Run): AsyncIterable<Series> };

/** A line without points yet. */
export function line(name: string, what: string, unit: string): Line {
  return { name, what, unit, points: [] };
}

/** The point at x that summarizes some runs, in the unit of the line. */
export function at(x: number, runs: readonly number[]): Point {
  return { x, ...summarize(runs), rounds: runs.length };
}

/** Numbers from `first` to `last`, each `factor` times the one before. */
export function ladder(first: number, last: number, factor: number): number[] {
  const steps = Math.round(Math.log(last / first) / Math.log(factor));
  return Array.from({ length: steps + 1 }, (_, step) => first * factor ** step);
}

/** A value of the axis for people: `16 KiB`, `100,000`. */
export function textOf(x: number, { unit }: Axis): string {
  if (unit === 'bytes') return sizeText(x).replace('.0 ', ' ');
  return (x < 10 ? Number(x.toPrecision(2)) : Math.round(x)).toLocaleString('en');
}
