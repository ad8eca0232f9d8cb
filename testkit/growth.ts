/** How the time of a function grows with its input: what takes untrusted text has to be linear. */

/** Characters of the small and of the large input. */
const small = 8 * 1024;
const large = 64 * 1024;
const rounds = 5;

/** Above this, work on eight times the input is not linear, whatever the machine does beside it; quadratic work takes 64 times. */
export const linear = 24;

/** What a measurement cannot tell from nothing, in ms. */
const floorMs = 0.5;

/**
 * How many times as long work takes on eight times the input; the best of several rounds each.
 * @param input of so many characters @param work what it throws or rejects with is part of its work
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
      // Most of these inputs are refused: how long that takes is the question.
    }
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

/** Text of at least so many characters: a beginning, a part again and again, an end. */
export function repeated(start: string, part: string, end = ''): (characters: number) => string {
  return (characters) => start + part.repeat(Math.ceil(characters / part.length)) + end;
}
