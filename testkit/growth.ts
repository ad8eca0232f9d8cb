/** How the time of a function grows with its input: linear, where text is untrusted. */
import { sleep } from '../shared/streams/timing.ts';

/** The CPU time of this thread, in ms: what else the machine does is not in it. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Characters of the small and of the large input. */
const small = 8 * 1024;
const large = 64 * 1024;
const rounds = 5;

/** A ratio above this is not linear; that of quadratic work is 64. */
export const linear = 24;

/** The resolution of a measurement, in ms. */
const floorMs = 0.5;

/** Times that a ratio is measured: on a busy machine one measurement says little. */
const mostAttempts = 8;
const pauseMs = 250;

/**
 * Measures how many times as long `work` takes on eight times the input, each the best of several
 * rounds. The lowest ratio of several attempts counts, up to the first one that is linear;
 * quadratic work is above the limit in every one.
 * @param input makes an input of so many characters
 * @param work may throw or reject
 * @param o.floorMs a shorter time of the small input counts as this, in ms
 * @param o.attempts the most that are made
 * @param o.isElsewhere whether another process does the work, so that only the clock tells its time
 */
export async function growth<T>(
  input: (characters: number) => T,
  work: (input: T) => unknown,
  o: { floorMs?: number; attempts?: number; isElsewhere?: boolean } = {},
): Promise<number> {
  const now = o.isElsewhere === true ? () => performance.now() : threadMs;
  let ratio = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < (o.attempts ?? mostAttempts) && ratio >= linear; attempt += 1) {
    if (attempt > 0) await sleep(pauseMs * attempt);
    const smallMs = Math.max(await best(input(small), work, now), o.floorMs ?? floorMs);
    ratio = Math.min(ratio, (await best(input(large), work, now)) / smallMs);
  }
  return ratio;
}

async function best<T>(input: T, work: (input: T) => unknown, now: () => number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const start = now();
    try {
      await work(input);
    } catch {
      // Most of these inputs are refused; the time of that counts.
    }
    least = Math.min(least, now() - start);
  }
  return least;
}

/** Makes text of at least so many characters: `start`, `part` repeated, `end`. */
export function repeated(start: string, part: string, end = ''): (characters: number) => string {
  return (characters) => start + part.repeat(Math.ceil(characters / part.length)) + end;
}
