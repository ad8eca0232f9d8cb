/** Time that a pin may take, by the bytes of the blocks below it, and that its row stays for it. */

/** Extra time for each MiB at the slowest backend, in ms: over a network, at 4 MiB/s. */
export const slowestMsPerMib = 250;
/** Time for what a pin needs besides, in ms: several times as long as any backend takes. */
const besidesMs = 600_000;

/** Returns so many bytes in MiB, of which the last one may not be whole. */
export function mebibytes(bytes: number): number {
  return Math.ceil(bytes / 1_048_576);
}

/** Returns the longest that a pin may take at any backend, in ms. */
export function longestPinMs(bytes: number): number {
  return besidesMs + mebibytes(bytes) * slowestMsPerMib;
}
