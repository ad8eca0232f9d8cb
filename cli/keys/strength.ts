/** Estimate of how long a password resists who has the ciphertext. Loaded only for new ones. */
import { ZxcvbnFactory } from '@zxcvbn-ts/core';
import { adjacencyGraphs, dictionary as common } from '@zxcvbn-ts/language-common';
import { dictionary as english } from '@zxcvbn-ts/language-en';

/**
 * Guesses per second of a rich attacker: about 400 for one large graphics card at scrypt N = 2^18,
 * r = 8 (memory traffic is what limits it), and some 250 such cards.
 */
const guessesPerSecond = 100_000;
const weakYears = 1000;
const shortChars = 15;
/** More characters change nothing and cost time. */
const checkedChars = 64;
const yearSeconds = 365.25 * 24 * 3600;

/** Sorting its dictionaries takes a while, once. */
const estimator = new ZxcvbnFactory({ dictionary: { ...common, ...english }, graphs: adjacencyGraphs });

/** What a password guards: it decides what an attacker needs, and what still helps afterwards. */
export type Guarded = 'blob' | 'file' | 'key' | 'link';

const attackerWith: Readonly<Record<Guarded, string>> = {
  blob: 'with a copy of the blob',
  file: 'with a copy of the file',
  key: 'with a copy of the key file',
  link: 'who has opened the link once',
};

/** Returns a warning when a password is short (under 15 characters) or likely to be found. */
export async function strengthWarning(password: string, guarded: Guarded): Promise<string | undefined> {
  const { guesses } = await estimator.checkAsync(password.slice(0, checkedChars));
  const seconds = guesses / 2 / guessesPerSecond;
  const short = Array.from(password).length < shortChars;
  if (!short && seconds > weakYears * yearSeconds) return undefined;
  return (
    `this password is ${seconds > weakYears * yearSeconds ? 'short' : 'weak'}: an attacker ` +
    `${attackerWith[guarded]}, and with 250 GPUs, would find it in ${timeText(seconds)}` +
    `${guarded === 'blob' ? ', and copies on IPFS cannot be called back' : ''} (--generate creates a strong one)`
  );
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
  const [unit, size] = steps.findLast(([, size]) => seconds >= size) ?? steps[0];
  const count = Math.round(seconds / size);
  if (count >= 1_000_000) return 'more than a million years';
  return `about ${count.toLocaleString('en')} ${unit}${count === 1 ? '' : 's'}`;
}
