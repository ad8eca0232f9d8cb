/** What a bench measures, beside a peer in the same run: absolute times mean little on a shared machine. */

/** `value` and `peer.value` in the same unit. `target`: a bound of the value, of its ratio to the peer's (value ÷ peer), or both. */
export type Figure = {
  figure: string;
  unit: string;
  value: number;
  /** Half of the distance between the fastest and the slowest run, in the unit. */
  spread?: number;
  peer?: { name: string; value: number; spread?: number };
  target?: { value?: Bound; ratio?: Bound };
};
type Bound = { atLeast: number } | { atMost: number };

/** A bench file (`shared/bench/*.bench.ts`, `worker/bench/*.bench.ts`, `cli/bench/*.bench.ts`) exports `bench: Bench`. */
export type Bench = { name: string; run(): AsyncIterable<Figure> };

/** Whether the figure is where it should be; undefined without a target. */
export function isMet({ value, peer, target }: Figure): boolean | undefined {
  if (target === undefined) return undefined;
  const within = (bound: Bound | undefined, number: number | undefined): boolean =>
    bound === undefined ||
    (number !== undefined && ('atLeast' in bound ? number >= bound.atLeast : number <= bound.atMost));
  return within(target.value, value) && within(target.ratio, peer && value / peer.value);
}

/** `low` and `high`: the fastest and the slowest run, or the other way round where more is better. */
export type Sample = { median: number; spread: number; low: number; high: number };

/** The median of the runs, half of their range, and its ends. */
export function summarize(runs: readonly number[]): Sample {
  const sorted = runs.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const median = sorted.length % 2 === 1 ? sorted[Math.floor(middle)]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  const [low, high] = [sorted[0]!, sorted.at(-1)!];
  return { median, spread: (high - low) / 2, low, high };
}

/**
 * Runs several things in turn, so that what disturbs the machine disturbs each of them alike.
 *
 * @param tasks each gives one number, the figure of one run
 * @param rounds runs of each, at least 1; one more before them is thrown away
 */
export async function interleave<K extends string>(
  tasks: Record<K, () => Promise<number>>,
  rounds = 5,
): Promise<Record<K, Sample>> {
  const names = Object.keys(tasks) as K[];
  const runs = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<K, number[]>;
  for (let round = 0; round <= rounds; round += 1) {
    for (const name of names) {
      const figure = await tasks[name]();
      if (round > 0) runs[name].push(figure);
    }
  }
  return Object.fromEntries(names.map((name) => [name, summarize(runs[name])])) as Record<K, Sample>;
}
