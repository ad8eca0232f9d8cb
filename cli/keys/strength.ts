/** What a password is worth against someone who has the ciphertext. Loaded only when a password is set. */
import { ZxcvbnFactory } from '@zxcvbn-ts/core';
import { adjacencyGraphs, dictionary as common } from '@zxcvbn-ts/language-common';
import { dictionary as english } from '@zxcvbn-ts/language-en';

/**
 * Guesses a second of a rich attacker: about 400 for one large graphics card at scrypt N = 2^18, r = 8 (memory traffic is
 * what limits it), and some 250 such cards.
 */
const guessesPerSecond = 100_000;
const weakYears = 1000;
const shortChars = 15;
/** More characters change nothing and cost time. */
const judgedChars = 64;
const yearSeconds = 365.25 * 24 * 3600;

/** Sorting its dictionaries takes a while, once. */
const judge = new ZxcvbnFactory({ dictionary: { ...common, ...english }, graphs: adjacencyGraphs });

/**
 * @returns a sentence when the password is short (under 15 characters) or likely to be found; undefined when it is fine
 */
export async function weakness(password: string): Promise<string | undefined> {
  const { guesses } = await judge.checkAsync(password.slice(0, judgedChars));
  const seconds = guesses / 2 / guessesPerSecond;
  const short = Array.from(password).length < shortChars;
  if (!short && seconds > weakYears * yearSeconds) return undefined;
  return `this password is ${seconds > weakYears * yearSeconds ? 'short' : 'weak'}: someone with a copy of the blob and 250 graphics cards finds it in ${timeText(seconds)}; what is on IPFS stays there (--generate makes a strong one)`;
}

/** A rough time for people: `about 3 hours`. */
export function timeText(seconds: number): string {
  if (seconds < 1) return 'less than a second';
  const steps = [
    ['second', 1],
    ['minute', 60],
    ['hour', 3600],
    ['day', 86_400],
    ['month', yearSeconds / 12],
    ['year', yearSeconds],
  ] as const;
  const [unit, size] = steps.findLast(([, size]) => seconds >= size)!;
  const count = Math.round(seconds / size);
  if (count >= 1_000_000) return 'more than a million years';
  return `about ${count.toLocaleString('en')} ${unit}${count === 1 ? '' : 's'}`;
}
