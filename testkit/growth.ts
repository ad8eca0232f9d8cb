/** How the time of a function grows with its input: functions of untrusted text must be linear. */

/** Characters of the small and of the large input. */
const small = 8 * 1024;
const large = 64 * 1024;
const rounds = 5;

/** A ratio above this is not linear, whatever else the machine does; quadratic work takes 64 times as long for eight times the input. */
export const linear = 24;

/** The resolution of a measurement, in ms. */
const floorMs = 0.5;

/**
 * How many times as long `work` takes on eight times the input, each the best of several rounds.
 *
 * @param input makes an input of so many characters
 * @param work may throw or reject
 * @param o.floorMs a shorter time of the small input counts as this, in ms
 */
export async function growth<T>(
  input: (characters: number) => T,
  work: (input: T) => unknown,
  o: { floorMs?: number } = {},
): Promise<number> {
  return (await best(input(large), work)) / Math.max(await best(input(small), work), o.floorMs ?? floorMs);
}

async function best<T>(input: T, work: (input: T) => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const start = performance.now();
    try {
      await work(input);
    } catch {
      // Most of these inputs are refused; the time of that counts.
    }
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

/** Makes text of at least so many characters: `start`, `part` repeated, `end`. */
export function repeated(start: string, part: string, end = ''): (characters: number) => string {
  return (characters) => start + part.repeat(Math.ceil(characters / part.length)) + end;
}
