/** Headers that are sealed while the key pair of their account may be replaced. */

/**
 * Hands a header over to the account, sealed to another public key where the account has that one
 * by now.
 * @param spki the public key that the account had before
 * @param attempt hands it over; `spki` alone: to what it must be sealed instead
 */
export async function withCurrentPair<T extends object>(spki: Uint8Array, attempt: (spki: Uint8Array) => Promise<T>) {
  for (let current = spki; ;) {
    const answer = await attempt(current);
    if (!('spki' in answer)) return answer as Exclude<T, { spki: Uint8Array }>;
    current = answer.spki as Uint8Array;
  }
}
